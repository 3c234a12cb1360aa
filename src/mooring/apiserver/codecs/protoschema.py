"""Schemas in protobuf: the fields of JSONSchemaProps that hold one thing or another, which protobuf wraps into messages of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from mooring.apiserver.codecs.protoscalars import SCALARS, expect, text
from mooring.apiserver.codecs.protowire import BYTES, fields
from mooring.apiserver.codecs.schema import Message

SCHEMA: Final = "JSONSchemaProps"


class Reading(Protocol):
    """What a union needs of the body that is being read."""

    data: bytes

    def message(self, message: Message, start: int, end: int, into: dict[str, Any], depth: int) -> dict[str, Any]: ...


Part = tuple[int, int, int, int]
"""Number, wire type, start, end."""

Union = Callable[[Reading, Message, Part, int], Any]
"""Reads what one field of a message that is one thing or another stands for."""


def _schema(reading: Reading, message: Message, part: Part, depth: int) -> dict[str, Any]:
    expect(part[1], BYTES)
    return reading.message(message, part[2], part[3], {}, depth + 1)


def _parts(reading: Reading, begin: int, end: int) -> list[Part]:
    return list(fields(reading.data, begin, end))


def items(reading: Reading, message: Message, part: Part, depth: int) -> Any:
    """A schema, or a list of them."""
    found = [(inner[0], _schema(reading, message, inner, depth)) for inner in _parts(reading, part[2], part[3]) if inner[0] in (1, 2)]
    alone = [schema for number, schema in found if number == 1]
    return alone[-1] if alone else [schema for _, schema in found]


def schema_or_bool(reading: Reading, message: Message, part: Part, depth: int) -> Any:
    """A schema, or whether anything is allowed."""
    value: Any = False
    for inner in _parts(reading, part[2], part[3]):
        if inner[0] == 2:
            value = _schema(reading, message, inner, depth)
        elif inner[0] == 1 and not isinstance(value, dict):
            value = SCALARS["b"](reading.data, *inner[1:])
    return value


def schema_or_names(reading: Reading, message: Message, part: Part, depth: int) -> Any:
    """A schema, or names of properties."""
    parts = _parts(reading, part[2], part[3])
    alone = [_schema(reading, message, inner, depth) for inner in parts if inner[0] == 1]
    return alone[-1] if alone else [text(reading.data, *inner[1:]) for inner in parts if inner[0] == 2]


def any_json(reading: Reading, _message: Message, part: Part, _depth: int) -> Any:
    return SCALARS["any"](reading.data, *part[1:])


UNIONS: Final[Mapping[str, tuple[str, Union]]] = {
    "items": ("", items),
    "additionalItems": ("", schema_or_bool),
    "additionalProperties": ("", schema_or_bool),
    "dependencies": ("{", schema_or_names),
    "enum": ("*", any_json),
}
"""By the field's name: its shape in protobuf, and what reads one of it."""
