"""Whole objects within a custom object (`x-kubernetes-embedded-resource`): their metadata has the shape that all metadata has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mooring.api import names
from mooring.apiserver import field_errors, metadata, objectmeta
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.custom.structure import Structure
from mooring.apiserver.field_errors import Cause

Json = dict[str, Any]

_META: Final = objectmeta.MESSAGES["ObjectMeta"]


def decode_embedded(value: Any, structure: Structure, unknown: list[str], path: str = "") -> None:
    """Brings their metadata into its form. Writes to value. Raises ValueError for what is no metadata."""
    for place, obj in _embedded(value, structure, path):
        if obj.get("metadata") is None:
            obj.pop("metadata", None)
            continue
        gone: list[str] = []
        try:
            obj["metadata"] = decode(_META, obj["metadata"], gone)
        except ValueError as error:
            raise ValueError(f"{place}.metadata: Invalid value: {field_errors.shown(obj['metadata'])}: {error}") from error
        unknown += [f"{place}.metadata.{name}" for name in gone]


def wrong_embedded(value: Any, structure: Structure, path: str = "") -> Iterator[Cause]:
    """What is wrong with their names and labels; that apiVersion and kind are there says the schema."""
    for place, obj in _embedded(value, structure, path):
        version, kind = obj.get("apiVersion"), obj.get("kind")
        if isinstance(version, str) and version.count("/") > 1:
            yield field_errors.invalid(f"{place}.apiVersion", version, f"unexpected GroupVersion string: {version}")
        if isinstance(kind, str) and kind:
            for reason in names.dns_1035_label(kind.lower()):
                yield field_errors.invalid(f"{place}.kind", kind, f"may have mixed case, but should otherwise match: {reason}")
        yield from metadata.labels((obj.get("metadata") or {}).get("labels") or {}, f"{place}.metadata.labels")


def _embedded(value: Any, structure: Structure, path: str) -> Iterator[tuple[str, Json]]:
    if isinstance(value, list) and structure.items is not None:
        for number, item in enumerate(value):
            yield from _embedded(item, structure.items, f"{path}[{number}]")
    elif isinstance(value, dict):
        if structure.embedded:
            yield path, value
        for name, member in value.items():
            inner = structure.of_key(name)
            if isinstance(inner, Structure) and inner.has_embedded:
                yield from _embedded(member, inner, f"{path}.{name}" if path else name)
