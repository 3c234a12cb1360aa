"""Fields that a JSON body says twice: the last value counts, and the client is told."""

from __future__ import annotations

import json
from typing import Any


class _Pairs(list[tuple[str, Any]]):
    """An object's members as they stand in the text."""


def duplicate_fields(body: bytes) -> list[str]:
    """One `duplicate field "spec.x"` for each. body: valid JSON."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({name for name, _ in pairs}) != len(pairs)

    json.loads(body, object_pairs_hook=look)
    return _named(json.loads(body, object_pairs_hook=_Pairs), "") if found else []


def _named(value: Any, path: str) -> list[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        told = []
        for name, inner in value:
            if name in seen:
                told.append(f'duplicate field "{path}{name}"')
            seen.add(name)
            told += _named(inner, f"{path}{name}.")
        return told
    if isinstance(value, list):
        return [text for index, inner in enumerate(value) for text in _named(inner, f"{path[:-1]}[{index}].")]
    return []
