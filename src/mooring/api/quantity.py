"""Kubernetes quantities: `1Gi`, `500M`, `100m`, `1e3`."""

from __future__ import annotations

import functools
import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal
from typing import Final

import msgspec

PATTERN_TEXT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

_PATTERN: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,4}|[KMGTPE]i|[numkMGTPE])?", re.ASCII)
_TEXT_MAX: Final = 1000
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LOOSE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtpe])(i?)(?:b|bytes?)?", re.ASCII | re.IGNORECASE)
_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_FINEST: Final = -9
_TOO_LARGE: Final = Decimal(2**63)
_EXACT: Final = Context(prec=4 * 10_000)
"""The context of calculations that must not lose a digit of any quantity."""


class Quantity(msgspec.Struct, frozen=True):
    """An amount, and how it is written. style: binary, decimal or exponent."""

    value: Decimal
    style: str = "decimal"

    def __str__(self) -> str:
        """The canonical form: no fraction, the largest suffix that allows that."""
        if self.style == "binary" and self.is_whole and abs(self.value) >= 1024:
            return _binary_text(int(self.value))
        if self.value == 0:
            return "0"
        digits, exponent = _in_thousands(self.value, None if self.style == "exponent" else max(_SUFFIXES))
        if self.style == "exponent":
            return f"{digits}e{exponent}" if exponent else digits
        return f"{digits}{_SUFFIXES[exponent]}"

    @property
    def is_whole(self) -> bool:
        return self.value == self.value.to_integral_value()

    @property
    def whole(self) -> int:
        """The next larger whole number. Not above 2^63: what is that much does not fit into CSI's 64 bits with a sign,
        whatever it is.
        """
        return int(max(-_TOO_LARGE, min(_TOO_LARGE, self.value)).to_integral_value(ROUND_CEILING))

    def rounded_up(self, exponent: int) -> Quantity:
        """The quantity up to that power of ten; rounded away from zero, so that a small request is not nothing."""
        return Quantity(_rounded(self.value, exponent), self.style)


def parse_quantity(text: str) -> Quantity:
    """Raises ValueError.

    Finer than a billionth is rounded up. More than 2^63-1 is cut where the suffix is a binary one, and kept otherwise,
    as the API server does. Differs from it: texts of more than 1000 letters and exponents of more than four digits are
    refused (it may think about one for minutes), and what is beyond its largest suffix E keeps that suffix (it writes
    1000E as 1).
    """
    if len(text) > _TEXT_MAX:
        raise ValueError(PATTERN_TEXT)
    return _parsed(text)


@functools.lru_cache(maxsize=4096)
def canonical_amount(text: str, exponent: int | None = None) -> str:
    """The canonical form of a quantity; exponent: rounded up to that power of ten. Raises ValueError."""
    amount = parse_quantity(text)
    return str(amount if exponent is None else amount.rounded_up(exponent))


def nearest_quantity(text: str) -> str:
    """The quantity that another spelling may mean: `1Gi` for `1GiB`, `1 gib`; "" for none."""
    found = _LOOSE.fullmatch(text.strip())
    if found is None:
        return ""
    number, suffix, binary = found[1], found[2].upper(), found[3]
    return f"{number}{suffix}i" if binary else f"{number}{'k' if suffix == 'K' else suffix}"


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    found = _PATTERN.fullmatch(text.strip())
    if found is None:
        raise ValueError(PATTERN_TEXT)
    number, suffix = Decimal(found[1] + found[2]), found[3] or ""
    if suffix in _BINARY:
        value, largest = _EXACT.multiply(number, Decimal(2 ** _BINARY[suffix])), _TOO_LARGE - 1
        return Quantity(_rounded(max(-largest, min(largest, value)), _FINEST), "binary")
    if suffix in _DECIMAL:
        return Quantity(_rounded(_EXACT.scaleb(number, _DECIMAL[suffix]), _FINEST))
    return Quantity(_rounded(_EXACT.scaleb(number, int(suffix[1:])), _FINEST), "exponent")


def _rounded(value: Decimal, exponent: int) -> Decimal:
    if _exponent_of(value) >= exponent:
        return value
    return value.quantize(Decimal(1).scaleb(exponent), rounding=ROUND_UP, context=_EXACT)


def _exponent_of(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "a quantity is a number"
    return exponent


def _binary_text(value: int) -> str:
    suffix = ""
    for name, power in _BINARY.items():
        if value % 2**power:
            break
        suffix = name
    return f"{value // 2 ** _BINARY[suffix] if suffix else value}{suffix}"


def _in_thousands(value: Decimal, most: int | None) -> tuple[str, int]:
    """The digits and the largest exponent, a multiple of three and not above `most`, that say the value without a
    fraction.
    """
    shortest = _exponent_of(value.normalize(_EXACT))
    exponent = shortest // 3 * 3
    if most is not None:
        exponent = min(exponent, most)
    return f"{_EXACT.scaleb(value, -exponent):.0f}", exponent
