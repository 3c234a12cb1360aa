"""Carries out the decisions of the snapshot controller, in order, and shows failures on the snapshot."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.core import ObjectReference
from mooring.api.meta import Key, Kind, Object, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.base.clock import rfc3339
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots.decide_claim import user_of
from mooring.cluster.snapshots.status import as_json
from mooring.cluster.snapshots.view import View
from mooring.cluster.snapshots.writes import Writes
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.slim import changed
from mooring.control.told import Told
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, NotFound

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
"""For a status' message: the API server takes more, and an Event shows no more."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Warning:
    """Of an action that the API server refused. saved: in the status, too. also: reason and beginning of a second one."""

    reason: str
    text: str
    saved: bool = False
    also: tuple[str, str] | None = None

    def failure(self, error: ApiError) -> d.Failure:
        also = None if self.also is None else (self.also[0], f"{self.also[1]}{error}")
        return d.Failure(self.reason, f"{self.text}{error}", saved=self.saved, also=also)


_CREATION: Final = _Warning("SnapshotContentCreationFailed", "Failed to create snapshot content with error ", saved=True)
_WARNINGS: Final[Mapping[type, _Warning]] = {
    d.Protect: _Warning("SnapshotFinalizerError", "Failed to check and update snapshot: "),
    d.HoldClaim: _CREATION,
    d.CreateContent: dataclasses.replace(
        _CREATION, also=("CreateSnapshotContentFailed", "Error creating volume snapshot content object for snapshot: ")
    ),
    d.BindContent: _Warning("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, ", saved=True),
    d.MarkDeleted: _Warning("SnapshotContentObjectDeleteError", "Failed to mark snapshot content API object: "),
    d.UnmarkDeleted: _Warning("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, "),
    d.Release: _Warning("SnapshotFinalizerError", "Failed to check and update snapshot: "),
    d.DeleteContent: _Warning("SnapshotContentObjectDeleteError", "Failed to delete snapshot content API object: "),
    d.SaveStatus: _Warning("SnapshotStatusUpdateFailed", "Snapshot status update failed, "),
}


class Failed(MooringError):
    """An action failed. failure: what the user is told."""

    def __init__(self, failure: d.Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Reconciler:
    """caches: by the plural of their kind, for what can be looked up."""

    def __init__(self, runtime: Runtime, view: View, writes: Writes, events: EventRecorder, caches: Mapping[str, Informer[Any]]) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._view, self._writes, self._events, self._caches = view, writes, events, caches
        self.told = Told()

    async def carry_out(self, actions: tuple[d.Action, ...]) -> None:
        """Performs the actions in order. Raises Failed where the user is to be told, ApiError where nobody is, and Stale."""
        for action in actions:
            try:
                await self._perform(action)
            except ApiError as error:
                warning = _WARNINGS.get(type(action))
                if warning is None:
                    raise
                raise Failed(warning.failure(error)) from error

    async def _perform(self, action: d.Action) -> None:
        writes = self._writes
        match action:
            case d.LookUp():
                await look_up(self._cluster, self._caches[action.kind.plural], action)
            case d.Protect(snapshot, finalizers, class_name):
                await writes.protect(snapshot, finalizers, class_name)
            case d.JoinGroup(snapshot, owner):
                await writes.join_group(snapshot, owner)
            case d.HoldClaim(claim):
                await writes.hold_claim(claim)
            case d.ReleaseClaim(key):
                await writes.release_claim(key, lambda: self._is_needed(key))
            case d.CreateContent(body):
                await writes.create_content(body)
            case d.BindContent(content, uid, class_name):
                await writes.bind_content(content, uid, class_name)
            case d.ProtectContent(content):
                await writes.protect_content(content)
            case d.MarkDeleted(content):
                await writes.mark_deleted(content)
            case d.UnmarkDeleted(content):
                await writes.unmark_deleted(content)
            case d.Touch(content):
                await writes.touch(content)
            case d.DeleteContent(content):
                await writes.delete_content(content)
            case d.Release(snapshot, finalizers):
                await writes.release(snapshot, finalizers)
            case d.SaveStatus(snapshot, status):
                await writes.save_status(snapshot, status)
            case d.Tell(obj, kind, type_, reason, message):
                self.tell(obj, kind, type_, reason, message)

    def _is_needed(self, key: Key) -> bool:
        claim = self._view.claims.get(key)
        return claim is not None and bool(user_of(self._view, claim))

    # -- what users are told

    async def show(self, key: Key, failure: d.Failure) -> bool:
        """Tells the failure by an Event and, if it is to be saved, in the status; the same one is told once by each process: the one that
        wrote it may have died before its Event was sent. False for one that stood there before. Raises ApiError, after telling, where the
        status could not be written.
        """
        snapshot = self._view.snapshots.get(key)
        if snapshot is None:
            return False
        text, is_new, refused = shortened(failure.error, ERROR_BYTES_MAX), True, None
        if failure.saved:
            status = as_json(snapshot.status) or {}
            is_new = not is_told(status, text, unready=failure.unready)
            if is_new:
                refused = await self._save_error(snapshot, status, text, unready=failure.unready)
            if not self.told.note(snapshot.metadata.uid, text, self._clock.now()) and not is_new:
                return False
        for reason, message in ((failure.event, text), *((failure.also,) if failure.also else ())):
            self.tell(snapshot, VOLUME_SNAPSHOTS, "Warning", reason, message)
        if refused is not None:
            raise refused
        return is_new

    async def _save_error(self, snapshot: VolumeSnapshot, status: Mapping[str, Any], text: str, *, unready: bool) -> ApiError | None:
        """The API server's refusal, after which it has to be tried again; None where the snapshot has moved: its change brings it again."""
        error = {"time": rfc3339(self._clock.wall_s()), "message": text}
        shown = {**status, "error": error, **({"readyToUse": False} if unready else {})}
        try:
            await self._writes.save_status(snapshot, shown)
        except (ApiError, Stale) as problem:
            log.error("could not save the error in the status", error=problem, VolumeSnapshot=str(key_of(snapshot)))
            return problem if isinstance(problem, ApiError) else None
        return None

    def tell(self, obj: Object, kind: Kind[Any], type: str, reason: str, message: str) -> None:
        meta = obj.metadata
        ref = ObjectReference(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, type, reason, message)


async def look_up(cluster: Cluster, cache: Informer[Any], look: d.LookUp) -> None:
    """One GET, since the watches of different kinds are not in step. Raises Stale; strictly: ApiError."""
    kind, key = look.kind, look.key
    before = cache.store.get(key)
    try:
        cache.wrote(await cluster.get(kind, key.name, key.namespace))
    except NotFound:
        return
    except ApiError as error:  # then the cache is all we know
        if look.strictly:
            raise
        log.info(2, "could not ask for what the cache lacks", resource=kind.plural, name=str(key), why=str(error))
        return
    found = cache.store.get(key)
    if found is not None and changed(before, found):
        raise Stale(str(key))


def is_told(status: Mapping[str, Any], text: str, *, unready: bool) -> bool:
    """True when the status says this already."""
    same = (status.get("error") or {}).get("message") == text
    return same and (not unready or status.get("readyToUse") is False)
