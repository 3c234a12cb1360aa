"""Keys that have time: they are looked up one by one, whenever a queue has nothing else to do.

A controller that begins has a hundred thousand keys to look at, and one that matters: the one that has just changed. So the others stand
in a backlog, and what happens meanwhile is done first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

K = TypeVar("K", bound=Hashable)


class _Source(msgspec.Struct, Generic[K]):
    """keys: what is still to be looked up. begun: those that were worked on since; of all sources that came together."""

    keys: Iterator[K]
    begun: set[K]


class Backlog(Generic[K]):
    """Sources of keys, which are asked in turns."""

    def __init__(self) -> None:
        self._sources: deque[_Source[K]] = deque()

    def __bool__(self) -> bool:
        """True while a source may have another key."""
        return bool(self._sources)

    def put(self, sources: Iterable[Iterable[K]]) -> None:
        """Each key of these sources is due once from now on, whichever of them has it."""
        begun: set[K] = set()
        self._sources.extend(_Source(iter(keys), begun) for keys in sources)

    def draw(self) -> K | None:
        """One step: the next key of a source. None when that was at its end, or its key has been worked on since."""
        source = self._sources.popleft()
        for key in source.keys:
            self._sources.append(source)
            return None if key in source.begun else key
        return None

    def begins(self, key: K) -> None:
        """This key is worked on now: it is no longer due."""
        for source in self._sources:
            source.begun.add(key)
