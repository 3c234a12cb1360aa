"""Judges the driver's answer about a group of snapshots, and finds the volume of each snapshot. Pure. See
`decide_after.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotContent, VolumeGroupSnapshotContentStatus, VolumeSnapshotInfo
from mooring.api.migration import UNSPECIFIED
from mooring.api.snapshot_kinds import imported_handle
from mooring.base.clock import rfc3339
from mooring.base.text import quoted
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.decide_after import (
    After,
    refused,
    taken,
    time_ns,
)
from mooring.sidecars.snapshotter.view import is_given_up


class Matching(msgspec.Struct, frozen=True):
    """volumes: of each snapshot, by our handle; "" where there is a problem. problem: why not every volume has its
    snapshot, "" for no problem.
    """

    volumes: tuple[str, ...]
    problem: str = ""


def after_group(content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, now_ns: int) -> After:
    """Judge the driver's answer about the group."""
    wanted = content.spec.source.volume_handles
    # A group that was there before was not requested by its volumes.
    matching = as_told(group.snapshots) if wanted is None else matched(wanted, group.snapshots)
    return after_answered(content, group, matching, now_ns)


def after_answered(
    content: VolumeGroupSnapshotContent, group: csi.VolumeGroupSnapshot, matching: Matching, now_ns: int
) -> After:
    """A group without id leaves the outcome open. Where its snapshots can't be told apart, their handles are kept, so
    that the group can be deleted (an import's are in its source), but not their volumes: no member is made, since its
    data could be another volume's. Members that were told once stay: a later answer may lack them, or their volumes.
    """
    imported = imported_handle(content)
    handle = group.group_snapshot_id if imported is None else imported
    if not handle or not all(one.snapshot_id for one in group.snapshots):
        return After(failure=refused(content, "the driver answered without an id"))
    old, created_ns = content.status or VolumeGroupSnapshotContentStatus(), time_ns(group, now_ns)
    known = {info.snapshot_handle: info for info in old.volume_snapshot_info_list or ()}
    is_known = bool(known) and all(info.volume_handle for info in known.values())
    problem = "" if is_known else matching.problem
    ready = group.ready_to_use and not problem
    if is_known:
        told = {one.snapshot_id: one for one in group.snapshots}
        infos = [_again(info, told.get(info.snapshot_handle), is_ready=ready) for info in known.values()]
    elif problem and imported is not None:
        infos = []
    else:
        infos = [
            _info(one, volume, created_ns, known.get(one.snapshot_id), is_ready=ready)
            for one, volume in zip(group.snapshots, matching.volumes, strict=True)
        ]
    new = VolumeGroupSnapshotContentStatus(
        volume_group_snapshot_handle=old.volume_group_snapshot_handle or handle,
        creation_time=old.creation_time or rfc3339(created_ns // 10**9),
        ready_to_use=ready,
        error=old.error if problem else None,
        volume_snapshot_info_list=tuple(infos) or None,
    )
    if problem and not is_given_up(content):
        return After(new if new != content.status else None, unmarks=True, failure=refused(content, problem))
    return msgspec.structs.replace(taken(content, new), unmarks=True)


def _info(
    one: csi.Snapshot, volume_handle: str, created_ns: int, known: VolumeSnapshotInfo | None, *, is_ready: bool
) -> VolumeSnapshotInfo:
    """The entry of a member. known: that of an earlier answer. is_ready: the group is ready, and so is each member."""
    time, size = time_ns(one, created_ns), one.size_bytes if one.size_bytes > 0 else None
    if known is not None:  # some drivers tell the time of the call: each look would be news, and a write
        time, size = known.creation_time or time, known.restore_size or size
    return VolumeSnapshotInfo(volume_handle, one.snapshot_id, time, one.ready_to_use or is_ready, size)


def _again(info: VolumeSnapshotInfo, one: csi.Snapshot | None, *, is_ready: bool) -> VolumeSnapshotInfo:
    """The entry of a known member. one: the driver's present answer about it, None for none."""
    if one is None:
        return msgspec.structs.replace(info, ready_to_use=info.ready_to_use or is_ready)
    return _info(one, info.volume_handle, info.creation_time or 0, info, is_ready=is_ready)


# -- which is of which volume


def matched(wanted: Sequence[str], snapshots: Sequence[csi.Snapshot]) -> Matching:
    """wanted: the volumes of the group."""
    told = [one.source_volume_id for one in snapshots]
    found = _pairs(wanted, told)
    if len(found) == len(told) == len(wanted):
        return Matching(tuple(found[place] for place in range(len(told))))
    shown = ", ".join(map(quoted, sorted(told))) or "no volume"
    return Matching(("",) * len(told), f"the driver answered with snapshots of {shown}")


def as_told(snapshots: Sequence[csi.Snapshot]) -> Matching:
    """Matches a group that was there before; only the driver knows its volumes."""
    told = tuple(one.source_volume_id for one in snapshots)
    is_clear = all(told) and len(set(told)) == len(told)
    return Matching(
        told,
        problem="" if is_clear else f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told)))}",
    )


def _have_parts(volume: str, name: str) -> bool:
    """True when one has all parts of the other, in any letters: a path, a type or a place around an id."""
    one, other = _parts(volume), _parts(name)
    return bool(one and other) and (one <= other or other <= one)


def _parts(handle: str) -> set[str]:
    found = "".join(sign if sign.isalnum() else " " for sign in handle.replace(UNSPECIFIED, ""))
    return set(found.casefold().split())


def _hold(volume: str, name: str) -> bool:
    """True when one holds the other as a whole, in any letters and separators."""
    one, other = ("".join(filter(str.isalnum, text)).casefold() for text in (volume, name))
    return bool(one and other) and (one in other or other in one)


_ALIKE: Final = (str.__eq__, _have_parts, _hold)
"""Whether a volume's handle and a driver's name for it are the same, from the surest to the boldest."""


def _pairs(wanted: Sequence[str], told: Sequence[str]) -> dict[int, str]:
    """The volumes, by the place of their snapshot, as far as there is one choice alone; at last the volume that is left
    goes to the snapshot whose name is like none.
    """
    found: dict[int, str] = {}
    left = list(wanted)

    def is_like_none(_: str, name: str) -> bool:
        return not any(fits(volume, name) for volume in wanted for fits in _ALIKE)

    for fits in (*_ALIKE, is_like_none):
        while choice := _one_choice(left, {place: name for place, name in enumerate(told) if place not in found}, fits):
            place, volume = choice
            found[place] = volume
            left.remove(volume)
    return found


def _one_choice(left: Sequence[str], told: dict[int, str], fits: Callable[[str, str], bool]) -> tuple[int, str] | None:
    for place, name in told.items():
        volumes = [volume for volume in left if fits(volume, name)]
        if len(volumes) == 1:
            return place, volumes[0]
    return None
