"""Strategic merge patch: maps merge, null deletes, and lists whose kind declares a merge key are joined item by item.

Directives, in the patch: `$patch` (merge, replace, delete) in a map or an item, `$retainKeys`, and for a list beside it
`$deleteFromPrimitiveList/<list>` and `$setElementOrder/<list>`. Which lists have keys is part of a message's shape
(`schema.py`).
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver import api_errors, field_errors
from mooring.apiserver.codecs.schema import Message

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"


def merge_strategic(message: Message | None, original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A merged copy. message: None where none is declared (lists are replaced). Raises BadRequest for directives and
    missing keys.
    """
    directive = patch.get(_PATCH)
    if directive == "delete":
        return {}
    if directive == "replace":
        return {name: copy.deepcopy(value) for name, value in patch.items() if name != _PATCH}
    if directive not in (None, "merge"):
        raise api_errors.bad_request(f"unrecognized patch type: {directive}")
    merged = _retained(original, patch)
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_from(merged, name.removeprefix(_DELETE_FROM), value)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_member(merged, name, value, message, patch.get(_ORDER + name))
    for name, value in patch.items():
        target = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and target not in patch and isinstance(merged.get(target), list):
            merged[target] = _ordered(merged[target], merged[target], _items(value, name), _merge_key(message, target))
    return merged


def _retained(original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    if _RETAIN not in patch:
        return dict(original)
    kept = {_identity(name, None) for name in _items(patch[_RETAIN], _RETAIN)}
    for name in patch:
        if not name.startswith("$") and name not in kept:
            raise api_errors.bad_request(
                "invalid patch format of retainKeys"
            )  # (its list must hold all fields of the patch)
    return {name: value for name, value in original.items() if name in kept}


def _delete_from(merged: dict[str, Any], name: str, values: Any) -> None:
    gone = {_identity(item, None) for item in _items(values, _DELETE_FROM + name)}
    if isinstance(merged.get(name), list):
        merged[name] = [item for item in merged[name] if _identity(item, None) not in gone]


def _merge_member(merged: dict[str, Any], name: str, value: Any, message: Message | None, order: Any) -> None:
    if value is None:
        merged.pop(name, None)
        return
    before = merged.get(name)
    if isinstance(value, Mapping):
        merged[name] = merge_strategic(_inner(message, name), before if isinstance(before, Mapping) else {}, value)
    elif isinstance(value, list):
        key, inner = _merge_key(message, name), _inner(message, name)
        if not isinstance(before, list):
            merged[name] = [
                merge_strategic(inner, {}, item) if isinstance(item, Mapping) else item
                for item in _without_directives(value)
            ]
            return
        joined = _merge_list(inner, key, before, value)
        ordering = value if order is None else _items(order, _ORDER + name)
        merged[name] = joined if key is None else _ordered(joined, before, ordering, key)
    else:
        merged[name] = value


def _merge_list(message: Message | None, key: str | None, old: list[Any], patch: list[Any]) -> list[Any]:
    if key is None:
        return _without_directives(patch)
    if key == "":
        return list({_identity(item, key): item for item in [*old, *patch]}.values())
    if any(isinstance(item, Mapping) and item.get(_PATCH) == "replace" for item in patch):
        return _without_directives(patch)
    merged: dict[int, Any] = dict(enumerate(old))
    places: dict[Any, list[int]] = {}
    for number, item in merged.items():
        if isinstance(item, Mapping):
            places.setdefault(_identity(item.get(key), None), []).append(number)
    for number, item in enumerate(patch, start=len(old)):
        _merge_item(merged, places, number, item, message, key)
    return [merged[number] for number in sorted(merged)]


def _merge_item(
    merged: dict[int, Any], places: dict[Any, list[int]], number: int, item: Any, message: Message | None, key: str
) -> None:
    """merged: items by their place. places: where the items with a key are. number: where a new one goes."""
    if not isinstance(item, Mapping) or key not in item:
        raise api_errors.bad_request(f"map: {field_errors.shown(item)} does not contain declared merge key: {key}")
    identity = _identity(item[key], None)
    found = places.get(identity, [])
    if item.get(_PATCH) == "delete":
        for place in places.pop(identity, []):
            del merged[place]
    elif found:
        merged[found[0]] = merge_strategic(message, merged[found[0]], item)
    else:
        merged[number] = merge_strategic(message, {}, item)
        places[identity] = [number]


def _ordered(joined: list[Any], old: list[Any], order: list[Any], key: str | None) -> list[Any]:
    """The named items in their order; the others keep their place before their old successors. Without an order the
    patch's list is it.
    """
    was = {_identity(item, key): number for number, item in enumerate(old)}
    rank = {_identity(item, key): number for number, item in enumerate(order)}
    unnamed = [item for item in joined if _identity(item, key) not in rank and _identity(item, key) not in was]
    if unnamed:
        raise api_errors.bad_request(
            f"the list holds {field_errors.shown(unnamed[0])}, which its {_ORDER.rstrip('/')} does not name"
        )
    named = deque(
        sorted((item for item in joined if _identity(item, key) in rank), key=lambda item: rank[_identity(item, key)])
    )
    others = deque(item for item in joined if _identity(item, key) not in rank)
    result: list[Any] = []
    while named and others:
        first = was.get(_identity(named[0], key))
        other_first = first is not None and was[_identity(others[0], key)] < first
        result.append(others.popleft() if other_first else named.popleft())
    return [*result, *named, *others]


def _identity(item: Any, key: str | None) -> Any:
    value = item.get(key) if key and isinstance(item, Mapping) else item
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _inner(message: Message | None, name: str) -> Message | None:
    field = message.fields.get(name) if message is not None else None
    return message.of(field) if message is not None and field is not None else None


def _merge_key(message: Message | None, name: str) -> str | None:
    field = message.fields.get(name) if message is not None else None
    return field.merge_key if field is not None else None


def _items(value: Any, directive: str) -> list[Any]:
    if not isinstance(value, list):
        raise api_errors.bad_request(f"{directive} must be a list")
    return value


def _without_directives(patch: list[Any]) -> list[Any]:
    return [copy.deepcopy(item) for item in patch if not (isinstance(item, Mapping) and _PATCH in item)]
