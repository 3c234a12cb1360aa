"""Header fields as HPACK's literals: none is indexed, so that a block can be repeated byte by byte, whatever else was
sent.
"""

from __future__ import annotations

from typing import Final

TABLE_EMPTIED: Final = b"\x20"
"""Begins the next block after the peer has made its table smaller: the size that we use, which is nothing."""

STATUS_200: Final = b"\x88"
"""A field of the static table, whole."""


def named(index: int, value: bytes) -> bytes:
    """A field whose name is in the static table (RFC 7541, appendix A), not to be indexed."""
    return _integer(0x00, 4, index) + _integer(0x00, 7, len(value)) + value


def literal(name: bytes, value: bytes) -> bytes:
    """A field with its name in full, not to be indexed."""
    return b"\x00" + _integer(0x00, 7, len(name)) + name + _integer(0x00, 7, len(value)) + value


def _integer(first: int, bits: int, number: int) -> bytes:
    """RFC 7541, section 5.1."""
    limit = (1 << bits) - 1
    if number < limit:
        return bytes((first | number,))
    out = bytearray((first | limit,))
    number -= limit
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
