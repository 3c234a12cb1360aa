"""Kubernetes quantities: `1Gi`, `500M`, `100m`, `1e3`."""

from __future__ import annotations

import dataclasses
import functools
import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

PATTERN_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_PATTERN: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4}|[KMGTPE]i|[numkMGTPE])?", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LOOSE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe])(i?)(?:b|bytes?)?", re.ASCII | re.IGNORECASE)
_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_SMALLEST: Final = Decimal("1e-9")
_LARGEST: Final = Decimal(2**63 - 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, and how it is written. style: binary, decimal or exponent."""

    value: Decimal
    style: str = "decimal"

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that allows that."""
        if self.style == "binary" and self.value == self.value.to_integral_value() and abs(self.value) >= 1024:
            return _binary_text(int(self.value))
        if self.value == 0:
            return "0"
        digits, exponent = _in_thousands(self.value)
        if self.style == "exponent":
            return f"{digits}e{exponent}" if exponent else str(digits)
        return f"{digits}{_SUFFIXES[exponent]}"


def nearest_quantity(text: str) -> str:
    """What somebody may have meant who wrote an amount of bytes in another way: `1Gi` for `1GiB`, `1 gib`; "" when nobody can tell."""
    found = _LOOSE.fullmatch(text.strip())
    if found is None:
        return ""
    number, suffix, binary = found[1], found[2].upper(), found[3]
    return f"{number}{suffix}i" if binary else f"{number}{'k' if suffix == 'K' else suffix}"


@functools.lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Raises ValueError. Finer than a billionth is rounded up, larger than 2^63-1 is cut, as the API server does."""
    found = _PATTERN.fullmatch(text.strip())
    if found is None:
        raise ValueError(PATTERN_TEXT)
    number, suffix = Decimal(found[1] + found[2]), found[3] or ""
    if suffix in _BINARY:
        return Quantity(_bounded(number * 2 ** _BINARY[suffix]), "binary")
    if suffix in _DECIMAL:
        return Quantity(_bounded(number.scaleb(_DECIMAL[suffix])))
    return Quantity(_bounded(number.scaleb(int(suffix[1:]))), "exponent")


def _bounded(value: Decimal) -> Decimal:
    value = max(-_LARGEST, min(_LARGEST, value))
    return value if value % _SMALLEST == 0 else value.quantize(_SMALLEST, rounding=ROUND_CEILING)


def _binary_text(value: int) -> str:
    suffix = ""
    for name, power in _BINARY.items():
        if value % 2**power:
            break
        suffix = name
    return f"{value // 2 ** _BINARY[suffix] if suffix else value}{suffix}"


def _in_thousands(value: Decimal) -> tuple[int, int]:
    """The whole number and the exponent, a multiple of three, that say the value without a fraction."""
    for exponent in range(18, -10, -3):
        scaled = value.scaleb(-exponent)
        if scaled == scaled.to_integral_value():
            return int(scaled), exponent
    raise AssertionError("a bounded quantity has at most nine decimals")
