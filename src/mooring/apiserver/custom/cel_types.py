"""Schemas as CEL sees them: the type of each place, and values in the form that rules work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.cel import conversions, values
from mooring.apiserver.cel.checker import BOOL, DYN, INT, STRING, CelType
from mooring.apiserver.custom.structural_schema import Structure

Converter = Callable[[Any], Any]

_FORMATS: Final[dict[str, tuple[CelType, Converter]]] = {
    "date-time": (CelType("timestamp"), conversions.to_timestamp),
    "date": (CelType("timestamp"), lambda value: conversions.to_timestamp(f"{value}T00:00:00Z")),
    "duration": (CelType("duration"), conversions.to_duration),
    "byte": (CelType("bytes"), lambda value: conversions.to_bytes(value)),
}
_SCALARS: Final = {"integer": INT, "number": CelType("double"), "boolean": BOOL}
_METADATA: Final = CelType("object", fields={"name": STRING, "generateName": STRING}.get)
_WHOLE: Final = {"apiVersion": STRING, "kind": STRING, "metadata": _METADATA}


def cel_type_of(structure: Structure, *, root: bool = False) -> CelType:
    """root: the object itself, which has metadata."""
    if structure.raw.get("x-kubernetes-int-or-string"):
        return DYN
    if structure.type == "array":
        return CelType("list", cel_type_of(structure.items) if structure.items is not None else DYN)
    if structure.type == "object":
        return _object(structure, whole=root or structure.embedded)
    if structure.nullable:
        return DYN
    if structure.type == "string":
        return _FORMATS.get(structure.raw.get("format", ""), (STRING, None))[0]
    return _SCALARS.get(structure.type, DYN)


def converter_of(structure: Structure) -> Converter | None:
    """None where values are in the right form already, as almost everywhere."""
    if structure.raw.get("x-kubernetes-int-or-string"):
        return None
    match structure.type:
        case "string":
            form = _FORMATS.get(structure.raw.get("format", ""))
            return None if form is None else _unless_null(form[1])
        case "number":
            return _unless_null(
                lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
            )
        case "array":
            return _list_converter(structure)
        case "object":
            return _object_converter(structure)
    return None


def _object(structure: Structure, *, whole: bool) -> CelType:
    if structure.additional is not None and not structure.properties:
        return CelType("map", cel_type_of(structure.additional) if isinstance(structure.additional, Structure) else DYN)
    known: dict[str, CelType] = {}

    def field(name: str) -> CelType | None:
        if whole and name in _WHOLE:
            return _WHOLE[name]
        if name not in known and name in structure.properties:
            known[name] = cel_type_of(structure.properties[name])
        return known.get(name)

    return CelType("object", fields=field)


def _unless_null(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _list_converter(structure: Structure) -> Converter | None:
    inner = converter_of(structure.items) if structure.items is not None else None
    holder = values.Unordered if structure.list_type in ("set", "map") else list
    if inner is None and holder is list:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return holder(value if inner is None else [inner(item) for item in value])

    return convert


def _object_converter(structure: Structure) -> Converter | None:
    found = {name: one for name, inner in structure.properties.items() if (one := converter_of(inner)) is not None}
    others = converter_of(structure.additional) if isinstance(structure.additional, Structure) else None
    if not found and others is None:
        return None

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: _converted(found.get(name, None if name in structure.properties else others), inner)
            for name, inner in value.items()
        }

    return convert


def _converted(convert: Converter | None, value: Any) -> Any:
    return value if convert is None else convert(value)
