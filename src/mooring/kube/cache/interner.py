"""Shares equal parts of cached objects: 20,000 volumes of one driver have its name, labels and claim namespaces once.

A decoded object has its own copy of each text. Interning replaces them by equal ones, which all caches of the process
share: a volume's name stands in its claim and its attachment, too. It does the same with mappings, tuples and structs
below the object itself, for those that came before in this cache. Sharing is safe since nothing from a cache is ever
written to.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any, Final, TypeVar

import msgspec

from mooring.base import texts

S = TypeVar("S")

_LONG: Final = 8
"""Entries of a list that hardly any other object has: a node's volumes."""


class Interner:
    """Remembers parts, and drops those not met again for a while.

    size_max: parts per generation; there are two, and a part that is met moves to the younger. Common parts thus stay,
    unique ones leave, and the table is bounded.
    """

    def __init__(self, size_max: int = 4096) -> None:
        assert size_max > 0
        self._size_max = size_max
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}

    def shared(self, obj: S, before: S | None = None) -> S:
        """The same object, its parts replaced by equal ones that are shared. Anything but a struct is given back as it
        is.

        before: the object in whose place it comes. Most of its parts are as they were, and are taken from there whole.
        A part with a long list in it, an object's metadata, or another that is unique, is not remembered itself, its
        own parts are: no other object has it, and a table full of them would be larger than the cache.
        """
        if isinstance(obj, msgspec.Struct):
            self._share_fields(obj, before)
            for name in getattr(type(obj), "referred_to_by", ()):
                meta = obj.metadata  # type: ignore[attr-defined]
                msgspec.structs.force_setattr(meta, name, texts.shared(getattr(meta, name)))
        return obj

    def _share_fields(self, struct: msgspec.Struct, before: object) -> bool:
        """False where there is a long list in it. Runs for every object and event: text, the most frequent part, takes
        the short way.
        """
        is_short, shared_text = True, texts.shared
        for name in _fields_of(type(struct)):
            value = getattr(struct, name)
            if not value:
                continue
            kind = type(value)
            if kind is str:
                part = shared_text(value)
            else:
                earlier = getattr(before, name, None)
                part = earlier if value == earlier else self._part(value, earlier)
                is_short = is_short and not (kind is tuple and len(value) > _LONG)
            if part is not value:
                msgspec.structs.force_setattr(struct, name, part)  # an equal value: nobody can tell
        return is_short

    def _part(self, value: Any, before: object = None) -> Any:
        kind = type(value)
        if kind is str:
            return texts.shared(value)
        if kind is dict:
            return self._mapping(value)
        if kind is tuple:
            items = tuple([self._part(item) for item in value])
            return items if len(items) > _LONG else self._hashed(items)
        if isinstance(value, msgspec.Struct):
            is_short = self._share_fields(value, before)
            return self._hashed(value) if is_short and not _is_unique(type(value)) else value
        return value

    def _mapping(self, value: dict[Any, Any]) -> Any:
        """Only text to text, as labels and annotations are; others stay."""
        found = self._find((dict, *value.items())) if all(isinstance(item, str) for item in value.values()) else value
        if found is not None:
            return found
        mapping = {self._part(key): self._part(item) for key, item in value.items()}
        return self._known((dict, *mapping.items()), mapping)

    def _hashed(self, value: Any) -> Any:
        try:
            return self._known(value, value)
        except TypeError:  # a mapping inside: shared by itself, its owner isn't
            return value

    def _known(self, key: Hashable, value: Any) -> Any:
        found = self._young.get(key)
        if found is not None:
            return found
        found = self._old.get(key, value)
        self._remember(key, found)
        return found

    def _find(self, key: Hashable) -> Any:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self._remember(key, found)
        return found

    def _remember(self, key: Hashable, value: Any) -> None:
        self._young[key] = value
        if len(self._young) >= self._size_max:
            self._old, self._young = self._young, {}


def _is_unique(kind: type[msgspec.Struct]) -> bool:
    return getattr(kind, "is_unique", False)


@functools.cache
def _fields_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields worth looking at."""
    unique = getattr(kind, "unique_fields", ())
    return tuple(name for name in kind.__struct_fields__ if name not in unique)
