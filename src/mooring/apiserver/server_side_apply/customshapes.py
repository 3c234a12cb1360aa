"""The shape of a custom kind's objects, from the schema in its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mooring.apiserver import objectmeta
from mooring.apiserver.server_side_apply.shapes import ANYTHING, Form, Shape, object_shape

_SCALARS: Final = {"string": "string", "boolean": "boolean", "integer": "numeric", "number": "numeric"}


def custom_shape(schema: Mapping[str, Any]) -> Shape:
    """A whole object. schema: an openAPIV3Schema. apiVersion, kind and metadata are what they are everywhere."""
    metadata = object_shape(objectmeta.MESSAGES["ObjectMeta"])
    text = Shape(Form.SCALAR, type="string")
    own = _shape(schema, embedded=False)
    common = {"apiVersion": text, "kind": text, "metadata": metadata}
    return Shape(Form.MAP, member=lambda name: common.get(name) or own.member(name), other=own.other)


def _shape(schema: Mapping[str, Any], *, embedded: bool = True) -> Shape:
    if schema.get("x-kubernetes-int-or-string"):
        return Shape(Form.SCALAR)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema)
    if kind == "object":
        return _map(schema, embedded=embedded and bool(schema.get("x-kubernetes-embedded-resource")))
    if kind in _SCALARS:
        return Shape(Form.SCALAR, type=_SCALARS[kind])
    return ANYTHING


def _map(schema: Mapping[str, Any], *, embedded: bool) -> Shape:
    declared: Mapping[str, Any] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    found: dict[str, Shape] = {}
    if embedded:
        return custom_shape(schema)

    def member(name: str) -> Shape | None:
        if name not in found and name in declared:
            found[name] = _shape(declared[name])
        return found.get(name)

    def other() -> Shape | None:
        if isinstance(others, Mapping):
            return found.setdefault("", _shape(others))
        return ANYTHING if others or schema.get("x-kubernetes-preserve-unknown-fields") else None

    return Shape(Form.MAP, atomic=schema.get("x-kubernetes-map-type") == "atomic", member=member, other=other)


def _list(schema: Mapping[str, Any]) -> Shape:
    items: Mapping[str, Any] = schema.get("items") or {}
    one = _shape(items)
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return Shape(Form.LIST, other=lambda: one)
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            properties = items.get("properties") or {}
            defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
            return Shape(Form.LIST, other=lambda: one, keys=keys, defaults=defaults)
    return Shape(Form.LIST, atomic=True, other=lambda: one)
