"""Printer columns, the scale and selectable fields of a definition: read, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.apiserver import field_errors
from mooring.apiserver.custom.jsonpath import parse_path, printed
from mooring.apiserver.custom.structural_schema import Structure, structure_of
from mooring.apiserver.field_errors import FieldCause
from mooring.apiserver.resource import CustomColumn, Json, ScalePaths


def columns_of(version: Json) -> tuple[CustomColumn, ...]:
    """The columns that a definition's version adds after the name; () where it names none."""
    return tuple(_column(column) for column in version.get("additionalPrinterColumns") or ())


def scale_of(version: Json) -> ScalePaths | None:
    """The sub-resource of a version; None if the version lacks it."""
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    return ScalePaths(
        _steps(scale["specReplicasPath"]),
        _steps(scale["statusReplicasPath"]),
        _steps(scale.get("labelSelectorPath") or ""),
    )


def value_at(obj: Any, steps: tuple[str, ...]) -> Any:
    """The value that such steps lead to; None where the object does not go so far."""
    for step in steps:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def fields_of(version: Json) -> dict[str, Callable[[Json], str]]:
    """The version's selectable fields: by name, what gives the text of each."""
    paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
    return {path.removeprefix("."): _field_reader(path) for path in paths}


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _field_reader(path: str) -> Callable[[Json], str]:
    find = parse_path(path)

    def field(obj: Json) -> str:
        found = find(obj)
        return printed(found[0]) if found and found[0] is not None else ""

    return field


def _column(column: Json) -> CustomColumn:
    find = parse_path(column["jsonPath"])

    def cell(obj: Json) -> Any:
        found = find(obj)
        return found[0] if found else None  # (of several the first, as the real server has it)

    return CustomColumn(
        column["name"],
        column["type"],
        column.get("format", ""),
        column.get("description", ""),
        column.get("priority", 0),
        cell,
    )


_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_FIELDS_MAX: Final = 8
_COLUMNS_MAX: Final = 100
"""Differs from kube-apiserver, which knows no bound: each is looked for in each object that a table shows."""
_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def wrong_columns(version: Json, path: str) -> Iterator[FieldCause]:
    count = len(version.get("additionalPrinterColumns") or ())
    if count > _COLUMNS_MAX:
        yield field_errors.too_many_items(path, count, _COLUMNS_MAX)
        return
    for number, column in enumerate(version.get("additionalPrinterColumns") or ()):
        place = f"{path}[{number}]"
        if not column["name"]:
            yield field_errors.required(f"{place}.name")
        text = f"must be one of {','.join(_TYPES)}"
        if not column["type"]:
            yield field_errors.required(f"{place}.type", text)
        elif column["type"] not in _TYPES:
            yield field_errors.invalid(f"{place}.type", column["type"], text)
        if column.get("format") and column["format"] not in _FORMATS:
            yield field_errors.invalid(f"{place}.format", column["format"], f"must be one of {','.join(_FORMATS)}")
        yield from _wrong_path(column["jsonPath"], f"{place}.JSONPath")


def wrong_scale(version: Json, path: str) -> Iterator[FieldCause]:
    scale, place = (version.get("subresources") or {}).get("scale"), f"{path}.scale"
    if scale is None:
        return
    for part, top in (("specReplicasPath", "spec"), ("statusReplicasPath", "status")):
        yield from _wrong_place(scale[part], f"{place}.{part}", (f".{top}.",), f".{top}")
    selector = scale.get("labelSelectorPath")
    if selector:
        yield from _wrong_place(
            selector, f"{place}.labelSelectorPath", (".spec.", ".status."), "either .spec or .status"
        )


def wrong_selectable(version: Json, path: str) -> Iterator[FieldCause]:
    fields = version.get("selectableFields") or ()
    structure = structure_of((version.get("schema") or {}).get("openAPIV3Schema") or {})
    seen: set[str] = set()
    if len(fields) > _FIELDS_MAX:
        yield field_errors.too_many_items(path, len(fields), _FIELDS_MAX)
    for number, field in enumerate(fields):
        place, given = f"{path}[{number}].jsonPath", field["jsonPath"]
        if given in seen:
            yield field_errors.duplicate(place, given)
            continue
        seen.add(given)
        yield from _wrong_field(given, place, structure)


def _wrong_field(given: str, place: str, structure: Structure) -> Iterator[FieldCause]:
    if not given:
        yield field_errors.required(place)
        return
    if not given.startswith("."):
        yield field_errors.invalid(
            place, given, f"is an invalid path: expected [ or . but got: {given.partition('.')[0]}"
        )
        return
    here: Structure | bool | None = structure
    for step in given[1:].split("."):
        here = here.properties.get(step) if isinstance(here, Structure) else None
    if not isinstance(here, Structure) or given.startswith(".metadata"):
        yield field_errors.invalid(place, given, "is an invalid path: does not refer to a valid field")
    elif here.type not in ("string", "boolean", "integer"):
        yield field_errors.invalid(place, given, _SELECTABLE)


def _wrong_place(given: str, field: str, tops: tuple[str, ...], roots: str) -> Iterator[FieldCause]:
    wrong = list(_wrong_path(given, field))
    if not wrong and not given.startswith(tops):
        wrong.append(field_errors.invalid(field, given, f"should be a json path under {roots}"))
    yield from wrong


def _wrong_path(given: str, field: str) -> Iterator[FieldCause]:
    if not given:
        yield field_errors.required(field)
    elif not given.startswith("."):
        yield field_errors.invalid(field, given, "must be a simple json path starting with .")
    else:
        try:
            parse_path(given)
        except ValueError as error:
            yield field_errors.invalid(field, given, str(error))
