"""Carries out the decisions about group snapshots, in order, and shows failures on the group."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import ObjectReference
from mooring.api.group_snapshot import GROUP_SNAPSHOTS, VolumeGroupSnapshot
from mooring.api.meta import Key, Kind, Object
from mooring.base.clock import rfc3339
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.cluster.snapshots.decision import Failure, HoldClaim, LookUp, Tell
from mooring.cluster.snapshots.groups.decide import CREATION_FAILED, CREATION_TEXT
from mooring.cluster.snapshots.groups.decision import Action, Create, Delete, Write
from mooring.cluster.snapshots.reconcile import ERROR_BYTES_MAX, is_told, look_up
from mooring.cluster.snapshots.writes import Writes
from mooring.control.events import EventRecorder
from mooring.control.object_writes import patch_object, stale_where_moved
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.told import Told
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.kube.patch import set_fields

log = logger(__name__)

_STATUS: Final = "status"


class Failed(MooringError):
    """An action failed. failure: what the user is told."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.error)
        self.failure = failure


class Reconciler:
    """caches: by the plural of their kind."""

    def __init__(self, runtime: Runtime, writes: Writes, events: EventRecorder, caches: Mapping[str, Informer[Any]]) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._writes, self._events, self._caches = writes, events, caches
        self.told = Told()

    async def carry_out(self, actions: tuple[Action, ...]) -> None:
        """Performs the actions in order. Raises Failed, ApiError where nobody is told, and Stale."""
        for action in actions:
            if isinstance(action, Tell):
                self.tell(action.obj, action.kind, action.type, action.reason, action.message)
                continue
            if isinstance(action, LookUp):
                await look_up(self._cluster, self._caches[action.kind.plural], action)
                continue
            try:
                await (self._writes.hold_claim(action.claim) if isinstance(action, HoldClaim) else self._write(action))
            except ApiError as error:
                raise Failed(_failure(action, error)) from error

    async def _write(self, action: Create | Write | Delete) -> None:
        """Raises ApiError, Stale."""
        cache = self._caches[action.kind.plural]
        match action:
            case Create(kind, body):
                await self._create(kind, body, cache)
            case Write(kind, obj, patch, _, subresource, binds):
                with self._writes.lost.noted(binds) if binds else contextlib.nullcontext():
                    await patch_object(self._cluster, cache, kind, obj, patch, subresource)
            case Delete(kind, obj):
                meta = obj.metadata
                with stale_where_moved():
                    try:
                        await self._cluster.delete(kind, meta.name, meta.namespace, uid=meta.uid)
                    except NotFound:
                        pass  # it is gone

    async def _create(self, kind: Kind[Any], body: Mapping[str, Any], cache: Informer[Any]) -> None:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
        ref = body["spec"].get("volumeSnapshotRef") or body["spec"].get("volumeGroupSnapshotRef")
        try:
            with self._writes.lost.noted(ref["uid"]) if ref is not None else contextlib.nullcontext():
                await cache.write(Key(namespace, name), self._cluster.create(kind, body, namespace))
        except AlreadyExists as error:
            cache.wrote(await self._cluster.get(kind, name, namespace))
            raise Stale(name) from error

    # -- what users are told

    async def show(self, key: Key, failure: Failure) -> bool:
        """Tells the failure by an Event and, if it is to be saved, in the group's status; the same one is told once by each process.
        False for one that stood there before.
        """
        group: VolumeGroupSnapshot | None = self._caches[GROUP_SNAPSHOTS.plural].store.get(key)
        if group is None:
            return False
        text, is_new = shortened(failure.error, ERROR_BYTES_MAX), True
        if failure.saved:
            before = None if group.status is None else msgspec.to_builtins(group.status)
            is_new = not is_told(before or {}, text, unready=failure.unready)
            if is_new:
                await self._save_error(group, before, text, unready=failure.unready)
            if not self.told.note(group.metadata.uid, text, self._clock.now()) and not is_new:
                return False
        for reason, message in ((failure.event, text), *((failure.also,) if failure.also else ())):
            self.tell(group, GROUP_SNAPSHOTS, "Warning", reason, message)
        return is_new

    async def _save_error(self, group: VolumeGroupSnapshot, before: Any, text: str, *, unready: bool) -> None:
        error = {"time": rfc3339(self._clock.wall_s()), "message": text}
        after = {**(before or {}), "error": error, **({"readyToUse": False} if unready else {})}
        patch = set_fields(group, _STATUS, before, after)
        assert patch is not None, "the error is new"
        try:
            await patch_object(self._cluster, self._caches[GROUP_SNAPSHOTS.plural], GROUP_SNAPSHOTS, group, patch, _STATUS)
        except (ApiError, Stale) as problem:
            log.error("could not save the error in the status", error=problem, VolumeGroupSnapshot=group.metadata.name)

    def tell(self, obj: Object, kind: Kind[Any], type: str, reason: str, message: str) -> None:
        meta = obj.metadata
        ref = ObjectReference(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, type, reason, message)


def _failure(action: Create | Write | Delete | HoldClaim, error: ApiError) -> Failure:
    if isinstance(action, HoldClaim):
        return Failure(CREATION_FAILED, f"{CREATION_TEXT}{error}")
    told = "" if isinstance(action, Write) else action.text
    text = f"{told or f'{action.kind.name}: '}{error}"
    if not isinstance(action, Create):
        return Failure(action.failed, text, saved=False)
    also = None if action.also is None else (action.also[0], f"{action.also[1]}{error}")
    return Failure(action.failed, text, saved=action.saved, also=also)
