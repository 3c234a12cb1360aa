"""Claims that look for a volume, by class, modes and size, so that a free volume finds its claim at once.

The mirror of `binder/available_volumes.py`. Claims that ask for the same are one group, in the order of their age; of
the groups that a volume could serve the one with the oldest claim is served. The cost is a look at each such group,
however many wait.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from sortedcontainers import SortedDict, SortedList

from mooring.api import binding as names
from mooring.api.binding import capacity_of, has_annotation, request_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.cluster.binder.available_volumes import Modes, Shape, shape_of_claim, shape_of_volume

_Wish = tuple[Decimal, str]
"""Bytes, and the selector as text, "" for none."""
_Place = tuple[Shape, Modes, _Wish]
_Entry = tuple[str, int, Key]
"""When the claim was made, and the number of its arrival, which orders claims of one second."""
_LAST_TEXT = "\U0010ffff"
"""A text that sorts after every selector's."""
_Groups: TypeAlias = "SortedDict[_Wish, SortedList[_Entry]]"
"""Claims of one shape and set of access modes, by what they ask for."""


def is_looking(claim: PersistentVolumeClaim) -> bool:
    """True while no volume was chosen for the claim."""
    return not claim.spec.volume_name and not has_annotation(claim, names.BIND_COMPLETED)


class WaitingClaims:
    """The claims that look for a volume, from the first look at all and from changes. One that is away is not found."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[_Place, _Entry]] = {}
        self._groups: dict[Shape, dict[Modes, _Groups]] = {}
        self._away: set[Key] = set()
        self._arrivals = itertools.count()

    def move(self, key: Key, claim: PersistentVolumeClaim | None) -> None:
        """Put the claim where it belongs now. claim: None for one that is gone."""
        before, place = self._known.get(key), None if claim is None else _place_of(claim)
        if (None if before is None else before[0]) == place:
            return
        if before is not None:
            self._leave(key)
            del self._known[key]
        if claim is not None and place is not None:
            created = claim.metadata.creation_timestamp or ""
            self._known[key] = place, ((created, next(self._arrivals), key) if before is None else before[1])
            self._enter(key)

    def send_away(self, key: Key) -> None:
        """The claim is not to be found until `back`."""
        self._leave(key)
        self._away.add(key)

    def back(self, key: Key) -> None:
        if key in self._away:
            self._away.discard(key)
            self._enter(key)

    def first(self, pv: PersistentVolume, fits: Callable[[Key], bool]) -> Key | None:
        """Gives the oldest of the claims that the volume could serve. fits: the last word on one of them."""
        found: _Entry | None = None
        have, size = set(pv.spec.access_modes or ()), capacity_of(pv)
        for modes, groups in self._groups.get(shape_of_volume(pv), {}).items():
            for wish in groups.irange(maximum=(size, _LAST_TEXT)) if have.issuperset(modes) else ():
                entries = groups[wish]
                if found is None or entries[0] < found:
                    first = next((entry for entry in entries if fits(entry[2])), None)
                    if first is not None and (found is None or first < found):
                        found = first
        return None if found is None else found[2]

    def _enter(self, key: Key) -> None:
        if key in self._known and key not in self._away:
            (shape, modes, wish), entry = self._known[key]
            groups = self._groups.setdefault(shape, {}).setdefault(modes, SortedDict())
            groups.setdefault(wish, SortedList()).add(entry)

    def _leave(self, key: Key) -> None:
        if key in self._known and key not in self._away:
            (shape, modes, wish), entry = self._known[key]
            groups = self._groups[shape][modes]
            groups[wish].remove(entry)
            if not groups[wish]:
                del groups[wish]
            if not groups:
                del self._groups[shape][modes]
                if not self._groups[shape]:
                    del self._groups[shape]


def _place_of(claim: PersistentVolumeClaim) -> _Place | None:
    if not is_looking(claim):
        return None
    selector = claim.spec.selector
    wish = request_of(claim), "" if selector is None else str(selector)
    return shape_of_claim(claim), tuple(sorted(set(claim.spec.access_modes or ()))), wish
