"""CEL's values on Python's: equality, order, arithmetic. Timestamps are datetimes, durations timedeltas; others stand
for themselves.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**63 - 1
SIZE_MAX: Final = 1 << 20
"""How long a text or a list may become."""


class CelError(ValueError):
    """An evaluation without a result."""


class Type(msgspec.Struct, frozen=True):
    """The result of `type(x)`."""

    name: str


class Optional(msgspec.Struct, frozen=True):
    there: bool
    value: Any = None


class Unordered(list[Any]):
    """A list that is a set or a map: the order of its items says nothing."""


NONE: Final = Optional(there=False)

TYPES: Final = {
    "bool": bool,
    "int": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "null_type": type(None),
    "list": list,
    "map": dict,
    "google.protobuf.Timestamp": datetime.datetime,
    "google.protobuf.Duration": datetime.timedelta,
    "type": Type,
    "optional_type": Optional,
}
_NAMES: Final = {kind: name for name, kind in TYPES.items()}


def type_name(value: Any) -> str:
    if isinstance(value, list):
        return "list"
    return _NAMES.get(type(value), type(value).__name__)


def no_overload() -> CelError:
    return CelError("no such overload")


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Unordered) and isinstance(right, list):
        return len(left) == len(right) and all(contains(item, right) for item in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def contains(item: Any, holder: Any) -> bool:
    if isinstance(holder, list):
        return any(equal(item, other) for other in holder)
    if isinstance(holder, dict):
        return any(equal(item, key) for key in holder) if isinstance(item, bool | float) else item in holder
    raise no_overload()


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1. Raises CelError for values that have no order among them."""
    numbers = _is_number(left) and _is_number(right)
    same = type(left) is type(right) and isinstance(left, str | bytes | bool | datetime.datetime | datetime.timedelta)
    if (
        not numbers
        and not same
        and not (type(left) is type(right) and hasattr(left, "__lt__") and not isinstance(left, list | dict))
    ):
        raise no_overload()
    try:
        return int(left > right) - int(left < right)
    except TypeError:
        raise no_overload() from None


def add(left: Any, right: Any) -> Any:
    if _is_number(left) and type(left) is type(right):
        return fitting(left + right)
    if type(left) is type(right) and isinstance(left, str | bytes | list | datetime.timedelta):
        return fitting(left + right)
    if {type(left), type(right)} == {datetime.datetime, datetime.timedelta}:
        return _moment(lambda: left + right)
    raise no_overload()


def subtract(left: Any, right: Any) -> Any:
    if _is_number(left) and type(left) is type(right):
        return fitting(left - right)
    if isinstance(left, datetime.datetime) and isinstance(right, datetime.datetime | datetime.timedelta):
        return _moment(lambda: left - right)
    if isinstance(left, datetime.timedelta) and isinstance(right, datetime.timedelta):
        return left - right
    raise no_overload()


def multiply(left: Any, right: Any) -> Any:
    if not _is_number(left) or type(left) is not type(right):
        raise no_overload()
    return fitting(left * right)


def divide(left: Any, right: Any) -> Any:
    """Whole numbers are cut towards zero."""
    if not _is_number(left) or type(left) is not type(right):
        raise no_overload()
    if isinstance(left, float):
        return left / right if right else math.copysign(math.inf, left) if left else math.nan
    if not right:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return fitting(quotient if (left < 0) == (right < 0) else -quotient)


def remainder(left: Any, right: Any) -> Any:
    """It has the sign of what was divided."""
    if not (isinstance(left, int) and isinstance(right, int)) or isinstance(left, bool) or isinstance(right, bool):
        raise no_overload()
    if not right:
        raise CelError("modulus by zero")
    rest = abs(left) % abs(right)
    return rest if left >= 0 else -rest


def negate(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return -value
    if not _is_number(value):
        raise no_overload()
    return fitting(-value)


def is_true(value: Any) -> bool:
    """Raises CelError for what is no bool."""
    if not isinstance(value, bool):
        raise no_overload()
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def fitting(value: Any) -> Any:
    """The value, when it is not too large. Raises CelError."""
    if isinstance(value, str | bytes | list) and len(value) > SIZE_MAX:
        raise CelError("the value becomes too large")
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise CelError("integer overflow")
    return value


def _moment(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (OverflowError, TypeError):
        raise CelError("timestamp overflow") from None
