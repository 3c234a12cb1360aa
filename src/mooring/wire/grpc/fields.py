"""Fields of protobuf messages, read and written without protobuf: for programs of which one stands on each node, and
that have two calls.

protobuf takes 4 MiB of such a program, a fifth. Source: protobuf's encoding; tests compare with protobuf itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_VARINT, _FIXED64, _LENGTH, _GROUP, _END, _FIXED32 = range(6)
_VARINT_BYTES_MAX: Final = 10
_BITS: Final = (1 << 64) - 1  # what is beyond is dropped, as protobuf drops it
_NUMBER_MAX: Final = (1 << 29) - 1
_DEPTH_MAX: Final = 100

Field = tuple[int, "int | bytes | None"]
"""Number and value: a varint, or the bytes of a string or a message. None for what has another type of wire."""


class Malformed(ValueError):
    """These bytes are no message."""


def fields_of(message: bytes) -> Iterator[Field]:
    """In the order of the message; a field may come several times. Raises Malformed."""
    at = 0
    while at < len(message):
        number, kind, at = _tag(message, at)
        value: int | bytes | None = None
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _LENGTH:
            length, at = _varint(message, at)
            value, at = _taken(message, at, length)
        else:
            at = _skipped(message, at, number, kind, _DEPTH_MAX)
        yield number, value


def text_of(value: bytes) -> str:
    """Raises Malformed."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is no UTF-8") from None


def text(number: int, value: str) -> bytes:
    """A string as a field; nothing for an empty one."""
    encoded = value.encode()
    return _written(number << 3 | _LENGTH) + _written(len(encoded)) + encoded if encoded else b""


def flag(number: int, value: bool) -> bytes:
    """A bool as a field; nothing for False."""
    return _written(number << 3 | _VARINT) + b"\1" if value else b""


def _tag(message: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _varint(message, at)
    number, kind = tag >> 3, tag & 7
    if not 0 < number <= _NUMBER_MAX or kind > _FIXED32:
        raise Malformed(f"there is no field {number} of wire type {kind}")
    return number, kind, at


def _skipped(message: bytes, at: int, number: int, kind: int, depth: int) -> int:
    """The place behind a value that nobody asks for."""
    if kind == _VARINT:
        return _varint(message, at)[1]
    if kind == _LENGTH:
        length, at = _varint(message, at)
        return _taken(message, at, length)[1]
    if kind in (_FIXED32, _FIXED64):
        return _taken(message, at, 4 if kind == _FIXED32 else 8)[1]
    if kind == _END or not depth:
        raise Malformed("a group ends that has not begun" if depth else "groups are nested too deep")
    while True:
        inner, kind, at = _tag(message, at)
        if kind == _END:
            if inner != number:
                raise Malformed("another group ends")
            return at
        at = _skipped(message, at, inner, kind, depth - 1)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_VARINT_BYTES_MAX):
        if at >= len(message):
            raise Malformed("the message ends in a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value & _BITS, at
    raise Malformed("a number does not end")


def _taken(message: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(message) - at:
        raise Malformed("the message ends in a value")
    return message[at : at + length], at + length


def _written(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
