"""JSON bodies. A number that no float holds keeps its text: for some fields it is a value, for the others the text of
the refusal.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec

from mooring.base.json_text import JsonDecoder


class Huge(float):
    """An infinite number, as it was written."""

    text: str

    def __new__(cls, text: str) -> Huge:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


DEPTH_MAX: Final = 128
"""Half of what our client reads: a stored object gains levels in lists, in watches, and in the record of its managers.
"""
_DIGITS: Final = 309
"""A whole number of fewer is one that a float holds."""
_FOUR_DIGITS: Final = re.compile(rb"[0-9]{4}")


def parse_json(body: bytes) -> Any:
    """Raises ValueError for what is no JSON, TooDeep for what is nested too deeply."""
    try:
        value = _PLAIN.decode(body)
    except msgspec.DecodeError as error:
        if not str(error).startswith("Number out of range"):
            raise
        value = _WITH_HUGE.decode(body)
    return _without_long(value) if _may_have_long(body) else value


def _may_have_long(body: bytes) -> bool:
    """Looks at every 77th letter: of a long number these are at least four in a row."""
    return _FOUR_DIGITS.search(body[:: _DIGITS // 4]) is not None


def _without_long(value: Any) -> Any:
    """The value, with whole numbers that no float holds as Huge ones."""
    if isinstance(value, dict):
        return {name: _without_long(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_long(inner) for inner in value]
    if isinstance(value, int):
        try:
            float(value)
        except OverflowError:
            return Huge(str(value))
    return value


def hugest(value: Any) -> Huge | None:
    """A number in a parsed JSON value that no float holds."""
    for inner in value.values() if type(value) is dict else value if type(value) is list else (value,):
        kind = type(inner)
        if kind is Huge:
            return inner  # type: ignore[no-any-return]
        if kind is dict or kind is list:
            found = hugest(inner)
            if found is not None:
                return found
    return None


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else Huge(text)


_PLAIN: Final = JsonDecoder[Any](limit=DEPTH_MAX)
_WITH_HUGE: Final = JsonDecoder[Any](limit=DEPTH_MAX, float_hook=_float)


class _Pairs(list[tuple[str, Any]]):
    """An object's members as they stand in the text."""


class _Twice(Exception):
    """A field is there twice."""


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Twice


_ONCE: Final = json.JSONDecoder(object_pairs_hook=_refuse_twice)
_AS_PAIRS: Final = json.JSONDecoder(object_pairs_hook=_Pairs)


def duplicate_fields(body: bytes, value: Any) -> list[str]:
    """One `duplicate field "spec.x"` for each. value: what `parse_json` made of the body."""
    if _is_compact(body, value):
        return []
    text = body.decode()
    try:
        _ONCE.decode(text)
    except _Twice:
        told: dict[str, None] = {}
        _name(_AS_PAIRS.decode(text), (), told)
        return list(told)
    return []


def _is_compact(body: bytes, value: Any) -> bool:
    """True where the body is how a program writes this value, as Go's and ours do: it says nothing twice then."""
    return msgspec.json.encode(value, enc_hook=str) == body  # (a Huge number becomes text, which it is not in the body)


TOLD_MAX: Final = 100
"""For unknown fields, and fields that are there twice."""
_TOLD_LETTERS_MAX: Final = 64 * 1024


def _name(value: Any, path: tuple[str, ...], told: dict[str, None]) -> None:
    """path: of the value, in parts. told: gets what is there twice; of very many, or very long ones, the first."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, inner in value:
            if name in seen and len(told) < TOLD_MAX and sum(map(len, told)) < _TOLD_LETTERS_MAX:
                told[f'duplicate field "{"".join((*path, name))}"'] = None
            seen.add(name)
            _name(inner, (*path, name, "."), told)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _name(inner, (*path[:-1], f"[{index}]", "."), told)
