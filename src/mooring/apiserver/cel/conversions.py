"""CEL's conversions: numbers, text, timestamps, durations, quantities."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any, Final

import msgspec

from mooring.api.quantity import parse_quantity
from mooring.apiserver.cel.values import CelError, no_overload
from mooring.base.units import parse_duration_s

_TIMESTAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_INT_LIMIT: Final = 2**63


class Amount(msgspec.Struct, frozen=True, order=True):
    """A quantity: equal when it is as much, however it was written."""

    value: Decimal


def to_int(value: Any) -> int:
    match value:
        case bool():
            raise no_overload()
        case int():
            return value
        case float() if math.isfinite(value) and -_INT_LIMIT < value < _INT_LIMIT:
            return int(value)
        case float():
            raise CelError("integer overflow")
        case str():
            return int(_number(value, int))
        case datetime.datetime():
            return math.floor(value.timestamp())
    raise no_overload()


def to_double(value: Any) -> float:
    if isinstance(value, str):
        return float(_number(value, float))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise no_overload()
    return float(value)


def to_string(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case bytes():
            return _decoded(value)
        case datetime.datetime():
            return value.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case datetime.timedelta():
            return f"{value.total_seconds():g}s"
    raise no_overload()


def to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    known = {
        "1": True,
        "t": True,
        "true": True,
        "TRUE": True,
        "True": True,
        "0": False,
        "f": False,
        "false": False,
        "False": False,
    }
    if not isinstance(value, str) or value not in known:
        raise no_overload()
    return known[value]


def to_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise no_overload()
    return value


def to_timestamp(value: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise CelError(f"cannot parse {value!r} as a timestamp")
    try:
        return datetime.datetime.fromisoformat(found[1] + (found[2] or "")[:7] + found[3])
    except ValueError as error:
        raise CelError(str(error)) from error


def to_duration(value: Any) -> datetime.timedelta:
    if isinstance(value, datetime.timedelta):
        return value
    if not isinstance(value, str):
        raise no_overload()
    try:
        return datetime.timedelta(seconds=parse_duration_s(value))
    except ValueError:
        raise CelError(f"cannot parse {value!r} as a duration") from None


def to_quantity(value: Any) -> Amount:
    if not isinstance(value, str):
        raise no_overload()
    try:
        return Amount(parse_quantity(value).value)
    except ValueError as error:
        raise CelError(str(error)) from error


def is_quantity(value: Any) -> bool:
    try:
        return to_quantity(value) is not None
    except CelError:
        return False


def _number(text: str, kind: Any) -> Any:
    try:
        if "_" in text or text != text.strip():
            raise ValueError
        number = kind(text)
    except (ValueError, OverflowError):
        raise CelError(f"strconv: parsing {text!r}: invalid syntax") from None
    if kind is int and not -_INT_LIMIT <= number < _INT_LIMIT:
        raise CelError("integer overflow")
    return number


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
