"""Which snapshot of a group is of which volume, where the driver spells volumes in its own way. Pure; by the rules of `whose.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from mooring.base.text import quoted
from mooring.controllers.snapshotter.whose import is_alike, spelling
from mooring.csi.proto import csi_pb2 as csi


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
