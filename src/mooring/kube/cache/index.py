"""Finding cached objects by what they say, in place of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from mooring.api.meta import Key

T = TypeVar("T")
IndexFunction = Callable[[T], Iterable[str]]


class Index(Generic[T]):
    """Values to keys. Most values name one object: such a value holds the bare key, a dict costs four times as much."""

    __slots__ = ("_buckets", "function")

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self._buckets: dict[str, Key | dict[Key, None]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        bucket = self._buckets.get(value)
        if bucket is None:
            return ()
        return bucket if isinstance(bucket, dict) else (bucket,)

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        """An object under this key has taken the place of another."""
        before = () if old is None else tuple(dict.fromkeys(self.function(old)))
        after = () if new is None else tuple(dict.fromkeys(self.function(new)))
        for value in before:
            if value not in after:
                self._leave(value, key)
        for value in after:
            if value not in before:
                self._enter(value, key)

    def _enter(self, value: str, key: Key) -> None:
        bucket = self._buckets.get(value)
        if bucket is None:
            self._buckets[value] = key
        elif isinstance(bucket, dict):
            bucket[key] = None
        else:
            self._buckets[value] = {bucket: None, key: None}

    def _leave(self, value: str, key: Key) -> None:
        bucket = self._buckets[value]
        if isinstance(bucket, dict):
            del bucket[key]
            if bucket:
                return
        else:
            assert bucket == key
        del self._buckets[value]
