"""JSON from outside, in which nothing nests deeper than a limit: what walks over a value later has room to do it."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any, Final

DEPTH_MAX: Final = 256
"""Levels of maps and lists. Python ends after a thousand calls within each other, and what merges, compares or prints a
value takes up to three of them for a level. A custom kind's schema of 50 levels, the most that our server takes, has
about a hundred here, and any other object twenty at the most. kube-apiserver takes 10,000: Go's stacks grow.
"""

_PAIR: Final = b"\1\xff"
"""What opens is 1, and what closes is -1 as a signed byte: their sum is the level."""
_SIGNS: Final = bytes(_PAIR[byte not in b"[{"] for byte in range(256))
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_TEXT: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


class TooDeep(ValueError):
    """A document nests deeper than its limit."""

    def __init__(self, limit: int = DEPTH_MAX) -> None:
        super().__init__(f"it is nested deeper than {limit} levels")


def check_depth(text: str | bytes, limit: int = DEPTH_MAX) -> None:
    """Raises TooDeep for a JSON text with more levels of maps and lists.

    A kilobyte takes a microsecond, a quarter of what decoding takes. Brackets are followed only where there are many.
    """
    if len(text) <= 2 * limit:
        return
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
    if _is_deep(data, limit) and _is_deep(_TEXT.sub(b"", data), limit):  # brackets within texts open nothing
        raise TooDeep(limit)


def _is_deep(data: bytes, limit: int) -> bool:
    brackets = data.translate(_SIGNS, _OTHERS)
    if len(brackets) <= 2 * limit:
        return False
    # Pairs without content go first, a level with each pass: that is quick, and hardly anything is left of most texts.
    taken = 0
    while len(left := brackets.replace(_PAIR, b"")) < 0.75 * len(brackets):
        brackets, taken = left, taken + 1
    return any(map((limit - taken).__lt__, itertools.accumulate(memoryview(brackets).cast("b"))))


def from_json(text: str | bytes) -> Any:
    """Raises ValueError, of which TooDeep is one."""
    check_depth(text)
    return json.loads(text)
