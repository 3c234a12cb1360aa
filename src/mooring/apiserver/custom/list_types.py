"""Lists that are sets or maps: their schemas, repeated items, and each item's counterpart in the list as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mooring.apiserver import field_errors
from mooring.apiserver.custom.structural_schema import NOTHING, Structure
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import Json


def duplicates(value: Any, structure: Structure, path: str = "") -> Iterator[FieldCause]:
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
    keys = (
        tuple(schema.get("x-kubernetes-list-map-keys") or ()) if schema.get("x-kubernetes-list-type") == "map" else ()
    )
    before = {_key(item, keys): item for item in old} if keys and isinstance(old, list) else {}
    for item in value:
        yield item, before.get(_key(item, keys), NOTHING) if before else NOTHING


def _twice(value: list[Any], structure: Structure, path: str) -> Iterator[FieldCause]:
    if structure.list_type not in ("set", "map"):
        return
    if structure.list_type == "map":
        odd = next((number for number, item in enumerate(value) if not isinstance(item, dict | None)), None)
        if odd is not None:  # (told of the first alone, and nothing of items that are there twice)
            yield field_errors.invalid(f"{path}[{odd}]", value[odd], "must be an object for an array of list-type map")
            return
    seen: Counter[bytes] = Counter()
    for number, item in enumerate(value):
        identity = _key(item, structure.list_keys)
        seen[identity] += 1
        if seen[identity] == 2:  # (of more than two the second alone is told)
            shown = _keyed(item, structure.list_keys) if structure.list_keys else item
            yield field_errors.duplicate(f"{path}[{number}]", shown)


def _key(item: Any, keys: tuple[str, ...]) -> bytes:
    return msgspec.json.encode(
        _keyed(item, keys) if keys and isinstance(item, dict | None) else item, order="deterministic"
    )


def _keyed(item: Json | None, keys: tuple[str, ...]) -> Json:
    """The keys that an item has; null has none."""
    return {name: item[name] for name in keys if name in item} if item is not None else {}


_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_LIST, _KEYS, _MAP = "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"


def wrong_list(schema: Json, path: str) -> Iterator[FieldCause]:
    kind, keys = schema.get(_LIST), schema.get(_KEYS) or []
    if keys and kind != "map":
        missing, text = kind is None, "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            field_errors.required(f"{path}.{_LIST}", text)
            if missing
            else field_errors.invalid(f"{path}.{_LIST}", kind, text)
        )
    if kind is None:
        return
    if kind not in _LIST_TYPES:
        yield field_errors.not_supported(f"{path}.{_LIST}", kind, _LIST_TYPES)
    if schema.get("type") != "array":
        yield field_errors.invalid(
            f"{path}.type", schema.get("type", ""), "must be array if x-kubernetes-list-type is specified"
        )
        return
    items = schema.get("items")
    if isinstance(items, dict) and kind == "set":
        yield from _wrong_set(items, f"{path}.items")
    elif kind == "map":
        yield from _wrong_map_list(items, keys, path)


def wrong_map(schema: Json, path: str) -> Iterator[FieldCause]:
    kind = schema.get(_MAP)
    if kind is None:
        return
    if kind not in _MAP_TYPES:
        yield field_errors.not_supported(f"{path}.{_MAP}", kind, _MAP_TYPES)
    if schema.get("type") != "object":
        yield field_errors.invalid(
            f"{path}.type", schema.get("type", ""), "must be object if x-kubernetes-map-type is specified"
        )


def _wrong_set(items: Json, path: str) -> Iterator[FieldCause]:
    """Items are compared as wholes."""
    if items.get("nullable"):
        yield field_errors.forbidden(f"{path}.nullable", "cannot be nullable when x-kubernetes-list-type is set")
    if items.get("type") == "object" and items.get(_MAP) != "atomic":
        yield field_errors.invalid(
            f"{path}.{_MAP}", items.get(_MAP), "must be atomic as item of a list with x-kubernetes-list-type=set"
        )
    if items.get("type") == "array" and items.get(_LIST) not in (None, "atomic"):
        yield field_errors.invalid(
            f"{path}.{_LIST}", items.get(_LIST), "must be atomic as item of a list with x-kubernetes-list-type=set"
        )


def _wrong_map_list(items: Json | list[Any] | None, keys: list[str], path: str) -> Iterator[FieldCause]:
    if not keys:
        yield field_errors.required(f"{path}.{_KEYS}", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield field_errors.required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if isinstance(items, list):
        yield field_errors.invalid(
            f"{path}.items", items, "must only have a single schema if x-kubernetes-list-type is map"
        )
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield field_errors.invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    properties = items.get("properties") or {}
    for key in keys:
        yield from _wrong_key(properties.get(key), key, key in (items.get("required") or ()), path)
    if any(key not in properties for key in keys):
        yield field_errors.invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties")
    if len(set(keys)) < len(keys):
        yield field_errors.invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries")


def _wrong_key(schema: Json | None, key: str, is_required: bool, path: str) -> Iterator[FieldCause]:
    if schema is None:
        return
    place = f"{path}.items.properties[{key}]"
    if schema.get("type") in ("array", "object"):
        yield field_errors.invalid(
            f"{place}.type", schema["type"], "must be a scalar type if parent array's x-kubernetes-list-type is map"
        )
    if not is_required and "default" not in schema:
        text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        yield field_errors.required(f"{place}.default", text)
    if schema.get("nullable"):
        yield field_errors.forbidden(
            f"{place}.nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        )
