"""Values that are much of something: long, deep, wide, or dear to judge."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final

SIZE_MAX: Final = 400_000
"""Of a body, about, in bytes: well below what the server takes at all."""
_PATTERNS: Final = ("(a|b)", "a{1,9}", "[a-zA-Z0-9._%+-]", "(?i)x", "\\pL", "(a*)*", "^.*$|")


def monster(choice: Random) -> Any:
    """A JSON value of up to SIZE_MAX bytes."""
    size = int(10 ** choice.uniform(1, 5.6))
    return choice.choice(_MAKERS)(choice, min(size, SIZE_MAX))


def text(choice: Random, size: int) -> str:
    letter = choice.choice(("x", "/", "%", "\\", '"', "\0", "é", "\U0001f600", " ", "-", ".", "a=b,", "1"))
    return letter * max(1, size // len(letter.encode()))


def _pattern(choice: Random, size: int) -> str:
    part = choice.choice(_PATTERNS)
    return part * max(1, size // len(part))


def _number(choice: Random, size: int) -> float:
    return choice.choice((10 ** min(size, 4000), -(10 ** min(size, 4000)), 1e308, -0.0, 5e-324, 2**63, -(2**63) - 1))


def _deep(choice: Random, size: int) -> Any:
    value: Any = choice.choice((None, 1, "x", {}))
    is_list = choice.random() < 0.5
    for _ in range(min(size // 2, 120)):
        value = [value] if is_list else {"a": value}
    return value


def _many(choice: Random, size: int) -> Any:
    """Of equal small parts, or of different ones."""
    part = choice.choice(
        (None, 0, "", "x", {}, [], [[]], {"name": "x"}, {"key": "a", "operator": "In", "values": ["x"]})
    )
    count = max(1, size // (len(str(part)) + 2))
    return (
        [copy.deepcopy(part) for _ in range(count)]
        if choice.random() < 0.5
        else [f"v{number}" for number in range(count // 2)]
    )


def _keys(choice: Random, size: int) -> Any:
    value = choice.choice((None, 1, "x", {}, []))
    if choice.random() < 0.3:
        return {text(choice, size): value}
    return {f"k{number}": copy.deepcopy(value) for number in range(size // 10)}


_MAKERS: Final[tuple[Callable[[Random, int], Any], ...]] = (text, text, _pattern, _number, _deep, _many, _many, _keys)
