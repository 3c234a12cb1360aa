"""The habit of queues that hand out their keys in any order.

Nothing that a controller decides may rest on the order of its keys: lists, watches and other controllers set that, and
another release of one may set another. Lives from `DISORDER_FROM` on have it, so all earlier ones stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Final
from unittest import mock

from mooring.base.clock import give_way
from mooring.base.randomness import Random
from mooring.control.backlog import Backlog
from mooring.control.queue import WorkQueue

DISORDER_FROM: Final = 1_000_000
TURNS_MAX: Final = 4
"""How late a worker takes a key: meanwhile others come, which it may take first."""
_SEED: Final = 11_000_003


@contextlib.contextmanager
def disorder(seed: int) -> Iterator[None]:
    """While a life of this seed is lived, workers take any key that is ready, some turns late, and each backlog comes
    in any order.
    """
    if seed < DISORDER_FROM:
        yield
        return
    randomness, first, put = Random(_SEED + seed), WorkQueue._first, Backlog.put

    async def any_of(self: WorkQueue[Any]) -> Any:
        while True:
            self._queue.append(await first(self))
            for _ in range(randomness.below(TURNS_MAX)):
                await give_way()
            if self._queue:  # another worker may have been quicker
                self._queue.rotate(randomness.below(len(self._queue)))
                return self._queue.popleft()

    def shuffled(self: Backlog[Any], sources: Iterable[Iterable[Hashable]]) -> None:
        put(self, [_shuffled(keys, randomness) for keys in sources])

    with mock.patch.object(WorkQueue, "_first", any_of), mock.patch.object(Backlog, "put", shuffled):
        yield


def _shuffled(keys: Iterable[Hashable], randomness: Random) -> Iterator[Hashable]:
    """As any source, it is not read before it is asked."""
    found: list[object] = [*keys]
    randomness.shuffle(found)
    yield from found  # type: ignore[misc]
