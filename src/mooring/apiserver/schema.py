"""The shape of objects, declared as text, and the one decoder that holds bodies against it.

A line is a message; a field is `number name type[mark][@key]`:

    number   its protobuf field
    type     s b i32 i64 y (base64) time micro (MicroTime) q (Quantity) any, or another message; `*` before it a list, `{...}` a map of it
    mark     `!` always in the JSON; `?` a pointer: kept when given, also when it is zero; `!?` null when not given;
             none: dropped when it is zero
    @key     strategic merge joins the list's items by that key; a bare `@`: a set of primitives
    `<>`     in place of a name: the message's fields stand in the JSON of the parent

    VolumeAttachmentStatus: 1 attached b!, 2 attachmentMetadata {s}, 3 attachError VolumeError?, 4 detachError VolumeError?

Decoding drops what is not declared (and says so), refuses wrong types, and gives every object one canonical form, so that
two bodies that mean the same are equal.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mooring.apiserver import scalars
from mooring.apiserver.scalars import WrongType

_FIELD: Final = re.compile(r"(\d+) (\S+) ([*{]?)([A-Za-z0-9.]+)\}?([!?]*)(?:@(\w*))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """shape: "" one value, "*" a list, "{" a map. merge_key: None: replaced whole; "": a set of primitives."""

    number: int
    name: str
    shape: str
    type: str
    always: bool
    pointer: bool
    merge_key: str | None


class Message:
    """A declared message: its fields by name, with inlined ones among them."""

    def __init__(self, name: str, fields: tuple[Field, ...], messages: Messages) -> None:
        self.name = name
        self.declared = fields
        self._messages = messages
        self._flat: dict[str, Field] | None = None

    @property
    def fields(self) -> Mapping[str, Field]:
        """Fields by their JSON name, in the order in which they are written."""
        if self._flat is None:
            self._flat = {}
            for field in self.declared:
                inner = self._messages[field.type].fields if field.name == "<>" else {field.name: field}
                self._flat.update(inner)
        return self._flat

    def of(self, field: Field) -> Message | None:
        """The message of a field's values; None for scalars."""
        return None if field.type in scalars.DECODERS else self._messages[field.type]


class Messages(Mapping[str, Message]):
    """Messages by name: the declared ones, and those of other declarations that they use."""

    def __init__(self, text: str, *uses: Messages) -> None:
        self._own: dict[str, Message] = {name: message for used in uses for name, message in used.items()}
        for line in text.strip().splitlines():
            name, _, fields = line.strip().partition(": ")
            self._own[name] = Message(name, tuple(_field(part) for part in fields.split(", ")) if fields else (), self)

    def __getitem__(self, name: str) -> Message:
        return self._own[name]

    def __iter__(self) -> Any:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def decode(message: Message, value: Any, unknown: list[str]) -> dict[str, Any]:
    """The canonical form of a JSON value as that message.

    unknown: gets the path of each field that is not declared.
    Raises WrongType (a ValueError) whose text ends like encoding/json's.
    """
    if not isinstance(value, dict):
        raise WrongType("object", value, "")
    return _message(message, value, "", unknown)


def _message(message: Message, value: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    fields = message.fields
    unknown += [f"{path}{name}" for name in value if name not in fields]
    decoded = {}
    for name, field in fields.items():
        given = value.get(name)
        if given is None:
            if field.always:
                decoded[name] = _zero(message, field)
            continue
        result = _value(message, field, given, f"{path}{name}", unknown)
        if field.shape and not result:
            result = None if field.always else result  # (an empty list is no list: Kubernetes stores both alike)
        if field.always or field.pointer or result not in ("", False, 0, [], {}):
            decoded[name] = result
    return decoded


def _value(message: Message, field: Field, given: Any, path: str, unknown: list[str]) -> Any:
    one = _decoder(message, field, unknown)
    if field.shape == "*":
        if not isinstance(given, list):
            raise WrongType("list", given, path)
        return [one(item, f"{path}[{index}]") for index, item in enumerate(given)]
    if field.shape == "{":
        if not isinstance(given, dict):
            raise WrongType("map", given, path)
        return {key: one(item, f"{path}.{key}") for key, item in given.items()}
    return one(given, path)


def _decoder(message: Message, field: Field, unknown: list[str]) -> Callable[[Any, str], Any]:
    scalar = scalars.DECODERS.get(field.type)
    if scalar is not None:
        return scalar
    inner = message.of(field)
    assert inner is not None

    def decoder(given: Any, path: str) -> Any:
        if given is None:
            given = {}
        if not isinstance(given, dict):
            raise WrongType("object", given, path)
        return _message(inner, given, f"{path}.", unknown)

    return decoder


def _zero(message: Message, field: Field) -> Any:
    """What a field that is always there shows when nothing was given."""
    if field.shape or field.pointer:
        return None
    inner = message.of(field)
    return scalars.ZEROS[field.type] if inner is None else _message(inner, {}, "", [])


def _field(text: str) -> Field:
    found = _FIELD.fullmatch(text.strip())
    assert found is not None, f"no field: {text!r}"
    number, name, shape, kind, mark, key = found.groups()
    return Field(int(number), name, shape, kind, "!" in mark, "?" in mark, key)
