"""JSON from outside, in which nothing nests deeper than a limit: what walks over a value later has room to do it.

`from_json` reads as Python does, which takes NaN; a `JsonDecoder` reads strictly, into a type. Both refuse depth.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

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
    """Raises TooDeep for a JSON text with more levels of maps and lists. For what stays text: whatever decodes it,
    checks it.

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


class JsonDecoder(Generic[T]):
    """Decodes JSON into one type.

    is_open: the type keeps JSON of any shape. Only such JSON is looked through for its depth first, since whatever
    works on it has to go down there. Other types have a depth of their own, and what they have no field for is skipped
    in C, which knows its limit.
    """

    def __init__(
        self,
        type: Any = Any,
        *,
        is_open: bool = True,
        limit: int = DEPTH_MAX,
        float_hook: Callable[[str], Any] | None = None,
    ) -> None:
        self._decode = msgspec.json.Decoder(type, float_hook=float_hook).decode
        self._is_open, self._limit = is_open, limit

    def decode(self, text: bytes | str | msgspec.Raw) -> T:
        """Raises ValueError, of which TooDeep is one."""
        if self._is_open:
            check_depth(text if isinstance(text, str) else bytes(text), self._limit)
        try:
            found: T = self._decode(text)
        except RecursionError:
            raise TooDeep(self._limit) from None
        return found


ANY_JSON: Final = JsonDecoder[Any]()
