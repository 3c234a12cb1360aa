"""Tells users about snapshots: failures by Events and in the status. The texts for writes that the API server refuses stand here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from mooring.api.core import ObjectReference
from mooring.api.meta import Key, key_of
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots.kinds import GROUPS, SINGLES, Content, Row, Snapshot
from mooring.cluster.snapshots.objects import as_json
from mooring.cluster.snapshots.view import View, row_of
from mooring.cluster.snapshots.writes import Writes
from mooring.control.events import EventRecorder
from mooring.control.result import Stale
from mooring.control.told import Told
from mooring.kube.errors import ApiError

log = logger(__name__)

ERROR_BYTES_MAX: Final = 1024
"""For a status' message: the API server takes more, and an Event shows no more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Of an action by the API server. text: the beginning. saved: in the status, too. also: reason and beginning of a second Warning."""

    reason: str
    text: str
    saved: bool = False
    also: tuple[str, str] | None = None

    def failure(self, key: Key, error: Exception) -> d.Failure:
        also = None if self.also is None else (self.also[0], f"{self.also[1].format(key=key)}{error}")
        return d.Failure(self.reason, f"{self.text}{error}", saved=self.saved, also=also)


_CREATION: Final = Refusal("SnapshotContentCreationFailed", "Failed to create snapshot content with error ", saved=True)
_GROUP_CREATION: Final = Refusal("GroupSnapshotContentCreationFailed", "failed to create group snapshot content with error ", saved=True)
REFUSALS: Final[Mapping[str, Mapping[type, Refusal]]] = {
    SINGLES.noun: {
        d.Protect: Refusal("SnapshotFinalizerError", "Failed to check and update snapshot: "),
        d.HoldClaim: _CREATION,
        d.CreateContent: dataclasses.replace(
            _CREATION, also=("CreateSnapshotContentFailed", "Error creating volume snapshot content object for snapshot: ")
        ),
        d.BindContent: Refusal("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, ", saved=True),
        d.MarkDeleted: Refusal("SnapshotContentObjectDeleteError", "Failed to mark snapshot content API object: "),
        d.UnmarkDeleted: Refusal("SnapshotBindFailed", "Snapshot failed to bind VolumeSnapshotContent, "),
        d.DeleteContent: Refusal("SnapshotContentObjectDeleteError", "Failed to delete snapshot content API object: "),
        d.Release: Refusal("SnapshotFinalizerError", "Failed to check and update snapshot: "),
        d.SaveStatus: Refusal("SnapshotStatusUpdateFailed", "Snapshot status update failed, "),
    },
    GROUPS.noun: {
        d.Protect: Refusal("GroupSnapshotFinalizerError", "VolumeGroupSnapshot: "),
        d.HoldClaim: _GROUP_CREATION,
        d.CreateContent: dataclasses.replace(
            _GROUP_CREATION,
            also=("CreateGroupSnapshotContentFailed", "Error creating volume group snapshot content object for group snapshot {key}: "),
        ),
        d.BindContent: Refusal("GroupSnapshotBindFailed", "VolumeGroupSnapshotContent: ", saved=True),
        d.MarkDeleted: Refusal("GroupSnapshotContentObjectDeleteError", "VolumeGroupSnapshotContent: "),
        d.UnmarkDeleted: Refusal("GroupSnapshotBindFailed", "VolumeGroupSnapshotContent: "),
        d.DeleteContent: Refusal("GroupSnapshotContentObjectDeleteError", "Failed to delete group snapshot content API object: "),
        d.Release: Refusal("GroupSnapshotFinalizerError", "VolumeGroupSnapshot: "),
        d.SaveStatus: Refusal("GroupSnapshotStatusUpdateFailed", "VolumeGroupSnapshot: "),
        d.CreateMember: Refusal("CreateVolumeSnapshotFailed", "VolumeSnapshot: "),
        d.CreateMemberContent: Refusal("GroupSnapshotContentCreationFailed", "VolumeSnapshotContent: "),
        d.SaveMemberStatus: Refusal("GroupSnapshotStatusUpdateFailed", "VolumeSnapshotContent: "),
        d.DeleteMember: Refusal("GroupSnapshotDeleteError", "VolumeSnapshot: "),
    },
}
"""By the noun of a row; an action that is not named is only logged, and tried again."""


class Telling:
    """For the snapshots of one kind."""

    def __init__(self, row: Row, view: View, writes: Writes, events: EventRecorder, clock: Clock) -> None:
        self._row, self._view, self._writes, self._events, self._clock = row, view, writes, events, clock
        self._told = Told()

    def forget(self, uid: str) -> None:
        """The snapshot is gone."""
        self._told.forget(uid)

    async def show(self, key: Key, failure: d.Failure) -> bool:
        """Tells the failure by an Event and, if it is to be saved, in the status; the same one is told once by each process: the one that
        wrote it may have died before its Event was sent. False for one that stood there before. Raises ApiError, after telling, where the
        status could not be written.
        """
        snapshot: Snapshot | None = self._view.of(self._row).get(key)
        if snapshot is None:
            return False
        text, is_new, refused = shortened(failure.error, ERROR_BYTES_MAX), True, None
        if failure.saved:
            status = as_json(snapshot.status) or {}
            is_new = not _is_told(status, text, unready=failure.unready)
            if is_new:
                refused = await self._save_error(snapshot, status, text, unready=failure.unready)
            if not self._told.note(snapshot.metadata.uid, text, self._clock.now()) and not is_new:
                return False
        for reason, message in ((failure.event, text), *((failure.also,) if failure.also else ())):
            self.tell(snapshot, "Warning", reason, message)
        if refused is not None:
            raise refused
        return is_new

    async def _save_error(self, snapshot: Snapshot, status: Mapping[str, Any], text: str, *, unready: bool) -> ApiError | None:
        """The API server's refusal, after which it has to be tried again; None where the snapshot has moved: its change brings it again."""
        error = {"time": rfc3339(self._clock.wall_s()), "message": text}
        shown = {**status, "error": error, **({"readyToUse": False} if unready else {})}
        try:
            await self._writes.save_status(snapshot, shown)
        except (ApiError, Stale) as problem:
            log.error("could not save the error in the status", error=problem, **{self._row.kind.name: str(key_of(snapshot))})
            return problem if isinstance(problem, ApiError) else None
        return None

    def tell(self, obj: Snapshot | Content, type: str, reason: str, message: str) -> None:
        meta, row = obj.metadata, row_of(obj)
        kind = row.kind if isinstance(obj, row.kind.struct) else row.contents
        ref = ObjectReference(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid, meta.resource_version)
        self._events.event(ref, type, reason, message)


def _is_told(status: Mapping[str, Any], text: str, *, unready: bool) -> bool:
    """True when the status says this already."""
    same = (status.get("error") or {}).get("message") == text
    return same and (not unready or status.get("readyToUse") is False)
