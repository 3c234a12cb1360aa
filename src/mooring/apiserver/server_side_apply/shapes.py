"""Shapes for server-side apply: merged by field, by item, or whole. Made of messages and a table, for custom kinds of
schemas.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.codecs import scalars
from mooring.apiserver.codecs.schema import Field, Message
from mooring.apiserver.metadata import META_MESSAGES


class Form(enum.Enum):
    SCALAR = enum.auto()
    MAP = enum.auto()
    LIST = enum.auto()
    ANY = enum.auto()
    """Whatever its value is: a map is merged, a list is taken as a whole."""


def _no_member(_name: str) -> Shape | None:
    return None


def _no_other() -> Shape | None:
    return None


class Shape(msgspec.Struct, frozen=True, eq=False):
    """atomic: taken as a whole. type: of a scalar: string, numeric, boolean, or "" for any.

    member: the shape of a map's declared field. other: of its other members, and of a list's items; None: there are
    none. keys: what identifies a list's items; () for a list that is a set. defaults: what a key stands for that an
    item leaves out.
    """

    form: Form
    atomic: bool = False
    type: str = ""
    member: Callable[[str], Shape | None] = _no_member
    other: Callable[[], Shape | None] = _no_other
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def inner(self, name: str) -> Shape | None:
        """The shape of a map's member; None for one that may not be."""
        return self.member(name) or self.other()


ANYTHING: Final = Shape(Form.ANY)


def _anything() -> Shape | None:
    return ANYTHING


_ANY_MAP: Final = Shape(Form.MAP, other=lambda: ANYTHING)
_WHOLE: Final = Shape(Form.ANY, atomic=True)
_WHOLE_MAP: Final = Shape(Form.MAP, atomic=True, other=lambda: ANYTHING)
_ANY_LIST: Final = Shape(Form.LIST, atomic=True, other=lambda: ANYTHING)
_ANY_SCALAR: Final = Shape(Form.SCALAR)


def resolved(shape: Shape, value: Any) -> Shape:
    """The shape itself, or what its value makes of ANY."""
    if shape.form is not Form.ANY:
        return shape
    if isinstance(value, dict):
        return _WHOLE_MAP if shape.atomic else _ANY_MAP
    return _ANY_LIST if isinstance(value, list) else _ANY_SCALAR


# built-in kinds

GRANULAR_FIELDS: Final = frozenset({("PersistentVolumeSpec", "claimRef")})
"""Members of an atomic message's type that are merged all the same."""
_LOOSE_LISTS: Final = frozenset({("JSONSchemaProps", "enum")})
"""Values that are read as they come, and are lists here."""
_KEY_DEFAULTS: Final[Mapping[tuple[str, str], Any]] = {
    ("ContainerPort", "protocol"): "TCP",
    ("LocalObjectReference", "name"): "",
    ("ServicePort", "protocol"): "TCP",
}
_SCALARS: Final = {
    "s": "string",
    "y": "string",
    "b": "boolean",
    "i32": "numeric",
    "i64": "numeric",
    "f64": "numeric",
}


@functools.cache
def object_shape(message: Message) -> Shape:
    """A whole object of a built-in kind."""
    inner, text = _message(message), Shape(Form.SCALAR, type="string")
    return msgspec.structs.replace(
        inner, member=lambda name: text if name in ("apiVersion", "kind") else inner.member(name)
    )


@functools.cache
def _message(message: Message, granular: bool = False) -> Shape:
    found: dict[str, Shape] = {}

    def member(name: str) -> Shape | None:
        if name not in found and name in message.fields:
            found[name] = _field(message, message.fields[name])
        return found.get(name)

    other = _no_other if message.fields else _anything  # (a message without fields says nothing of what is in it)
    return Shape(Form.MAP, atomic=message.whole and not granular, member=member, other=other)


def _field(message: Message, field: Field) -> Shape:
    place = (message.name, field.name)
    inner = message.of(field)
    if place in _LOOSE_LISTS:
        return _ANY_LIST
    if inner is not None:
        one = _message(inner, place in GRANULAR_FIELDS)
    else:
        one = ANYTHING if field.type in ("any", "intstr") else Shape(Form.SCALAR, type=_SCALARS.get(field.type, ""))
    if field.type == "any" and field.whole:
        return _WHOLE
    if field.shape == "{":
        return Shape(Form.MAP, atomic=field.whole, other=lambda: one)
    if field.shape != "*":
        return one
    keys = field.apply_keys
    if keys is None:
        return Shape(Form.LIST, atomic=True, other=lambda: one)
    return Shape(Form.LIST, other=lambda: one, keys=keys, defaults=_defaults(inner, keys) if inner is not None else {})


def _defaults(item: Message, keys: tuple[str, ...]) -> dict[str, Any]:
    """A key that is always in the JSON counts as its zero where it is left out."""
    zeros = {key: scalars.ZEROS[item.fields[key].type] for key in keys if item.fields[key].always}
    return {
        **zeros,
        **{key: value for (name, key), value in _KEY_DEFAULTS.items() if name == item.name and key in keys},
    }


_SCHEMA_SCALARS: Final = {"string": "string", "boolean": "boolean", "integer": "numeric", "number": "numeric"}


def custom_shape(schema: Mapping[str, Any]) -> Shape:
    """A whole object. schema: an openAPIV3Schema. apiVersion, kind and metadata are what they are everywhere."""
    metadata = object_shape(META_MESSAGES["ObjectMeta"])
    text = Shape(Form.SCALAR, type="string")
    own = _schema_shape(schema, embedded=False)
    common = {"apiVersion": text, "kind": text, "metadata": metadata}
    return Shape(Form.MAP, member=lambda name: common.get(name) or own.member(name), other=own.other)


def _schema_shape(schema: Mapping[str, Any], *, embedded: bool = True) -> Shape:
    kind = schema.get("type")
    if kind == "array":
        return _schema_list(schema)
    if kind == "object":
        return _schema_map(schema, embedded=embedded and bool(schema.get("x-kubernetes-embedded-resource")))
    if kind == "string" and schema.get("format", "") not in ("", "byte"):
        return _ANY_SCALAR
    if kind in _SCHEMA_SCALARS:
        return Shape(Form.SCALAR, type=_SCHEMA_SCALARS[kind])
    return ANYTHING  # (x-kubernetes-int-or-string has no type either: whether the value fits is for validation to say)


def _schema_map(schema: Mapping[str, Any], *, embedded: bool) -> Shape:
    declared: Mapping[str, Any] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    found: dict[str, Shape] = {}
    if embedded:
        return custom_shape(schema)

    def member(name: str) -> Shape | None:
        if name not in found and name in declared:
            found[name] = _schema_shape(declared[name])
        return found.get(name)

    def other() -> Shape | None:
        if isinstance(others, Mapping):
            return found.setdefault("", _schema_shape(others))
        return ANYTHING if others or schema.get("x-kubernetes-preserve-unknown-fields") else None

    return Shape(Form.MAP, atomic=schema.get("x-kubernetes-map-type") == "atomic", member=member, other=other)


def _schema_list(schema: Mapping[str, Any]) -> Shape:
    items: Mapping[str, Any] = schema.get("items") or {}
    one = _schema_shape(items)
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return Shape(Form.LIST, other=lambda: one)
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            properties = items.get("properties") or {}
            defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
            return Shape(Form.LIST, other=lambda: one, keys=keys, defaults=defaults)
    return Shape(Form.LIST, atomic=True, other=lambda: one)
