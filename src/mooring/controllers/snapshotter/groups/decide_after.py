"""What follows from the driver's answer about a group: as for single snapshots. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContent, VolumeGroupSnapshotContentStatus, VolumeSnapshotInfo
from mooring.base.clock import rfc3339
from mooring.base.text import quoted
from mooring.controllers.snapshotter.decide_after import is_refusal, time_ns
from mooring.controllers.snapshotter.decision import Failure
from mooring.controllers.snapshotter.groups.decide import CREATION_FAILED, CREATION_TEXT
from mooring.controllers.snapshotter.groups.view import is_given_up
from mooring.controllers.snapshotting.names import GROUP_BEING_CREATED
from mooring.csi.codes import DriverError
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """status: to be written, None for as it is. unmarks: the outcome is known. nothing_made: it is that the driver has nothing.

    again: more is to be done at once. polls: ask later.
    """

    status: VolumeGroupSnapshotContentStatus | None = None
    unmarks: bool = False
    nothing_made: bool = False
    failure: Failure | None = None
    again: bool = False
    polls: bool = False


def after_answered(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, now_ns: int) -> After:
    """The driver told of the group. A group without id, or with snapshots of other volumes, is refused: the outcome stays open."""
    problem = _problem(content, group)
    if problem:
        return After(failure=_refused(content, problem))
    old = content.status or VolumeGroupSnapshotContentStatus()
    created_ns = time_ns(group, now_ns)
    new = VolumeGroupSnapshotContentStatus(
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or _id(content, group),
        creation_time=old.creation_time or rfc3339(created_ns // 10**9),
        ready_to_use=group.ready_to_use,
        volume_snapshot_info_list=tuple(_info(one, created_ns, is_ready=group.ready_to_use) for one in group.snapshots) or None,
    )
    over = group.ready_to_use or is_given_up(content)
    return After(new if new != old else None, unmarks=True, again=over, polls=not over)


def _problem(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot) -> str:
    if not _id(content, group) or not all(one.snapshot_id for one in group.snapshots):
        return "the driver answered without an id"
    wanted, told = set(content.spec.source.volume_handles or ()), {one.source_volume_id for one in group.snapshots}
    if wanted and wanted != told:
        return f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told))) or 'no volume'}"
    return ""


def _id(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot) -> str:
    """An imported group is known by the id that it was imported with."""
    imported = content.spec.source.group_snapshot_handles
    return group.group_snapshot_id if imported is None else imported.volume_group_snapshot_handle


def _info(one: csi.Snapshot, created_ns: int, *, is_ready: bool) -> VolumeSnapshotInfo:
    """is_ready: the group is, which means that each of it is."""
    size = one.size_bytes if one.size_bytes > 0 else None
    return VolumeSnapshotInfo(one.source_volume_id, one.snapshot_id, time_ns(one, created_ns), one.ready_to_use or is_ready, size)


def after_refused(content: VolumeGroupSnapshotContent, name: str, error: DriverError, *, is_first: bool) -> After:
    """CreateVolumeGroupSnapshot failed. name: as it was asked for. is_first: no request before this one can have made anything."""
    over, going = is_first and is_refusal(error), is_given_up(content)
    if over and going:
        return After(unmarks=True, nothing_made=True, again=True)
    if going and is_refusal(error):
        return After(failure=_open(content, name, error))
    return After(unmarks=over, nothing_made=over, failure=_refused(content, quoted(str(error))))


def _open(content: VolumeGroupSnapshotContent, name: str, error: DriverError) -> Failure:
    """Of a content that would go, if only it were known what was made. Drivers list no groups."""
    what = f"group snapshot {quoted(name)} of the volumes {_volumes(content)}"
    way_out = f"where the storage has none, take the annotation {GROUP_BEING_CREATED} off"
    text = f"{CREATION_TEXT}an earlier request may have made {what}: {way_out}; the driver refuses to tell: {quoted(str(error))}"
    return Failure(CREATION_FAILED, text)


def _refused(content: VolumeGroupSnapshotContent, text: str) -> Failure:
    return Failure(CREATION_FAILED, f"{CREATION_TEXT}failed to take group snapshot of the volumes {_volumes(content)}: {text}")


def _volumes(content: VolumeGroupSnapshotContent) -> str:
    return f"[{' '.join(content.spec.source.volume_handles or ())}]"


def as_json(status: VolumeGroupSnapshotContentStatus | None) -> dict[str, Any] | None:
    """None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found
