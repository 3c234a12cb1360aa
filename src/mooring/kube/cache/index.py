"""Finds a store's objects by what they say, in place of a scan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from mooring.api.meta import Object
from mooring.base import texts

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]

FEW: Final = 32
"""Objects under one value: with more of them they are looked up, not looked through."""


class Index(Generic[T]):
    """Values to the places of objects in the store.

    Most values name one object: such a value holds the bare place. A few stand in a tuple: a dict takes three times as much.
    """

    __slots__ = ("_buckets", "function")

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self._buckets: dict[str, str | tuple[str, ...] | dict[str, None]] = {}

    def places(self, value: str) -> Iterable[str]:
        bucket = self._buckets.get(value)
        if bucket is None:
            return ()
        return (bucket,) if isinstance(bucket, str) else bucket

    def move(self, place: str, old: T | None, new: T | None) -> None:
        """An object in this place has taken the place of another."""
        before = () if old is None else tuple(dict.fromkeys(self.function(old)))
        after = () if new is None else tuple(dict.fromkeys(self.function(new)))
        for value in before:
            if value not in after:
                self._leave(value, place)
        for value in after:
            if value not in before:
                self._enter(texts.shared(value), place)

    def _enter(self, value: str, place: str) -> None:
        bucket = self._buckets.get(value)
        if isinstance(bucket, dict):
            bucket[place] = None
        elif bucket is None:
            self._buckets[value] = place
        elif isinstance(bucket, str):
            self._buckets[value] = (bucket, place)
        else:
            found = (*bucket, place)
            self._buckets[value] = found if len(found) <= FEW else dict.fromkeys(found)

    def _leave(self, value: str, place: str) -> None:
        bucket = self._buckets[value]
        if isinstance(bucket, dict):
            del bucket[place]
        elif isinstance(bucket, tuple):
            at = bucket.index(place)
            bucket = self._buckets[value] = bucket[:at] + bucket[at + 1 :]
        else:
            assert bucket == place
            bucket = ()
        if not bucket:
            del self._buckets[value]
