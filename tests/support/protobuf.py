"""Objects as Kubernetes protobuf, encoded by the server's own declarations: what a Go client would send."""

from __future__ import annotations

import base64
import datetime
import struct
from typing import Any

import msgspec

from mooring.apiserver.codecs.schema import Field, Message
from mooring.apiserver.resource import Resource

PROTOBUF = "application/vnd.kubernetes.protobuf"


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    """A request body around an encoded message."""
    return b"k8s\0" + chunk(1, chunk(1, api_version.encode()) + chunk(2, kind.encode())) + chunk(2, content)


def body(resource: Resource, obj: dict[str, Any]) -> bytes:
    return envelope(resource.api_version, resource.kind, encode(resource.message, obj))


def encode(message: Message, value: dict[str, Any]) -> bytes:
    """value: a JSON object; what the message does not declare is left out."""
    out = b""
    for field in message.declared:
        inner = message.of(field)
        if field.name == "<>":
            assert inner is not None
            out += chunk(field.number, encode(inner, value))
        elif value.get(field.name) is not None and message.name == "JSONSchemaProps" and field.name in _UNIONS:
            out += _UNIONS[field.name](message, field.number, value[field.name])
        elif value.get(field.name) is not None:
            out += _field(message, field, value[field.name])
    return out


def chunk(number: int, content: bytes) -> bytes:
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def number(field_number: int, value: int) -> bytes:
    """A field with a number; below zero it takes ten bytes."""
    return varint(field_number << 3) + varint(value & (2**64 - 1))


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(message: Message, field: Field, value: Any) -> bytes:
    if field.shape == "*":
        return b"".join(_one(message, field, field.number, item) for item in value)
    if field.shape == "{" and field.type == "any":  # (of lists of strings)
        texts = {key: b"".join(chunk(1, text.encode()) for text in items) for key, items in value.items()}
        return b"".join(
            chunk(field.number, chunk(1, key.encode()) + chunk(2, content)) for key, content in texts.items()
        )
    if field.shape == "{":
        return b"".join(
            chunk(field.number, chunk(1, key.encode()) + _one(message, field, 2, item)) for key, item in value.items()
        )
    return _one(message, field, field.number, value)


def _one(message: Message, field: Field, at: int, value: Any) -> bytes:
    match field.type:
        case "s":
            return chunk(at, value.encode())
        case "f64":
            return varint(at << 3 | 1) + struct.pack("<d", value)
        case "b" | "i32" | "i64":
            return number(at, int(value))
        case "y":
            return chunk(at, base64.b64decode(value))
        case "q":
            return chunk(at, chunk(1, str(value).encode()))
        case "any":
            return chunk(at, chunk(1, msgspec.json.encode(value)))
        case "intstr":
            return chunk(
                at,
                number(1, 0) + number(2, value) if isinstance(value, int) else number(1, 1) + chunk(3, value.encode()),
            )
        case "time" | "micro":
            return chunk(at, _moment(value))
    inner = message.of(field)
    assert inner is not None, field
    return chunk(at, encode(inner, value))


def _moment(text: str) -> bytes:
    moment = datetime.datetime.fromisoformat(text)
    nanos = moment.microsecond * 1000
    return number(1, int(moment.replace(microsecond=0).timestamp())) + (number(2, nanos) if nanos else b"")


def _items(schema: Message, at: int, value: Any) -> bytes:
    if isinstance(value, dict):
        return chunk(at, chunk(1, encode(schema, value)))
    return chunk(at, b"".join(chunk(2, encode(schema, item)) for item in value))


def _schema_or_bool(schema: Message, at: int, value: Any) -> bytes:
    return chunk(
        at, number(1, 1) + chunk(2, encode(schema, value)) if isinstance(value, dict) else number(1, int(value))
    )


def _dependencies(schema: Message, at: int, value: Any) -> bytes:
    def one(wanted: Any) -> bytes:
        return (
            chunk(1, encode(schema, wanted))
            if isinstance(wanted, dict)
            else b"".join(chunk(2, name.encode()) for name in wanted)
        )

    return b"".join(chunk(at, chunk(1, key.encode()) + chunk(2, one(wanted))) for key, wanted in value.items())


def _enum(_schema: Message, at: int, value: Any) -> bytes:
    return b"".join(chunk(at, chunk(1, msgspec.json.encode(item))) for item in value)


_UNIONS = {
    "items": _items,
    "additionalItems": _schema_or_bool,
    "additionalProperties": _schema_or_bool,
    "dependencies": _dependencies,
    "enum": _enum,
}
