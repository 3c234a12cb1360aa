"""Keys that have time: they are looked up one by one, whenever a queue has nothing else to do.

A controller that begins has a hundred thousand keys to look at, and one that matters: the one that has just changed. So
the others stand in a backlog, and what happens meanwhile is done first.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from mooring.api.meta import Object
from mooring.kube.cache.reader import Reader
from mooring.kube.cache.store import newest_first, version

ORDERED_IN_STEP: Final = 500
LONG: Final = 5_000
"""Steps of a backlog after which the process has changed: what was remembered of the keys stays."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Object)


def newest_keys(objects: Reader[T], key: Callable[[T], K | None]) -> Iterator[K | None]:
    """A source: the keys of these objects, what has changed last first. key: None for an object that needs no look.

    The cache is read when the first key is asked for.
    """
    return (None if obj is None else key(obj) for obj in newest_in_steps(objects))


def newest_in_steps(objects: Reader[T]) -> Iterator[T | None]:
    """The objects, what has changed last first. Each step is short: the first ones only put some of the objects in
    order, and give None.

    The cache is read in the first step.
    """
    found, runs = objects.values(), []
    for begin in range(0, len(found), ORDERED_IN_STEP):
        runs.append(newest_first(found[begin : begin + ORDERED_IN_STEP]))
        yield None
    yield from heapq.merge(*runs, key=version, reverse=True)


class _Source(msgspec.Struct, Generic[K]):
    """keys: the keys still to be looked up. begun: the keys that were worked on since; one set for all sources that
    came together.
    """

    keys: Iterator[K | None]
    begun: set[K]


class Backlog(Generic[K]):
    """Sources of keys, which are asked in turns."""

    def __init__(self) -> None:
        self._sources: deque[_Source[K]] = deque()
        self._steps = 0

    def __bool__(self) -> bool:
        """True while a source may have another key."""
        return bool(self._sources)

    def put(self, sources: Iterable[Iterable[K | None]]) -> None:
        """Each key of these sources is due once from now on, whichever of them has it.

        A source has None in place of a key that needs no look: so one step is short, however few of a hundred thousand
        do.
        """
        begun: set[K] = set()
        self._sources.extend(_Source(iter(keys), begun) for keys in sources)

    def draw(self) -> K | None:
        """One step: the next key of a source. None when that was at its end, or its key needs no look, or has been
        worked on since.
        """
        source = self._sources.popleft()
        self._steps += 1
        for key in source.keys:
            self._sources.append(source)
            return None if key in source.begun else key
        return None

    @property
    def was_long(self) -> bool:
        return self._steps >= LONG

    def begins(self, key: K) -> None:
        """This key is worked on now: it is no longer due."""
        for source in self._sources:
            source.begun.add(key)
