"""What comes again and again: told in full once, then in a few words. A retry is news; its text is not."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

KNOWN_MAX: Final = 1000
"""Things that are remembered; the one that has not come for the longest time is forgotten first, and told in full again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Again:
    """name: what it is called from the second time on. words: which time this is, and when it was told in full."""

    name: str
    words: str


@dataclasses.dataclass(slots=True)
class _Known:
    name: str
    first_s: float
    count: int = 1


class Repeats:
    """Counts."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def seen(self, key: Hashable, at_s: float, name: str) -> Again | None:
        """None for the first time. name: what it is called now, "" for as it was called then."""
        known = self._known.get(key)
        if known is None:
            self._known[key] = _Known(name, at_s)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            return None
        self._known.move_to_end(key)
        known.count += 1
        return Again(name or known.name, f"again, {_ordinal(known.count)} time, see {known.first_s:.3f}")


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
