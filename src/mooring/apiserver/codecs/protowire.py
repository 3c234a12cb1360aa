"""The protobuf wire format: bytes into numbered fields. No message is known here.

Everything has a bound, so that what strangers send costs no more than its length: fields are read in one pass and are slices by
position, never copies of the rest; varints end after ten bytes; groups are stepped over without recursion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_GROUP: Final = 3
_GROUP_END: Final = 4

_VARINT_BYTES_MAX: Final = 10
_ONE_BYTE: Final = 0x80
_CUT: Final = "unexpected end"
_NUMBER_MAX: Final = 2**29 - 1
_GROUPS_MAX: Final = 32


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field between two positions: its number, its wire type, and either its value or where its content starts, and ends.

    For VARINT the third part is the value. Groups are skipped. Raises ValueError for what is no message.
    """
    at = start
    while at < end:
        tag = data[at]
        if tag < _ONE_BYTE:  # (most tags and most lengths are one byte)
            at += 1
        else:
            tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not 1 <= number <= _NUMBER_MAX:
            raise ValueError(f"illegal field number {number}")
        if wire == BYTES:
            if at < end and data[at] < _ONE_BYTE:
                begin = at + 1
                at = begin + data[at]
            else:
                length, begin = varint(data, at, end)
                at = begin + length
            if at > end:
                raise ValueError(_CUT)
            yield number, wire, begin, at
        elif wire == VARINT:
            value, at = varint(data, at, end)
            yield number, wire, value, at
        elif wire == _GROUP:
            at = _after_group(data, at, end)
        else:
            begin, at = at, _after_fixed(wire, at, end)
            yield number, wire, begin, at


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number there, as 64 bits without sign, and the position after it. Raises ValueError."""
    if at < end and data[at] < _ONE_BYTE:
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(end, at + _VARINT_BYTES_MAX)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise ValueError(_CUT if end - at < _VARINT_BYTES_MAX else "a number of more than 64 bits")


def _after_fixed(wire: int, at: int, end: int) -> int:
    if wire not in (FIXED32, FIXED64):
        raise ValueError(f"illegal wire type {wire}")
    return _within(at + (4 if wire == FIXED32 else 8), end)


def _after_group(data: bytes, at: int, end: int) -> int:
    """The position after the end of the group that starts there."""
    depth = 1
    while depth:
        tag, at = varint(data, at, end)
        match tag & 7:
            case 0:
                _, at = varint(data, at, end)
            case 2:
                length, at = varint(data, at, end)
                at = _within(at + length, end)
            case 3:
                depth += 1
            case 4:
                depth -= 1
            case wire:
                at = _after_fixed(wire, at, end)
        if depth > _GROUPS_MAX:
            raise ValueError("groups nested too deeply")
    return at


def _within(at: int, end: int) -> int:
    if at > end:
        raise ValueError(_CUT)
    return at
