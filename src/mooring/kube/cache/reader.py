"""The read side of a cache, as judgements see it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mooring.api.meta import Key

T_co = TypeVar("T_co", covariant=True)


class Reader(Protocol[T_co]):
    """The reading half of a `Store`. Answers come at once, from the cache's state at that moment."""

    def get(self, key: Key) -> T_co | None: ...
    def by(self, index: str, value: str) -> tuple[T_co, ...]: ...
    def count(self, index: str, value: str) -> int: ...
    def values(self) -> tuple[T_co, ...]: ...
