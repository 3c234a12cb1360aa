"""Checks that a schema is structural: each place has one type, and nothing in it could not be stored."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from mooring.apiserver import field_errors
from mooring.apiserver.custom.formats import is_known
from mooring.apiserver.custom.list_types import wrong_list, wrong_map
from mooring.apiserver.custom.object_validation import wrong_embedded
from mooring.apiserver.custom.pruning import prune
from mooring.apiserver.custom.structural_schema import NOTHING, RULES, has_rules, structure_of
from mooring.apiserver.custom.value_validation import check
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.regexp.programs import go_regexp
from mooring.apiserver.resource import Json

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "$schema", "$ref", "definitions", "dependencies", "patternProperties", "additionalItems")
_SLOW: Final = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
_JOINED: Final = ("allOf", "anyOf", "oneOf")
_EMPTY_WITHIN: Final = {
    "type": "empty",
    "description": "empty",
    "title": "empty",
    "default": "undefined",
    "nullable": "false",
}
"""Keywords that schemas below allOf, anyOf, oneOf and not must not have, and their replacements."""

_EXTENSIONS_WITHIN: Final = ("embedded-resource", "preserve-unknown-fields", "list-type", "list-map-keys", "map-type")
_WHOLE: Final = {"apiVersion": "string", "kind": "string", "metadata": "object"}
_NAMES: Final = {"name", "generateName"}


def wrong_schema(schema: Json, path: str) -> list[FieldCause]:
    """path: of the openAPIV3Schema."""
    found = list(_wrong_root(schema, path)) + list(_wrong(schema, path, "root"))
    if not found:
        found += _wrong_defaults(schema, path)
    if found or not has_rules(schema):
        return found
    from mooring.apiserver.custom.rule_validation import wrong_rules  # noqa: PLC0415  CEL comes with the first rule

    return list(wrong_rules(schema, path))


def unknown_formats(schema: Json) -> Iterator[str]:
    """Formats in it that are no rule for their type."""
    name = schema.get("format", "")
    if name and not is_known(name, schema.get("type", "")):
        yield name
    below = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for inner in below:
        if isinstance(inner, dict):
            yield from unknown_formats(inner)


def _wrong_root(schema: Json, path: str) -> Iterator[FieldCause]:
    if not schema.get("type"):
        yield field_errors.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield field_errors.invalid(f"{path}.type", schema["type"], "must be object at the root")
    if schema.get("nullable"):
        yield field_errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if schema.get("additionalProperties"):
        yield field_errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    yield from _wrong_whole(schema, path, "top-level ")


def _wrong_whole(schema: Json, path: str, where: str) -> Iterator[FieldCause]:
    """apiVersion, kind and metadata are what they are everywhere; of metadata only names may be spoken of."""
    for name, kind in _WHOLE.items():
        inner = (schema.get("properties") or {}).get(name)
        if inner is None:
            continue
        place = f"{path}.properties[{name}]"
        if inner.get("type") != kind:
            yield field_errors.invalid(f"{place}.type", inner.get("type", ""), f"must be {kind}")
        if "default" in inner:
            yield field_errors.forbidden(f"{place}.default", f"must not be set in {where}{name}")
        if name == "metadata" and (not (inner.get("properties") or {}).keys() <= _NAMES or inner.get("required")):
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield field_errors.forbidden(place, text)


def _wrong(schema: Json, path: str, where: str) -> Iterator[FieldCause]:
    """where: root, field or item."""
    yield from _wrong_type(schema, path, where)
    yield from (
        field_errors.forbidden(f"{path}.{part}", f"{part} is not supported")
        for part in _UNSUPPORTED
        if schema.get(part)
    )
    if schema.get("uniqueItems"):
        yield field_errors.forbidden(f"{path}.uniqueItems", _SLOW)
    if (
        schema.get("additionalProperties") is not None
        and schema.get("properties")
        and schema["additionalProperties"] is not False
    ):
        yield field_errors.forbidden(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield field_errors.invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    yield from _wrong_embedded(schema, path)
    yield from wrong_list(schema, path)
    yield from wrong_map(schema, path)
    yield from _wrong_values(schema, path)
    yield from _wrong_below(schema, path)


def _wrong_type(schema: Json, path: str, where: str) -> Iterator[FieldCause]:
    kind = schema.get("type", "")
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if kind and kind not in _TYPES:
        yield field_errors.not_supported(f"{path}.type", kind, _TYPES)
    if not kind and not free and where != "root":
        yield field_errors.required(
            f"{path}.type", f"must not be empty for specified {'object fields' if where == 'field' else 'array items'}"
        )
    if kind == "array" and not schema.get("items") and not isinstance(schema.get("items"), dict):
        yield field_errors.required(f"{path}.items", "must be specified")


def _wrong_embedded(schema: Json, path: str) -> Iterator[FieldCause]:
    if not schema.get("x-kubernetes-embedded-resource"):
        return
    if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield field_errors.required(f"{path}.properties", text)
    if schema.get("type") != "object":
        yield field_errors.invalid(
            f"{path}.type", schema.get("type", ""), "must be object if x-kubernetes-embedded-resource is true"
        )
    yield from _wrong_whole(schema, path, "embedded resource ")


def _wrong_values(schema: Json, path: str) -> Iterator[FieldCause]:
    """Patterns, and schemas that only say which values are right."""
    if schema.get("pattern"):
        try:
            go_regexp(schema["pattern"])
        except ValueError as error:
            yield field_errors.invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression, but isn't: {error}"
            )
    for place, inner in _joined(schema, path):
        yield from _wrong_within(inner, place)


def _joined(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for part in _JOINED:
        yield from ((f"{path}.{part}[{number}]", inner) for number, inner in enumerate(schema.get(part) or ()))
    if schema.get("not"):
        yield f"{path}.not", schema["not"]


def _wrong_within(schema: Json, path: str) -> Iterator[FieldCause]:
    for part, must in _EMPTY_WITHIN.items():
        if schema.get(part) not in (None, "", False) and not (
            part == "type" and schema.get("type") in ("integer", "string")
        ):
            yield field_errors.forbidden(f"{path}.{part}", f"must be {must} to be structural")
    for part in _EXTENSIONS_WITHIN:
        if schema.get(f"x-kubernetes-{part}"):
            yield field_errors.forbidden(f"{path}.x-kubernetes-{part}", "must be undefined to be structural")
    if schema.get(RULES):
        yield field_errors.forbidden(f"{path}.{RULES}", "must be empty to be structural")
    if schema.get("additionalProperties"):
        yield field_errors.forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    yield from _wrong_values(schema, path)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _wrong_within(inner, f"{path}.properties[{name}]")
    if isinstance(schema.get("items"), dict):
        yield from _wrong_within(schema["items"], f"{path}.items")


def _wrong_below(schema: Json, path: str) -> Iterator[FieldCause]:
    for name, inner in (schema.get("properties") or {}).items():
        if not (name in _WHOLE and isinstance(inner, dict) and not inner.get("type")):
            yield from _wrong(inner, f"{path}.properties[{name}]", "field")
    items, others = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, list) and items:
        yield field_errors.forbidden(f"{path}.items", "items must be a schema object and not an array")
    elif isinstance(items, dict):
        yield from _wrong(items, f"{path}.items", "item")
    if isinstance(others, dict):
        yield from _wrong(others, f"{path}.additionalProperties", "field")


def _wrong_defaults(schema: Json, path: str) -> Iterator[FieldCause]:
    """Defaults are values that the schema itself accepts, with nothing in them that it would drop."""
    if "default" in schema:
        structure, value = structure_of(schema), copy.deepcopy(schema["default"])
        prune(value, structure, root=False)
        if value != schema["default"]:
            yield field_errors.invalid(f"{path}.default", schema["default"], "must not have unknown fields")
        yield from check(value, {**schema, "default": NOTHING}, f"{path}.default")
        yield from wrong_embedded(value, structure, f"{path}.default")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _wrong_defaults(inner, f"{path}.properties[{name}]")
    for part in ("items", "additionalProperties"):
        if isinstance(schema.get(part), dict):
            yield from _wrong_defaults(schema[part], f"{path}.{part}")
