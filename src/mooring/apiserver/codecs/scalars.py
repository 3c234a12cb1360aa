"""The values in objects: decoded from JSON, checked, and brought into the one form in which they are stored."""

from __future__ import annotations

import base64
import datetime
import functools
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.api.quantity import PATTERN_TEXT, canonical_amount
from mooring.apiserver.codecs.jsonbody import Huge, hugest


def equal_json(left: Any, right: Any) -> bool:
    """True for the same value, whatever the order of members."""
    return bool(left == right) and _alike(left, right, bool)


def equally_written(left: Any, right: Any) -> bool:
    """True for the same value with its numbers in the same form: 1.0 is not 1 here."""
    return equal_json(left, right) and _alike(left, right, float)


def _alike(left: Any, right: Any, kind: type) -> bool:
    """For equal values: both, or neither, are of this type, which Python holds for equal to others."""
    if isinstance(left, dict):
        return all(_alike(inner, right[name], kind) for name, inner in left.items())
    if isinstance(left, list):
        return all(map(_alike, left, right, itertools.repeat(kind)))
    return isinstance(left, kind) == isinstance(right, kind)


_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_TIME_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_TIME_LETTERS_MAX: Final = len("2006-01-02T15:04:05.000000000+07:00")
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"


_GO_TYPES: Final = {"boolean": "bool", "integer": "number"}


class WrongType(ValueError):
    """A value of another JSON type than the field's, or a whole number that it has no room for; reads like
    encoding/json's error.
    """

    def __init__(self, wanted: str, found: Any, path: str) -> None:
        self.wanted, self.found = wanted, found
        where = f"Go struct field {path}" if path else "Go value"
        kind = _GO_TYPES.get(type_of(found), type_of(found))
        if kind == "number" and wanted.startswith(("int", "float")):
            kind = f"number {found!s}"
        super().__init__(f"json: cannot unmarshal {kind} into {where} of type {wanted}")


def refuse_huge(value: Any, path: str = "") -> None:
    """Raises WrongType where a number stands that no float holds."""
    found = hugest(value)
    if found is not None:
        raise WrongType("float64", found, path)


def _string(value: Any, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongType("string", value, path)
    return value


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise WrongType("bool", value, path)
    return value


def _integer(bits: int) -> Callable[[Any, str], int]:
    def decode(value: Any, path: str) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise WrongType(f"int{bits}", value, path)
        assert isinstance(value, int)
        return value

    return decode


_INT32: Final = _integer(32)


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _bytes(value: Any, path: str) -> str:
    """base64 text, written anew."""
    text = _string(value, path).replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(text):
        raise ValueError(f"illegal base64 data at input byte {_first_bad_byte(text)}")
    return base64.b64encode(base64.b64decode(text)).decode()


def _time(value: Any, path: str) -> str:
    """Whole seconds, UTC."""
    text = _string(value, path)
    return _whole_seconds(text) if len(text) <= _TIME_LETTERS_MAX else _whole_seconds.__wrapped__(text)


@functools.lru_cache(maxsize=4096)
def _whole_seconds(text: str) -> str:
    """Remembered: an object that is written again has the times that it had."""
    return _shown(_parsed_time(text, _TIME_LAYOUT, exact_decimals=None), "seconds")


def _micro_time(value: Any, path: str) -> str:
    """Microseconds, UTC; the input has exactly six decimals too."""
    return _shown(_parsed_time(_string(value, path), _MICRO_LAYOUT, exact_decimals=6), "microseconds")


def _shown(moment: datetime.datetime, precision: str) -> str:
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _quantity(value: Any, path: str) -> str:
    """Canonical: `1024Mi` becomes `1Gi`. Numbers are accepted."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(PATTERN_TEXT)
    return canonical_amount(str(value))


def _int_or_string(value: Any, path: str) -> int | str:
    return value if isinstance(value, str) else _INT32(value, path)


def _number(value: Any, path: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or isinstance(value, Huge):
        raise WrongType("float64", value, path)
    return value


def _anything(value: Any, _path: str) -> Any:
    refuse_huge(value)
    return value


DECODERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "s": _string,
    "b": _boolean,
    "i32": _INT32,
    "i64": _integer(64),
    "f64": _number,
    "y": _bytes,
    "time": _time,
    "micro": _micro_time,
    "q": _quantity,
    "intstr": _int_or_string,
    "any": _anything,
}

ZEROS: Final[Mapping[str, Any]] = {
    "s": "",
    "b": False,
    "i32": 0,
    "i64": 0,
    "f64": 0,
    "y": None,
    "time": None,
    "micro": None,
    "q": "0",
    "intstr": 0,
    "any": None,
}


def _parsed_time(text: str, layout: str, exact_decimals: int | None) -> datetime.datetime:
    found = _TIME.fullmatch(text)
    decimals = len(found[2] or ".") - 1 if found else 0
    try:
        if found is None or (exact_decimals is not None and decimals != exact_decimals):
            raise ValueError
        moment = datetime.datetime.fromisoformat(found[1] + (found[2] or "")[:7] + found[3])
    except ValueError:
        raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{text}" as "{layout}"') from None
    return moment.astimezone(datetime.UTC)


def type_of(value: Any) -> str:
    """A JSON value's type as schemas name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() if -(2**63) <= value < 2**63:
            return "integer"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _first_bad_byte(text: str) -> int:
    """Where Go finds it: four letters at a time; what ends too early is wrong from its first."""
    whole = re.match(r"(?:[A-Za-z0-9+/]{4})*", text)
    assert whole is not None
    place = whole.end()
    last = re.compile(r"[A-Za-z0-9+/]*").match(text, place)
    assert last is not None
    letters = last.end() - place
    padding = {2: "==", 3: "="}.get(letters, "")
    if padding and text.startswith(padding, last.end()):
        return last.end() + len(padding)  # (what comes after the end)
    if letters == 2 and text.startswith("=", last.end()):
        return last.end() + 1
    return place if last.end() == len(text) else last.end()
