"""The syntax that requests and answers share: the errors, the bounds, and the lines of headers.

Ambiguous input is refused: a folded line, a space before a colon, a bare line feed. A proxy between the two ends could
read it otherwise, and one message could be taken for two.
"""

from __future__ import annotations

import re
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
"""First line and headers. Differs from kube-apiserver (1 MiB)."""

TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]"
"""A letter of a method or of a header's name."""
NAME: Final = re.compile(f"{TOKEN}+")
"""For a header."""
_VISIBLE: Final = bytes(byte for byte in range(256) if byte == 0x09 or 0x20 <= byte != 0x7F)
"""The bytes that a line may have: all but control characters."""


class Malformed(ValueError):
    """Bytes that are no HTTP, or that could be read in two ways. status: what a server answers to such a request."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class BrokenOff(ValueError):
    """The connection ended before the answer did. has_begun: at least one byte of the answer had come. has_head: its
    head, too.
    """

    def __init__(self, *, has_begun: bool, has_head: bool) -> None:
        super().__init__(
            "the connection ended in the middle of the answer" if has_begun else "the connection ended before an answer"
        )
        self.has_begun, self.has_head = has_begun, has_head


class Unsendable(ValueError):
    """A request that would be no HTTP, or another one than was meant. Shows no values: they may be secret."""


def header_fields(raw: bytes) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The first value of each header by its name in lower case; and for names that come more than once, all values.
    Raises Malformed.

    raw: header lines without the last line end.
    """
    first: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    if not raw:
        return first, repeated
    lines = raw.decode("latin-1").split("\r\n")
    if len(raw.translate(None, _VISIBLE)) != 2 * (len(lines) - 1):
        raise Malformed("a header line is malformed")  # a control character that is no line end
    for line in lines:
        spelled, colon, value = line.partition(":")
        name = _NAMES.get(spelled) or _lower_name(spelled)
        if not colon:
            raise Malformed("a header line is malformed")
        value = value.strip(" \t")
        if name not in first:
            first[name] = value
        else:
            repeated.setdefault(name, [first[name]]).append(value)
    return first, repeated


_NAMES: Final[dict[str, str]] = {}
"""Names of headers that have been seen, as they were spelled, in lower case: the same few come with each message."""
_NAMES_MAX: Final = 256
_NAME_KEPT_MAX: Final = 64


def _lower_name(spelled: str) -> str:
    if NAME.fullmatch(spelled) is None:
        raise Malformed("a header line is malformed")
    name = spelled.lower()
    if len(_NAMES) < _NAMES_MAX and len(spelled) <= _NAME_KEPT_MAX:
        _NAMES[spelled] = name
    return name


def stays(text: str, version: int) -> bool:
    """True when a `Connection` header lets the connection stay. text: all its values; words that only begin or end so
    say nothing.
    """
    if not text:
        return version >= 1
    words = {word.strip(" \t").lower() for word in text.split(",")}
    return "close" not in words and (version >= 1 or "keep-alive" in words)


def content_length(text: str) -> int:
    """Raises Malformed."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX):
        raise Malformed("the Content-Length is no number")
    return int(text)


_LENGTH_DIGITS_MAX: Final = 15
