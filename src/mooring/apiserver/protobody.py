"""Protobuf bodies, as Go clients send them, into the JSON values that they stand for.

A body is four bytes of magic and an envelope: apiVersion, kind, and the object's message. What a message's numbers mean stands in
the declarations of `schema.py`; what comes out here takes the same way as a JSON body, so there is one decoding and one validation.
"""

from __future__ import annotations

import base64
import datetime
import functools
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.protowire import BYTES, FIXED64, VARINT, fields, varint
from mooring.apiserver.schema import Field, Message, Messages

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\0"
_TYPE: Final = 1
_CONTENT: Final = 2
_ENCODING: Final = 3
_FIELDS_MAX: Final = 200_000
_DEPTH_MAX: Final = 40

_TYPE_META: Final = Messages("TypeMeta: 1 apiVersion s, 2 kind s")["TypeMeta"]
_TIME: Final = Messages("Time: 1 seconds i64, 2 nanos i32")["Time"]
_QUANTITY: Final = Messages("Quantity: 1 string s")["Quantity"]
_RAW: Final = Messages("Raw: 1 raw y")["Raw"]
_INT_OR_STRING: Final = Messages("IntOrString: 1 type i64, 2 intVal i32, 3 strVal s")["IntOrString"]
_DOUBLE: Final = struct.Struct("<d")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def is_protobuf(body: bytes) -> bool:
    return body.startswith(_MAGIC)


def parse_protobuf(body: bytes, message: Message) -> dict[str, Any]:
    """The JSON value of a body, apiVersion and kind among its members. message: the type of the object in the envelope.

    Raises ValueError.
    """
    if not is_protobuf(body):
        raise ValueError("the protobuf body does not start with the four bytes 'k8s\\0'")
    if len(body) == len(_MAGIC):
        raise ValueError("the protobuf body has no envelope")
    reading, content = _Reading(body), (0, 0)
    named: dict[str, Any] = {}
    for number, wire, begin, end in fields(body, len(_MAGIC), len(body)):
        reading.count(1)
        if number in (_TYPE, _CONTENT, _ENCODING):
            _expect(wire, BYTES)
        if number == _TYPE:
            reading.message(_TYPE_META, begin, end, named, 0)
        elif number == _CONTENT:
            content = begin, end
        elif number == _ENCODING and end > begin:
            raise ValueError("a content encoding inside of the protobuf envelope is not supported")
    obj = reading.message(message, *content, {}, 0)
    return {**{name: text for name, text in named.items() if text}, **obj}


class _Reading:
    """One body, read once. How many fields it has had so far counts against a limit, whatever they hold."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._left = _FIELDS_MAX

    def count(self, fields_count: int) -> None:
        """Raises ValueError when these are too many."""
        self._left -= fields_count
        if self._left < 0:
            raise ValueError(f"more than {_FIELDS_MAX} fields in one object")

    def message(self, message: Message, start: int, end: int, into: dict[str, Any], depth: int) -> dict[str, Any]:
        """Adds the fields between two positions to a message that may have some already, as protobuf has it."""
        if depth > _DEPTH_MAX:
            raise ValueError("messages nested too deeply")
        readers = _readers(message)
        for number, wire, begin, after in fields(self.data, start, end):
            self.count(1)
            reader = readers.get(number)
            if reader is not None:
                try:
                    reader(self, wire, begin, after, into, depth)
                except ValueError as error:
                    raise ValueError(f"field {number} of {message.name}: {error}") if depth == 0 else error from None
        return into


_Reader = Callable[[_Reading, int, int, int, dict[str, Any], int], None]
"""Takes wire type, value or start, end and depth; writes into the message's dict."""

_One = Callable[[_Reading, int, int, int], Any]
"""One scalar: takes wire type, value or start, and end."""


@functools.lru_cache(maxsize=1024)
def _readers(message: Message) -> Mapping[int, _Reader]:
    """By field number."""
    return {field.number: _reader_of(message, field) for field in message.declared}


def _reader_of(message: Message, field: Field) -> _Reader:
    if field.shape == "{":
        return _map_reader(message, field)
    if field.type in _SCALARS:
        return _scalar_reader(field, _SCALARS[field.type])
    inner = message.of(field)
    assert inner is not None, f"{message.name}.{field.name}: no protobuf type {field.type}"
    return _message_reader(field, inner)


def _scalar_reader(field: Field, one: _One) -> _Reader:
    name, packable = field.name, field.type in _NUMBERS

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], _depth: int) -> None:
        into[name] = one(reading, wire, begin, end)

    def read_item(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], _depth: int) -> None:
        items = into.setdefault(name, [])
        if packable and wire == BYTES:
            items += _packed(reading, one, begin, end)
        else:
            items.append(one(reading, wire, begin, end))

    return read_item if field.shape == "*" else read


def _message_reader(field: Field, inner: Message) -> _Reader:
    name = field.name

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        _expect(wire, BYTES)
        if name == "<>":
            reading.message(inner, begin, end, into, depth + 1)
        else:
            reading.message(inner, begin, end, into.setdefault(name, {}), depth + 1)

    def read_item(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        _expect(wire, BYTES)
        into.setdefault(name, []).append(reading.message(inner, begin, end, {}, depth + 1))

    return read_item if field.shape == "*" else read


def _map_reader(message: Message, field: Field) -> _Reader:
    """Maps are lists of entries {1 key, 2 value}; the last of a key counts."""
    name, value = field.name, _reader_of(message, Field(2, "value", "", field.type, False, False, None))
    empty: Any = {} if field.type not in _SCALARS else _EMPTY.get(field.type, "")

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        _expect(wire, BYTES)
        key = ""
        entry: dict[str, Any] = {}
        for number, inner_wire, inner_begin, inner_end in fields(reading.data, begin, end):
            reading.count(1)
            if number == 1:
                key = _text(reading, inner_wire, inner_begin, inner_end)
            elif number == 2:
                value(reading, inner_wire, inner_begin, inner_end, entry, depth + 1)
        into.setdefault(name, {})[key] = entry.get("value", empty)

    return read


def _packed(reading: _Reading, one: _One, at: int, end: int) -> list[Any]:
    found = []
    while at < end:
        reading.count(1)
        value, at = varint(reading.data, at, end)
        found.append(one(reading, VARINT, value, at))
    return found


def _expect(wire: int, wanted: int) -> None:
    if wire != wanted:
        raise ValueError(f"wire type {wire}, wanted {wanted}")


# scalars


def _text(reading: _Reading, wire: int, begin: int, end: int) -> str:
    """Bytes that are no UTF-8 are replaced, as Go does when it writes JSON: clients cut messages in the middle of letters."""
    _expect(wire, BYTES)
    return reading.data[begin:end].decode("utf-8", "replace")


def _boolean(_reading: _Reading, wire: int, value: int, _end: int) -> bool:
    _expect(wire, VARINT)
    return value != 0


def _integer(bits: int) -> _One:
    half, whole = 1 << (bits - 1), 1 << bits

    def read(_reading: _Reading, wire: int, value: int, _end: int) -> int:
        _expect(wire, VARINT)
        value &= whole - 1
        return value - whole if value >= half else value

    return read


def _double(reading: _Reading, wire: int, begin: int, _end: int) -> float:
    _expect(wire, FIXED64)
    value: float = _DOUBLE.unpack_from(reading.data, begin)[0]
    return value


def _bytes(reading: _Reading, wire: int, begin: int, end: int) -> str:
    _expect(wire, BYTES)
    return base64.b64encode(reading.data[begin:end]).decode()


def _within(message: Message) -> Callable[[_Reading, int, int, int], dict[str, Any]]:
    def read(reading: _Reading, wire: int, begin: int, end: int) -> dict[str, Any]:
        _expect(wire, BYTES)
        return reading.message(message, begin, end, {}, 1)

    return read


def _time(reading: _Reading, wire: int, begin: int, end: int) -> str | None:
    """Whole seconds; nothing and zero are no time."""
    seconds = _within(_TIME)(reading, wire, begin, end).get("seconds", 0)
    return _moment(seconds, 0).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None


def _micro_time(reading: _Reading, wire: int, begin: int, end: int) -> str | None:
    found = _within(_TIME)(reading, wire, begin, end)
    seconds, nanos = found.get("seconds", 0), found.get("nanos", 0)
    return _moment(seconds, nanos // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if seconds or nanos else None


def _moment(seconds: int, micros: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds, microseconds=micros)
    except OverflowError:
        raise ValueError("year is not in the range [1, 9999]") from None


def _quantity(reading: _Reading, wire: int, begin: int, end: int) -> str:
    return str(_within(_QUANTITY)(reading, wire, begin, end).get("string", "0"))


def _int_or_string(reading: _Reading, wire: int, begin: int, end: int) -> int | str:
    found = _within(_INT_OR_STRING)(reading, wire, begin, end)
    return str(found.get("strVal", "")) if found.get("type", 0) else int(found.get("intVal", 0))


def _raw_json(reading: _Reading, wire: int, begin: int, end: int) -> Any:
    raw = base64.b64decode(_within(_RAW)(reading, wire, begin, end).get("raw", ""))
    try:
        return msgspec.json.decode(raw) if raw else None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None


_SCALARS: Final[Mapping[str, _One]] = {
    "s": _text,
    "b": _boolean,
    "i32": _integer(32),
    "i64": _integer(64),
    "f64": _double,
    "y": _bytes,
    "time": _time,
    "micro": _micro_time,
    "q": _quantity,
    "any": _raw_json,
    "intstr": _int_or_string,
}
_NUMBERS: Final = ("b", "i32", "i64")
_EMPTY: Final[Mapping[str, Any]] = {"q": "0", "b": False, "i32": 0, "i64": 0}
