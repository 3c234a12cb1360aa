"""A cache that never changes, for tables of (situation, decision)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from mooring.api.meta import Key, Object, key_of

T = TypeVar("T", bound=Object)


class ConstantStore(Generic[T]):
    """indexes: as of a Store."""

    def __init__(self, objects: Iterable[T], indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None) -> None:
        self._objects = {key_of(o): o for o in objects}
        self._indexes = indexes or {}

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def count(self, index: str, value: str) -> int:
        return len(self.by(index, value))

    def by(self, index: str, value: str) -> tuple[T, ...]:
        return tuple(o for o in self._objects.values() if value in self._indexes[index](o))

    def values(self) -> tuple[T, ...]:
        return tuple(self._objects.values())
