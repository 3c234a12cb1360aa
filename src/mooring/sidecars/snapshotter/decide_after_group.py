"""Judges the driver's answer about a group of snapshots, and finds the volume of each snapshot. Pure. See `decide_after.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContent, VolumeGroupSnapshotContentStatus, VolumeSnapshotInfo
from mooring.base.clock import rfc3339
from mooring.base.text import quoted
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decide_after import (
    After,
    after_strangers,
    is_alike,
    other_handle,
    refused,
    spelling,
    taken,
    time_ns,
)
from mooring.sidecars.snapshotter.view import View, imported_handle, is_given_up


class Matching(msgspec.Struct, frozen=True):
    """volumes: of each snapshot, by our handle; as the driver says it where that is not known. strangers: volumes that are others'.

    problem: why not every volume has its snapshot, "" for no problem. warning: about other spellings that are taken, "" for none.
    """

    volumes: tuple[str, ...]
    strangers: tuple[str, ...] = ()
    problem: str = ""
    warning: str = ""


def after_group(view: View, content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, now_ns: int) -> After:
    """The driver told of the group."""
    wanted = content.spec.source.volume_handles
    if wanted is None:  # it was there before, and no volumes were asked for
        return after_answered(content, group, as_told(group.snapshots), now_ns)
    matching = matched(wanted, group.snapshots, lambda told: view.is_of_another_group(content, told))
    return after_answered(content, group, matching, now_ns)


def after_answered(
    content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, matching: Matching, now_ns: int
) -> After:
    """A group without id leaves the outcome open. One with snapshots of other volumes is not ours, and is not deleted. One whose snapshots
    can't be told apart is ours: it is kept in the status, so that it can be deleted; an import's handles are in its source.
    """
    imported = imported_handle(content)
    handle = group.group_snapshot_id if imported is None else imported
    if not handle or not all(one.snapshot_id for one in group.snapshots):
        return After(failure=refused(content, "the driver answered without an id"))
    if other := other_handle(content, handle, group.group_snapshot_id):
        return other
    if matching.strangers:
        return after_strangers(content, f"{matching.problem}: {quoted(group.group_snapshot_id)} is left alone")
    old, created_ns = content.status or VolumeGroupSnapshotContentStatus(), time_ns(group, now_ns)
    ready = group.ready_to_use and not matching.problem
    infos = [
        _info(one, volume, created_ns, is_ready=ready)
        for one, volume in zip(group.snapshots, matching.volumes, strict=True)
    ]
    new = VolumeGroupSnapshotContentStatus(
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or handle,
        creation_time=old.creation_time or rfc3339(created_ns // 10**9),
        ready_to_use=ready,
        error=old.error if matching.problem else None,
        volume_snapshot_info_list=None if matching.problem and imported is not None else tuple(infos) or None,
    )
    if matching.problem and not is_given_up(content):
        return After(new if new != content.status else None, unmarks=True, failure=refused(content, matching.problem))
    return msgspec.structs.replace(taken(content, new, matching.warning), unmarks=True)


def _info(one: csi.Snapshot, volume_handle: str, created_ns: int, *, is_ready: bool) -> VolumeSnapshotInfo:
    """is_ready: the group is, which means that each of it is."""
    size = one.size_bytes if one.size_bytes > 0 else None
    return VolumeSnapshotInfo(
        volume_handle, one.snapshot_id, time_ns(one, created_ns), one.ready_to_use or is_ready, size
    )


# -- which is of which volume


def matched(wanted: Sequence[str], snapshots: Sequence[csi.Snapshot], is_others: Callable[[str], bool]) -> Matching:
    """wanted: the volumes of the group. is_others: True for exactly the handle of a volume that another content is of."""
    told = [one.source_volume_id for one in snapshots]
    strangers = tuple(
        name
        for name in told
        if name and name not in wanted and (is_others(name) or not any(is_alike(v, name) for v in wanted))
    )
    found = _pairs(wanted, told)
    volumes = tuple(found.get(place, name) for place, name in enumerate(told))
    if strangers or not len(found) == len(told) == len(wanted):
        problem = f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told))) or 'no volume'}"
        return Matching(volumes, strangers, problem)
    return Matching(volumes, warning="; ".join(filter(None, map(spelling, volumes, snapshots))))


def as_told(snapshots: Sequence[csi.Snapshot]) -> Matching:
    """Matches a group that was there before; only the driver knows its volumes."""
    told = tuple(one.source_volume_id for one in snapshots)
    is_clear = all(told) and len(set(told)) == len(told)
    return Matching(
        told,
        problem="" if is_clear else f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told)))}",
    )


def _pairs(wanted: Sequence[str], told: Sequence[str]) -> dict[int, str]:
    """By the place of a snapshot its volume, as far as there is one choice alone."""
    found: dict[int, str] = {}
    left = list(wanted)
    for fits in (str.__eq__, _is_spelling, lambda volume, name: not name):
        while choice := _one_choice(left, {place: name for place, name in enumerate(told) if place not in found}, fits):
            place, volume = choice
            found[place] = volume
            left.remove(volume)
    return found


def _is_spelling(volume: str, name: str) -> bool:
    return bool(name) and is_alike(volume, name)


def _one_choice(left: Sequence[str], told: dict[int, str], fits: Callable[[str, str], bool]) -> tuple[int, str] | None:
    for place, name in told.items():
        volumes = [volume for volume in left if fits(volume, name)]
        if len(volumes) == 1:
            return place, volumes[0]
    return None
