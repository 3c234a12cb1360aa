"""Durations in Go's syntax, as flags and manifests write them: `300ms`, `1.5s`, `1h30m`."""

from __future__ import annotations

import math
import re
from typing import Final

_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_MAX: Final = 2**63 - 1  # nanoseconds; Go keeps a duration in an int64
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")


def parse_duration_s(text: str) -> float:
    """Seconds, exact to the nanosecond up to 100 days. Raises ValueError in Go's words as time.ParseDuration; only 0
    needs no unit.
    """
    nanoseconds = _parse_ns(text)
    return nanoseconds / 1_000_000_000


def _parse_ns(text: str) -> int:
    negative = text.startswith("-")
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        assert part is not None
        total += _part_ns(part, text)
        at = part.end()
        if total > _MAX + negative:
            raise ValueError(f'time: invalid duration "{text}"')
    return -total if negative else total


def _part_ns(part: re.Match[str], text: str) -> int:
    """One number with its unit. The fraction is cut, not rounded, at the nanosecond."""
    whole, fraction, unit = part[1], part[2] or "", part[3]
    if not whole and not fraction:
        raise ValueError(f'time: invalid duration "{text}"')
    if not unit:
        raise ValueError(f'time: missing unit in duration "{text}"')
    if unit not in _NANOSECONDS:
        raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
    scale = _NANOSECONDS[unit]
    return int(whole or "0") * scale + int(fraction or "0") * scale // int(10 ** len(fraction))


def format_duration(seconds: float) -> str:
    """The duration as Go prints it: `1m30s`, `1.5s`, `300ms`, `0s`. seconds: finite, to the nearest nanosecond, cut at
    Go's range.
    """
    assert math.isfinite(seconds)
    nanoseconds = round(max(-_MAX - 1, min(_MAX, seconds * 1_000_000_000)))
    sign, left = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if left == 0:
        return "0s"
    if left < 1_000:
        return f"{sign}{left}ns"
    if left < 1_000_000:
        return f"{sign}{_decimal(left, 3)}µs"
    if left < 1_000_000_000:
        return f"{sign}{_decimal(left, 6)}ms"
    minutes, left = divmod(left, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{clock}{_decimal(left, 9)}s"


def _decimal(value: int, digits: int) -> str:
    """value / 10^digits without trailing zeros."""
    whole, fraction = divmod(value, 10**digits)
    return f"{whole}.{fraction:0{digits}d}".rstrip("0").rstrip(".")
