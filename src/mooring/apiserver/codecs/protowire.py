"""The protobuf wire format: bytes into numbered fields, and single values into JSON. No message is known here.

Everything is bounded, so that hostile input costs no more than its length: fields are read in one pass as slices by
position, never copies of the rest; varints end after ten bytes; groups are skipped without recursion. Some values are
messages themselves (a time, a quantity), whose few fields are read by number.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mooring.apiserver.codecs.jsonbody import parse_json

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_GROUP: Final = 3

_VARINT_BYTES_MAX: Final = 10
_ONE_BYTE: Final = 0x80
_CUT: Final = "unexpected end"
_NUMBER_MAX: Final = 2**29 - 1
_GROUPS_MAX: Final = 32


def fields(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field between two positions: number, wire type, and its value (VARINT) or the start and end of its content.

    Groups are skipped. Raises ValueError for malformed messages.
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


One = Callable[[bytes, int, int, int], Any]
"""One value: takes all bytes, its wire type, the number itself or where it starts, and its end. Raises ValueError."""

_PART_BYTES_MAX: Final = 1024 * 1024
_DOUBLE: Final = struct.Struct("<d")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def expect(wire: int, wanted: int) -> None:
    """Raises ValueError for another wire type."""
    if wire != wanted:
        raise ValueError(f"wire type {wire}, wanted {wanted}")


def text(data: bytes, wire: int, begin: int, end: int) -> str:
    """Bytes that are no UTF-8 are replaced, as Go does when it writes JSON: clients cut messages in the middle of
    letters.
    """
    expect(wire, BYTES)
    return data[begin:end].decode("utf-8", "replace")


def _boolean(_data: bytes, wire: int, value: int, _end: int) -> bool:
    expect(wire, VARINT)
    return value != 0


def _integer(bits: int) -> Callable[[bytes, int, int, int], int]:
    half, whole = 1 << (bits - 1), 1 << bits

    def read(_data: bytes, wire: int, value: int, _end: int) -> int:
        expect(wire, VARINT)
        value &= whole - 1
        return value - whole if value >= half else value

    return read


_int32: Final = _integer(32)
_int64: Final = _integer(64)


def _double(data: bytes, wire: int, begin: int, _end: int) -> float:
    expect(wire, FIXED64)
    value: float = _DOUBLE.unpack_from(data, begin)[0]
    return value


def _bytes(data: bytes, wire: int, begin: int, end: int) -> str:
    expect(wire, BYTES)
    return base64.b64encode(data[begin:end]).decode()


class _Parts:
    """The fields of a message that is one value; the last of a number counts."""

    __slots__ = ("_data", "_found")

    def __init__(self, data: bytes, wire: int, begin: int, end: int) -> None:
        expect(wire, BYTES)
        if end - begin > _PART_BYTES_MAX:
            raise ValueError(f"a value of more than {_PART_BYTES_MAX} bytes")
        self._data = data
        self._found = {found[0]: found[1:] for found in fields(data, begin, end)}

    def number(self, field: int) -> int:
        return _int64(self._data, *self._found[field]) if field in self._found else 0

    def raw(self, field: int) -> bytes | None:
        if field not in self._found:
            return None
        wire, begin, end = self._found[field]
        expect(wire, BYTES)
        return self._data[begin:end]

    def text(self, field: int) -> str | None:
        return text(self._data, *self._found[field]) if field in self._found else None


def _time(data: bytes, wire: int, begin: int, end: int) -> str | None:
    """Whole seconds; nothing and zero are no time."""
    seconds = _Parts(data, wire, begin, end).number(1)
    return _moment(seconds, 0) if seconds else None


def _micro_time(data: bytes, wire: int, begin: int, end: int) -> str | None:
    parts = _Parts(data, wire, begin, end)
    seconds, nanos = parts.number(1), parts.number(2)
    return _moment(seconds, nanos // 1000, "microseconds") if seconds or nanos else None


def _moment(seconds: int, micros: int, precision: str = "seconds") -> str:
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise ValueError("year is not in the range [1, 9999]") from None
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _quantity(data: bytes, wire: int, begin: int, end: int) -> str:
    found = _Parts(data, wire, begin, end).text(1)
    return "0" if found is None else found


def _int_or_string(data: bytes, wire: int, begin: int, end: int) -> int | str:
    parts = _Parts(data, wire, begin, end)
    return parts.text(3) or "" if parts.number(1) else _int32(data, VARINT, parts.number(2), end)


def _raw_json(data: bytes, wire: int, begin: int, end: int) -> Any:
    raw = _Parts(data, wire, begin, end).raw(1)
    try:
        return parse_json(raw) if raw else None
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from None


def strings(data: bytes, wire: int, begin: int, end: int) -> list[str]:
    """The value of a map of lists of strings, which is declared as a map of anything: protobuf wants a message around
    each list.
    """
    expect(wire, BYTES)
    return [text(data, inner, start, stop) for number, inner, start, stop in fields(data, begin, end) if number == 1]


SCALARS: Final[Mapping[str, One]] = {
    "s": text,
    "b": _boolean,
    "i32": _int32,
    "i64": _int64,
    "f64": _double,
    "y": _bytes,
    "time": _time,
    "micro": _micro_time,
    "q": _quantity,
    "any": _raw_json,
    "intstr": _int_or_string,
}
"""By the type's name in declarations."""

NUMBERS: Final = ("b", "i32", "i64")
"""Types of which several may be packed into one field."""

EMPTY: Final[Mapping[str, Any]] = {"q": "0", "b": False, "i32": 0, "i64": 0}
"""The value of a map's entry that names none, where it is not the empty text."""
