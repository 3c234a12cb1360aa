"""How long ago something was, in the few letters that fit into a column."""

from __future__ import annotations

import functools
from typing import Final

from mooring.base.clock import parse_rfc3339

UNKNOWN: Final = "<unknown>"

_ZERO: Final = "0001-01-01T00:00:00Z"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY


def since(timestamp: str | None, now: float) -> str:
    """The age of a moment. timestamp: RFC 3339, nothing for one that is not known. now: seconds since the epoch."""
    return short(now - _seconds(timestamp)) if timestamp and timestamp != _ZERO else UNKNOWN


def short(seconds: float) -> str:
    """At most two units, the second only while it matters: `119s`, `2m5s`, `5h10m`, `3d4h`, `2y30d`."""
    whole = int(seconds)  # (towards zero: clocks differ a little, so what is a second ahead is now)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(0, whole)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, large: int, large_letter: str, small: int, small_letter: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_letter}" + (f"{rest}{small_letter}" if rest else "")


@functools.lru_cache(maxsize=4096)
def _seconds(timestamp: str) -> float:
    return parse_rfc3339(timestamp)
