"""Equality as JSON has it: true is not 1, as it is in Python."""

from __future__ import annotations

from typing import Any


def equal_json(left: Any, right: Any) -> bool:
    """True for the same value, whatever the order of members."""
    return bool(left == right) and _same(left, right)


def _same(left: Any, right: Any) -> bool:
    """Of values that Python takes for equal."""
    if isinstance(left, dict):
        return all(_same(inner, right[name]) for name, inner in left.items())
    if isinstance(left, list):
        return all(map(_same, left, right))
    return isinstance(left, bool) == isinstance(right, bool)
