"""The consequences of the driver's answer about a group: as for single snapshots. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContent, VolumeGroupSnapshotContentStatus, VolumeSnapshotInfo
from mooring.base.clock import rfc3339
from mooring.base.text import quoted
from mooring.controllers.snapshotter.decide_after import is_refusal, time_ns
from mooring.controllers.snapshotter.decision import Failure, Tell
from mooring.controllers.snapshotter.groups.decide import CHECK_FAILED, CHECK_TEXT, CREATION_FAILED, CREATION_TEXT, KEPT
from mooring.controllers.snapshotter.groups.matching import Matching
from mooring.controllers.snapshotter.groups.view import handle_of, is_given_up
from mooring.controllers.snapshotter.whose import SPELLED_OTHERWISE
from mooring.controllers.snapshotting.names import GROUP_BEING_CREATED
from mooring.csi.codes import DriverError
from mooring.csi.proto import csi_pb2 as csi


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """status: to be written, None for as it is. unmarks: the outcome is known. nothing_made: it is that the driver has nothing.

    again: more is to be done at once. polls: ask later. tells: a warning, once.
    """

    status: VolumeGroupSnapshotContentStatus | None = None
    unmarks: bool = False
    nothing_made: bool = False
    failure: Failure | None = None
    again: bool = False
    polls: bool = False
    tells: Tell | None = None


def after_answered(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, matching: Matching, now_ns: int) -> After:
    """The driver told of the group.

    A group without id leaves the outcome open. One with snapshots of other volumes is not ours, and is not deleted. One whose snapshots
    can't be told apart is ours: it is kept in the status, so that it can be deleted; an import's handles are in its source.
    """
    old, known = content.status or VolumeGroupSnapshotContentStatus(), handle_of(content)
    if not _id(content, group) or not all(one.snapshot_id for one in group.snapshots):
        return After(failure=_refused(content, "the driver answered without an id"))
    if known and known != _id(content, group):
        text = f"the driver answered with group snapshot {quoted(group.group_snapshot_id)}, and had answered with {quoted(known)}"
        return After(unmarks=True, failure=_refused(content, text))
    if matching.strangers:
        return _after_strangers(content, f"{matching.problem}: {quoted(group.group_snapshot_id)} is left alone")
    created_ns, ready = time_ns(group, now_ns), group.ready_to_use and not matching.problem
    infos = [_info(one, volume, created_ns, is_ready=ready) for one, volume in zip(group.snapshots, matching.volumes, strict=True)]
    new = VolumeGroupSnapshotContentStatus(
        volume_group_snapshot_handle=known or _id(content, group),
        creation_time=old.creation_time or rfc3339(created_ns // 10**9),
        ready_to_use=ready,
        error=old.error if matching.problem else None,
        volume_snapshot_info_list=None if matching.problem and content.spec.source.volume_handles is None else tuple(infos) or None,
    )
    return _after_taken(content, new, matching)


def _after_taken(content: VolumeGroupSnapshotContent, new: VolumeGroupSnapshotContentStatus, matching: Matching) -> After:
    going, tells = is_given_up(content), Tell(SPELLED_OTHERWISE, matching.warning) if matching.warning else None
    status = new if new != content.status else None
    if matching.problem and not going:
        return After(status, unmarks=True, failure=_refused(content, matching.problem))
    over = new.ready_to_use is True or going
    return After(status, unmarks=True, again=over, polls=not over, tells=tells)


def _after_strangers(content: VolumeGroupSnapshotContent, text: str) -> After:
    if is_given_up(content):
        return After(unmarks=True, nothing_made=True, again=True, tells=Tell(KEPT, text))
    status = content.status
    if status is not None:
        status = msgspec.structs.replace(
            status, volume_group_snapshot_handle=None, creation_time=None, ready_to_use=False, volume_snapshot_info_list=None
        )
    return After(status, unmarks=True, nothing_made=True, failure=_refused(content, text))


def _id(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot) -> str:
    """An imported group is known by the id that it was imported with."""
    imported = content.spec.source.group_snapshot_handles
    return group.group_snapshot_id if imported is None else imported.volume_group_snapshot_handle


def _info(one: csi.Snapshot, volume_handle: str, created_ns: int, *, is_ready: bool) -> VolumeSnapshotInfo:
    """is_ready: the group is, which means that each of it is."""
    size = one.size_bytes if one.size_bytes > 0 else None
    return VolumeSnapshotInfo(volume_handle, one.snapshot_id, time_ns(one, created_ns), one.ready_to_use or is_ready, size)


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


def after_unsaved(content: VolumeGroupSnapshotContent, error: str) -> Failure:
    """The API server does not take what the driver has answered. The mark stays: a deletion has to find it out."""
    text = f"the API server refused the driver's answer: {error}"
    if content.spec.source.volume_handles is not None and not handle_of(content):
        return Failure(CREATION_FAILED, f"{CREATION_TEXT}{text}")
    return Failure(CHECK_FAILED, f"{CHECK_TEXT}{text}")


def _refused(content: VolumeGroupSnapshotContent, text: str) -> Failure:
    if content.spec.source.volume_handles is None:
        return Failure(CHECK_FAILED, f"{CHECK_TEXT}{text}")
    return Failure(CREATION_FAILED, f"{CREATION_TEXT}failed to take group snapshot of the volumes {_volumes(content)}: {text}")


def _volumes(content: VolumeGroupSnapshotContent) -> str:
    return f"[{' '.join(content.spec.source.volume_handles or ())}]"


def as_json(status: VolumeGroupSnapshotContentStatus | None) -> dict[str, Any] | None:
    """None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found
