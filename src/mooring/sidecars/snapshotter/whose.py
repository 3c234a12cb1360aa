"""Decides whose snapshot an answer is about: of the requested volume, or of another one; and of which, in a group. Pure.

A driver names the source of a snapshot, and many spell it otherwise than the volume's handle: in other letters, by a longer or shorter
path, or not at all. csi-snapshotter never looks. So another spelling is taken, and told; but a snapshot of another volume is never taken,
and never deleted:

    the source is                                                        the snapshot is
    the handle itself                                                    the content's
    the handle in other letters, or one is the beginning or the end      the content's, with a warning that names both
    of the other's path, or one leaves parts of it open
    empty                                                                the content's, with a warning
    any of these, but exactly the volume of another content              another volume's
    anything else                                                        another volume's
    whatever, and another content has that handle of another volume      another volume's
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from mooring.api.migration import UNSPECIFIED
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.base.text import quoted
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.view import View

SPELLED_OTHERWISE: Final = "SourceVolumeSpelledOtherwise"


def is_alike(handle: str, told: str) -> bool:
    """True where one may be another spelling of the other."""
    short, long = sorted((_path(handle), _path(told)), key=len)
    return _fits(short, long[: len(short)]) or _fits(short, long[len(long) - len(short) :])


def _path(text: str) -> list[str]:
    return [part for part in text.casefold().split("/") if part]


def _fits(short: list[str], long: list[str]) -> bool:
    left_open = UNSPECIFIED.casefold()
    return all(one == other or left_open in (one, other) for one, other in zip(short, long, strict=True))


def stranger(view: View, content: VolumeSnapshotContent, snapshot: csi.Snapshot) -> str:
    """The proof that the snapshot is of another volume than its content's, "" for none, and for an import, which is of no volume."""
    handle, told = content.spec.source.volume_handle, snapshot.source_volume_id
    if handle is None:
        return ""
    if told != handle and (not is_alike(handle, told) or view.is_source(told)):
        return f"a snapshot of volume {quoted(told)}"
    other = view.other_volume_of(content, snapshot.snapshot_id)
    return f"a snapshot of volume {quoted(other)}, as another content has it" if other else ""


def spelling(handle: str | None, snapshot: csi.Snapshot) -> str:
    """The warning about another spelling that is taken, "" for none."""
    told, beginning = snapshot.source_volume_id, f"the driver names {{}} as the source of snapshot {quoted(snapshot.snapshot_id)}"
    if handle is None or told == handle:
        return ""
    named = beginning.format(quoted(told) if told else "no volume")
    return f"{named}, which was asked for of volume {quoted(handle)}: taken for {'another spelling of it' if told else 'that one'}"


# -- the snapshots of a group


@dataclasses.dataclass(frozen=True, slots=True)
class Matching:
    """volumes: of each snapshot, by our handle; as the driver says it where that is not known. strangers: volumes that are others'.

    problem: why not every volume has its snapshot, "" for no problem. warning: about other spellings that are taken, "" for none.
    """

    volumes: tuple[str, ...]
    strangers: tuple[str, ...] = ()
    problem: str = ""
    warning: str = ""


def matched(wanted: Sequence[str], snapshots: Sequence[csi.Snapshot], is_others: Callable[[str], bool]) -> Matching:
    """wanted: the volumes of the group. is_others: True for exactly the handle of a volume that another content is of."""
    told = [one.source_volume_id for one in snapshots]
    strangers = tuple(
        name for name in told if name and name not in wanted and (is_others(name) or not any(is_alike(v, name) for v in wanted))
    )
    found = _pairs(wanted, told)
    volumes = tuple(found.get(place, name) for place, name in enumerate(told))
    if strangers or not len(found) == len(told) == len(wanted):
        problem = f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told))) or 'no volume'}"
        return Matching(volumes, strangers, problem)
    return Matching(volumes, warning="; ".join(filter(None, map(spelling, volumes, snapshots))))


def as_told(snapshots: Sequence[csi.Snapshot]) -> Matching:
    """Of a group that was there before, of which only the driver knows the volumes."""
    told = tuple(one.source_volume_id for one in snapshots)
    is_clear = all(told) and len(set(told)) == len(told)
    return Matching(told, problem="" if is_clear else f"the driver answered with snapshots of {', '.join(map(quoted, sorted(told)))}")


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
