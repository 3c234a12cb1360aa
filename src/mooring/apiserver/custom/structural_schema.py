"""The structural schema of a custom kind, one node for each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

Json = dict[str, Any]


RULES: Final = "x-kubernetes-validations"
NOTHING: Final = object()
"""No default. (null is one.)"""


class Structure(msgspec.Struct, frozen=True, eq=False):
    """A node. raw: its JSON schema, for the rules about values (`value_validation.py`).

    additional: of the values of undeclared keys; True: anything, None: there are none. defaults: of its properties.
    open: unknown fields are kept. embedded: a whole object with metadata; has_embedded: that, or one is below.
    list_keys: identify a map list's items.
    """

    raw: Json
    type: str
    properties: Mapping[str, Structure]
    items: Structure | None
    additional: Structure | bool | None
    default: Any
    defaults: tuple[tuple[str, Any], ...]
    nullable: bool
    open: bool
    embedded: bool
    has_embedded: bool
    list_type: str
    list_keys: tuple[str, ...]

    @property
    def rules(self) -> list[Json]:
        """The CEL rules that stand here."""
        found: list[Json] = self.raw.get(RULES) or []
        return found

    def children(self) -> Iterator[tuple[str, Structure]]:
        """Each node below, with the step to it as causes name places."""
        yield from self.properties.items()
        if self.items is not None:
            yield "items", self.items
        if isinstance(self.additional, Structure):
            yield "additionalProperties", self.additional

    def of_key(self, name: str) -> Structure | bool | None:
        """The node of a map's or an object's member; True: anything goes, None: there is no such member."""
        found = self.properties.get(name)
        return self.additional if found is None else found


def has_rules(schema: Json) -> bool:
    """False for a schema without CEL rules: then CEL need not be loaded."""
    return b'"x-kubernetes-validations"' in msgspec.json.encode(schema)


def structure_of(schema: Json) -> Structure:
    """schema: a JSONSchemaProps as its definition gives it."""
    properties = {name: structure_of(inner) for name, inner in (schema.get("properties") or {}).items()}
    others, items = schema.get("additionalProperties"), schema.get("items")
    additional = structure_of(others) if isinstance(others, dict) else others or None
    item = structure_of(items) if isinstance(items, dict) else None
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    below = [
        *properties.values(),
        *([item] if item else ()),
        *([additional] if isinstance(additional, Structure) else ()),
    ]
    return Structure(
        raw=schema,
        type=schema.get("type", ""),
        properties=properties,
        items=item,
        additional=additional,
        default=schema.get("default", NOTHING),
        defaults=tuple((name, inner.default) for name, inner in properties.items() if inner.default is not NOTHING),
        nullable=bool(schema.get("nullable")),
        open=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=embedded,
        has_embedded=embedded or any(inner.has_embedded for inner in below),
        list_type=schema.get("x-kubernetes-list-type", ""),
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
    )
