"""Maps of quantities by resource, such as `requests`: how exactly they are kept, and what is odd in them."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.quantity import parse_quantity

_FINEST: Final = -3


def default(amounts: dict[str, str] | None) -> None:
    """Rounds up to thousandths: nothing finer is stored."""
    for name, text in (amounts or {}).items():
        assert amounts is not None
        amounts[name] = str(parse_quantity(text).rounded_up(_FINEST))


def is_fractional(text: str) -> bool:
    return not parse_quantity(text).is_whole


def fraction_warnings(resources: dict[str, Any], field: str) -> list[str]:
    """What is told about storage in parts of a byte."""
    return [
        f'{field}.{part}[storage]: fractional byte value "{resources[part]["storage"]}" is invalid, must be an integer'
        for part in ("requests", "limits")
        if "storage" in (resources.get(part) or {}) and is_fractional(resources[part]["storage"])
    ]
