"""Lists that are sets or maps: no item twice, and each item's counterpart in the list as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mooring.apiserver import field_errors
from mooring.apiserver.custom.structure import NOTHING, Structure
from mooring.apiserver.field_errors import Cause

Json = dict[str, Any]


def duplicates(value: Any, structure: Structure, path: str = "") -> Iterator[Cause]:
    """One cause for each item that is there a second time."""
    if isinstance(value, list):
        yield from _twice(value, structure, path)
        if structure.items is not None:
            for number, item in enumerate(value):
                yield from duplicates(item, structure.items, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, member in value.items():
            inner = structure.of_key(name)
            if isinstance(inner, Structure):
                dotted = f"{path}.{name}" if path else name
                yield from duplicates(member, inner, dotted if name in structure.properties else f"{path}[{name}]")


def counterparts(value: list[Any], old: Any, schema: Json) -> Iterator[tuple[Any, Any]]:
    """Each item with the old item of the same keys; NOTHING where there is none, or where items have no identity."""
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if schema.get("x-kubernetes-list-type") == "map" else ()
    before = {_key(item, keys): item for item in old} if keys and isinstance(old, list) else {}
    for item in value:
        yield item, before.get(_key(item, keys), NOTHING) if before else NOTHING


def _twice(value: list[Any], structure: Structure, path: str) -> Iterator[Cause]:
    if structure.list_type not in ("set", "map"):
        return
    seen: set[bytes] = set()
    for number, item in enumerate(value):
        if structure.list_type == "map" and not isinstance(item, dict):
            yield field_errors.invalid(f"{path}[{number}]", item, "must be an object for an array of list-type map")
            continue
        identity = _key(item, structure.list_keys)
        if identity in seen:
            keys = structure.list_keys
            shown = {name: item[name] for name in keys if name in item} if keys and isinstance(item, dict) else item
            yield field_errors.duplicate(f"{path}[{number}]", shown)
        seen.add(identity)


def _key(item: Any, keys: tuple[str, ...]) -> bytes:
    told = [item.get(name) for name in keys] if keys and isinstance(item, dict) else item
    return msgspec.json.encode(told, order="deterministic")
