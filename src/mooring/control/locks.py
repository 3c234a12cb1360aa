"""One lock per key, which exists only while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, Literal, TypeVar
from weakref import WeakValueDictionary

from mooring.control.order import ORDER

K = TypeVar("K", bound=Hashable)


class KeyLock(asyncio.Lock):
    """A lock whose turns are part of the program's order."""

    def __init__(self, key: Hashable) -> None:
        super().__init__()
        self._key, self._waiting = key, 0

    async def acquire(self) -> Literal[True]:
        order = (
            ORDER.get() if self.locked() or self._waiting else None
        )  # a free one may be on its way to somebody who waits
        self._waiting += 1
        try:
            await super().acquire()
        finally:
            self._waiting -= 1
        if order is not None:
            await order.resumed("lock", self._key)
        return True


class KeyLocks(Generic[K]):
    """For short turns, in which a worker may wait: `async with locks.of(key):`."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, KeyLock] = WeakValueDictionary()

    def of(self, key: K) -> KeyLock:
        """The key's lock, the same object as long as anybody holds or awaits it."""
        return self._locks.setdefault(key, KeyLock(key))
