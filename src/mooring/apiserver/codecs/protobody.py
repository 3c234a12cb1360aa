"""Protobuf bodies of Go clients into JSON values.

A body is four bytes of magic and an envelope: apiVersion, kind, and the object's message. The declarations of
`schema.py` give the numbers their meaning. The result is decoded and validated like a JSON body.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.apiserver.codecs.protowire import (
    BYTES,
    EMPTY,
    NUMBERS,
    SCALARS,
    VARINT,
    One,
    expect,
    fields,
    strings,
    text,
    varint,
)
from mooring.apiserver.codecs.schema import Field, Message, Messages

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\0"
_TYPE: Final = 1
_CONTENT: Final = 2
_ENCODING: Final = 3
_FIELDS_MAX: Final = 400_000
_DEPTH_MAX: Final = 100

_TYPE_META: Final = Messages("TypeMeta: 1 apiVersion s, 2 kind s")["TypeMeta"]


def is_protobuf(body: bytes) -> bool:
    return body.startswith(_MAGIC)


def parse_protobuf(body: bytes, message: Message) -> dict[str, Any]:
    """The JSON value of a body, with apiVersion and kind. message: the type of the object in the envelope. Raises
    ValueError.
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
            expect(wire, BYTES)
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
            self._left -= 1
            if self._left < 0:
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


@functools.lru_cache(maxsize=1024)
def _readers(message: Message) -> Mapping[int, _Reader]:
    """By field number."""
    return {field.number: _reader_of(message, field) for field in message.declared}


def _reader_of(message: Message, field: Field) -> _Reader:
    if message.name == _SCHEMA and field.name in _UNIONS:
        return _union_reader(message, field.name, *_UNIONS[field.name])
    if field.shape == "{":
        return _map_reader(message, field)
    if field.type in SCALARS:
        return _scalar_reader(field, SCALARS[field.type])
    inner = message.of(field)
    assert inner is not None, f"{message.name}.{field.name}: no protobuf type {field.type}"
    return _message_reader(field, inner)


def _scalar_reader(field: Field, one: One) -> _Reader:
    name, packable = field.name, field.type in NUMBERS

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], _depth: int) -> None:
        into[name] = one(reading.data, wire, begin, end)

    def read_item(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], _depth: int) -> None:
        items = into.setdefault(name, [])
        if packable and wire == BYTES:
            items += _packed(reading, one, begin, end)
        else:
            items.append(one(reading.data, wire, begin, end))

    return read_item if field.shape == "*" else read


def _message_reader(field: Field, inner: Message) -> _Reader:
    name = field.name

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        expect(wire, BYTES)
        if name == "<>":
            reading.message(inner, begin, end, into, depth + 1)
        else:
            reading.message(inner, begin, end, into.setdefault(name, {}), depth + 1)

    def read_item(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        expect(wire, BYTES)
        into.setdefault(name, []).append(reading.message(inner, begin, end, {}, depth + 1))

    return read_item if field.shape == "*" else read


def _map_reader(message: Message, field: Field) -> _Reader:
    """Maps are lists of entries {1 key, 2 value}; the last of a key counts."""
    name, entry_field = field.name, Field(2, "value", "", field.type)
    value = _scalar_reader(entry_field, strings) if field.type == "any" else _reader_of(message, entry_field)
    empty: Any = {} if field.type not in SCALARS else EMPTY.get(field.type, "")

    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        expect(wire, BYTES)
        key = ""
        entry: dict[str, Any] = {}
        for number, inner_wire, inner_begin, inner_end in fields(reading.data, begin, end):
            reading.count(1)
            if number == 1:
                key = text(reading.data, inner_wire, inner_begin, inner_end)
            elif number == 2:
                value(reading, inner_wire, inner_begin, inner_end, entry, depth + 1)
        into.setdefault(name, {})[key] = entry.get("value", empty)

    return read


def _union_reader(message: Message, name: str, shape: str, union: _Union) -> _Reader:
    def read(reading: _Reading, wire: int, begin: int, end: int, into: dict[str, Any], depth: int) -> None:
        expect(wire, BYTES)
        part = (0, wire, begin, end)
        if shape == "*":
            into.setdefault(name, []).append(union(reading, message, part, depth))
        elif shape == "{":
            entry = {inner[0]: inner for inner in fields(reading.data, begin, end)}
            key = text(reading.data, *entry[1][1:]) if 1 in entry else ""
            into.setdefault(name, {})[key] = union(reading, message, entry[2], depth) if 2 in entry else []
        else:
            into[name] = union(reading, message, part, depth)

    return read


def _packed(reading: _Reading, one: One, at: int, end: int) -> list[Any]:
    found = []
    while at < end:
        reading.count(1)
        value, at = varint(reading.data, at, end)
        found.append(one(reading.data, VARINT, value, at))
    return found


# fields of JSONSchemaProps that hold one thing or another, which protobuf wraps into messages of their own

_SCHEMA: Final = "JSONSchemaProps"

_Part = tuple[int, int, int, int]
"""Number, wire type, start, end."""

_Union = Callable[[_Reading, Message, _Part, int], Any]
"""Reads what one field of a message that is one thing or another stands for."""


def _schema(reading: _Reading, message: Message, part: _Part, depth: int) -> dict[str, Any]:
    expect(part[1], BYTES)
    return reading.message(message, part[2], part[3], {}, depth + 1)


def _parts(reading: _Reading, begin: int, end: int) -> list[_Part]:
    return list(fields(reading.data, begin, end))


def _items(reading: _Reading, message: Message, part: _Part, depth: int) -> Any:
    """A schema, or a list of them."""
    found = [
        (inner[0], _schema(reading, message, inner, depth))
        for inner in _parts(reading, part[2], part[3])
        if inner[0] in (1, 2)
    ]
    alone = [schema for number, schema in found if number == 1]
    return alone[-1] if alone else [schema for _, schema in found]


def _schema_or_bool(reading: _Reading, message: Message, part: _Part, depth: int) -> Any:
    """A schema, or whether anything is allowed."""
    value: Any = False
    for inner in _parts(reading, part[2], part[3]):
        if inner[0] == 2:
            value = _schema(reading, message, inner, depth)
        elif inner[0] == 1 and not isinstance(value, dict):
            value = SCALARS["b"](reading.data, *inner[1:])
    return value


def _schema_or_names(reading: _Reading, message: Message, part: _Part, depth: int) -> Any:
    """A schema, or names of properties."""
    parts = _parts(reading, part[2], part[3])
    alone = [_schema(reading, message, inner, depth) for inner in parts if inner[0] == 1]
    return alone[-1] if alone else [text(reading.data, *inner[1:]) for inner in parts if inner[0] == 2]


def _any_json(reading: _Reading, _message: Message, part: _Part, _depth: int) -> Any:
    return SCALARS["any"](reading.data, *part[1:])


_UNIONS: Final[Mapping[str, tuple[str, _Union]]] = {
    "items": ("", _items),
    "additionalItems": ("", _schema_or_bool),
    "additionalProperties": ("", _schema_or_bool),
    "dependencies": ("{", _schema_or_names),
    "enum": ("*", _any_json),
}
"""By the field's name: its shape in protobuf, and what reads one of it."""
