"""One lock per key, which exists only while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)


class KeyLocks(Generic[K]):
    """Locks for short turns, in which a worker may wait: `async with locks.of(key):`."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: K) -> asyncio.Lock:
        """The key's lock, the same object as long as a task holds or awaits it."""
        return self._locks.setdefault(key, asyncio.Lock())
