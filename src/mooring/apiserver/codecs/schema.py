"""The shape of objects, declared as text, and the one decoder that holds bodies against it.

A line is a message; a field is `number name type[mark][@key][~keys]`:

    number   its protobuf field
    type     s b i32 i64 y (base64) time micro (MicroTime) q (Quantity) intstr any, or another
             message; `*` before it a list, `{...}` a map of it
    mark     `!` always in the JSON; `?` a pointer: kept when given, also when it is zero; `!?` null when not given;
             none: dropped when it is zero; `+`, `-`: OpenAPI calls it required or not, where that does
             not follow from the others
    @key     strategic merge joins the list's items by that key; a bare `@`: a set of primitives
    ~keys    server-side apply joins by others: `~port+protocol`; a bare `~`: a set; `~=`: its value
             has one owner as a whole, as a message has whose name is followed by `=`
    `<>`     in place of a name: the message's fields stand in the JSON of the parent

    VolumeAttachmentStatus: 1 attached b!, 2 attachmentMetadata {s}, 3 attachError VolumeError?,
    4 detachError VolumeError?

Decoding drops what is not declared (and says so), refuses wrong types, and gives every object one canonical form, so
that two bodies that mean the same are equal.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.codecs import scalars
from mooring.apiserver.codecs.scalars import WrongType

_Decoder = Callable[[Any, str, list[str]], Any]
"""A value, its path, where unknown fields go; gives the canonical value."""

_FIELD: Final = re.compile(r"(\d+) (\S+) ([*{]?)([A-Za-z0-9.]+)\}?([!?+-]*)(?:@(\w*))?(?:~(=|[\w+]*))?")


class Field(msgspec.Struct, frozen=True):
    number: int
    name: str
    #: "" one value, "*" a list, "{" a map.
    shape: str
    type: str
    always: bool = False
    pointer: bool = False
    #: As OpenAPI has it, where the field says so.
    required: bool | None = None
    #: By which a strategic merge joins the items of a list. None: replaced whole; "": a set of primitives.
    merge_key: str | None = None
    #: By which server-side apply does. None: replaced whole; (): a set.
    apply_keys: tuple[str, ...] | None = None
    #: One owner has all of the value.
    whole: bool = False


class _Member(msgspec.Struct, frozen=True):
    """A field, ready for decoding. rank: its place in the canonical form. stays: when it is given as zero, too.

    is_text: a text that is given needs no decoding.
    """

    rank: int
    field: Field
    decode: _Decoder
    stays: bool
    is_text: bool


class Message:
    """A declared message: its fields by name, with inlined ones among them."""

    def __init__(self, name: str, fields: tuple[Field, ...], messages: Messages, *, whole: bool) -> None:
        """whole: one owner has all of it."""
        self.name = name
        self.whole = whole
        self.declared = fields
        self.messages = messages

    @functools.cached_property
    def fields(self) -> Mapping[str, Field]:
        """Fields by their JSON name, in the order in which they are written."""
        flat: dict[str, Field] = {}
        for field in self.declared:
            flat.update(self.messages[field.type].fields if field.name == "<>" else {field.name: field})
        return flat

    @functools.cached_property
    def members(self) -> Mapping[str, _Member]:
        """The same for the decoder."""
        return {
            name: _Member(
                rank,
                field,
                _decoder_of(self, field),
                field.pointer or field.always,
                field.type == "s" and not field.shape,
            )
            for rank, (name, field) in enumerate(self.fields.items())
        }

    @functools.cached_property
    def always(self) -> tuple[_Member, ...]:
        """Members that are in the JSON whatever was given."""
        return tuple(member for member in self.members.values() if member.field.always)

    def of(self, field: Field) -> Message | None:
        """The message of a field's values; None for scalars."""
        return None if field.type in scalars.DECODERS else self.messages[field.type]


class Messages(Mapping[str, Message]):
    """Messages by name: the declared ones, and those of other declarations that they use."""

    def __init__(self, text: str, *uses: Messages) -> None:
        self._own: dict[str, Message] = {name: message for used in uses for name, message in used.items()}
        for line in text.strip().splitlines():
            name, _, fields = line.strip().partition(": ")
            declared = tuple(_field(part) for part in fields.split(", ")) if fields else ()
            called = name.removesuffix("=")
            self._own[called] = Message(called, declared, self, whole=called != name)

    def extended(self, text: str) -> Messages:
        """These and the ones that the text declares."""
        return Messages(text, self)

    def __or__(self, other: Messages) -> Messages:
        return Messages("", self, other)

    def __getitem__(self, name: str) -> Message:
        return self._own[name]

    def __iter__(self) -> Any:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


_TEXTS: Final = frozenset((str,))


def decode(message: Message, value: Any, unknown: list[str]) -> dict[str, Any]:
    """The canonical form of a value. unknown: gets undeclared fields' paths. Raises WrongType (a ValueError) in
    encoding/json's words.
    """
    if not isinstance(value, dict):
        raise WrongType("object", value, "")
    return _message(message, value, "", unknown)


def _message(message: Message, value: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    members = message.members
    found: dict[str, Any] = {}
    rank, in_order = -1, True
    for name, given in value.items():
        member = members.get(name)
        if member is None:
            unknown.append(f"{path}{name}")
        elif given is not None:
            result = given if member.is_text and type(given) is str else member.decode(given, f"{path}{name}", unknown)
            if result or member.stays:
                found[name] = result
                in_order, rank = in_order and rank < member.rank, member.rank
    for member in message.always:
        if value.get(member.field.name) is None:
            found[member.field.name], in_order = _zero(message, member.field), False
    return found if in_order else {name: found[name] for name in sorted(found, key=lambda name: members[name].rank)}


def _decoder_of(message: Message, field: Field) -> _Decoder:
    one = _decoder_of_one(message, field)
    as_they_are = _TEXTS if field.type == "s" else frozenset()
    if field.shape == "*":
        return _list_decoder(one, _nothing(field), as_they_are)
    return _map_decoder(one, _nothing(field), {} if field.pointer else None, as_they_are) if field.shape == "{" else one


def _nothing(field: Field) -> Any:
    """The value that a null among many stands for."""
    if field.type not in scalars.DECODERS:
        return {}
    zero = scalars.ZEROS[field.type]
    return "" if zero is None else zero


def _decoder_of_one(message: Message, field: Field) -> _Decoder:
    inner = message.of(field)
    if inner is None:
        scalar = scalars.DECODERS[field.type]
        return lambda given, path, _unknown: scalar(given, path)

    def decode_message(given: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(given, dict):
            raise WrongType("object", given, path)
        return _message(inner, given, f"{path}.", unknown)

    return decode_message


def _list_decoder(one: _Decoder, nothing: Any, as_they_are: frozenset[type]) -> _Decoder:
    """as_they_are: types of items that need no decoding."""

    def decode_list(given: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(given, list):
            raise WrongType("list", given, path)
        if given and as_they_are.issuperset(map(type, given)):
            return given.copy()
        items = [
            one(nothing if item is None else item, f"{path}[{index}]", unknown) for index, item in enumerate(given)
        ]
        return items or None  # (an empty list is no list: Kubernetes stores both alike)

    return decode_list


def _map_decoder(one: _Decoder, nothing: Any, empty: Any, as_they_are: frozenset[type]) -> _Decoder:
    """as_they_are: types of values that need no decoding."""

    def decode_map(given: Any, path: str, unknown: list[str]) -> Any:
        if not isinstance(given, dict):
            raise WrongType("map", given, path)
        if given and as_they_are.issuperset(map(type, given.values())):
            return given.copy()
        return {
            key: one(nothing if item is None else item, f"{path}.{key}", unknown) for key, item in given.items()
        } or copy.copy(empty)

    return decode_map


def _zero(message: Message, field: Field) -> Any:
    """The value of a field that is always shown, when none was given."""
    if field.shape or field.pointer:
        return None
    inner = message.of(field)
    return scalars.ZEROS[field.type] if inner is None else _message(inner, {}, "", [])


def _field(text: str) -> Field:
    found = _FIELD.fullmatch(text.strip())
    assert found is not None, f"no field: {text!r}"
    number, name, shape, kind, mark, key, apply_key = found.groups()
    joined = key if apply_key is None else apply_key
    whole = joined == "="
    keys = None if joined is None or whole else tuple(joined.split("+")) if joined else ()
    required = True if "+" in mark else False if "-" in mark else None
    return Field(int(number), name, shape, kind, "!" in mark, "?" in mark, required, key, keys, whole)
