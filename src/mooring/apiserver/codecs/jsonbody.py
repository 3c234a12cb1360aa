"""JSON bodies. A number that no float holds keeps its text: for some fields it is a value, for the others the text of the refusal."""

from __future__ import annotations

import math
from typing import Any

import msgspec


class Huge(float):
    """An infinite number, as it was written."""

    text: str

    def __new__(cls, text: str) -> Huge:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def parse_json(body: bytes) -> Any:
    """Raises ValueError for what is no JSON, RecursionError for what is nested too deeply."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        if not str(error).startswith("Number out of range"):
            raise
        return _WITH_HUGE.decode(body)


def hugest(value: Any) -> Huge | None:
    """A number in a JSON value that no float holds."""
    if isinstance(value, dict | list):
        found = map(hugest, value.values() if isinstance(value, dict) else value)
        return next((one for one in found if one is not None), None)
    return value if isinstance(value, Huge) else None


def _float(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else Huge(text)


_WITH_HUGE = msgspec.json.Decoder(float_hook=_float)
