"""Volumes without a claim, by class, mode and attributes class, then by access modes, ordered by size.

kube-controller-manager walks over every volume of a set of access modes for each claim; here a claim finds at once the
smallest volume that is large enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from sortedcontainers import SortedList

from mooring.api.binding import AVAILABLE, capacity_of, mode_of
from mooring.api.classes import class_of, volume_class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import is_deleting

Shape = tuple[str, str, str]
"""Class, volume mode and attributes class, in which a claim and its volume have to be equal."""
Modes = tuple[str, ...]
"""Access modes, sorted."""
_Place = tuple[Shape, Modes, tuple[Decimal, str]]


def shape_of_volume(pv: PersistentVolume) -> Shape:
    return volume_class_of(pv), mode_of(pv), pv.spec.volume_attributes_class_name or ""


def shape_of_claim(claim: PersistentVolumeClaim) -> Shape:
    return class_of(claim), mode_of(claim), claim.spec.volume_attributes_class_name or ""


def is_free(pv: PersistentVolume) -> bool:
    """True for a volume that any claim may take."""
    return pv.spec.claim_ref is None and pv.status.phase == AVAILABLE and not is_deleting(pv)


class AvailableVolumes:
    """The free volumes, from the first look and from changes; a search walks over those that are large enough."""

    def __init__(self) -> None:
        self._shapes: dict[Shape, dict[Modes, SortedList[tuple[Decimal, str]]]] = {}
        self._places: dict[str, _Place] = {}

    def move(self, name: str, pv: PersistentVolume | None) -> None:
        """Put the volume where it belongs now. pv: None for one that is gone."""
        before, after = self._places.get(name), None if pv is None else _place_of(pv)
        if before != after:
            if before is not None:
                self._take(before)
                del self._places[name]
            if after is not None:
                self._put(after)
                self._places[name] = after

    def fitting(self, shape: Shape, modes: frozenset[str], bytes_min: Decimal) -> Iterator[Iterator[str]]:
        """Names of volumes in groups of equal access modes, fewest first; each group smallest first."""
        groups = self._shapes.get(shape, {})
        for have in sorted(groups, key=lambda one: (len(one), one)):
            if modes <= frozenset(have):
                yield (name for _, name in groups[have].irange((bytes_min, "")))

    def _put(self, place: _Place) -> None:
        shape, modes, entry = place
        self._shapes.setdefault(shape, {}).setdefault(modes, SortedList()).add(entry)

    def _take(self, place: _Place) -> None:
        shape, modes, entry = place
        entries = self._shapes[shape][modes]
        entries.remove(entry)
        if not entries:
            del self._shapes[shape][modes]
            if not self._shapes[shape]:
                del self._shapes[shape]


def _place_of(pv: PersistentVolume) -> _Place | None:
    if not is_free(pv):
        return None
    return shape_of_volume(pv), tuple(sorted(set(pv.spec.access_modes or ()))), (capacity_of(pv), pv.metadata.name)
