"""What a definition shows of its objects by paths: columns, selectable fields, and where the scale is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.apiserver.custom.facts import Column, ScalePaths
from mooring.apiserver.printers.jsonpath import parse_path, printed

Json = dict[str, Any]


def columns_of(version: Json) -> tuple[Column, ...]:
    """The columns that a definition's version adds after the name; () where it names none."""
    return tuple(_column(column) for column in version.get("additionalPrinterColumns") or ())


def scale_of(version: Json) -> ScalePaths | None:
    """None for a version without that sub-resource."""
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    return ScalePaths(_steps(scale["specReplicasPath"]), _steps(scale["statusReplicasPath"]), _steps(scale.get("labelSelectorPath") or ""))


def fields_of(version: Json) -> dict[str, Callable[[Json], str]]:
    """The version's selectable fields: by name, what gives the text of each."""
    paths = [field["jsonPath"] for field in version.get("selectableFields") or ()]
    return {path.removeprefix("."): _field(path) for path in paths}


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _field(path: str) -> Callable[[Json], str]:
    find = parse_path(path)

    def field(obj: Json) -> str:
        found = find(obj)
        return printed(found[0]) if found and found[0] is not None else ""

    return field


def _column(column: Json) -> Column:
    find = parse_path(column["jsonPath"])

    def cell(obj: Json) -> Any:
        found = find(obj)
        return found[0] if found else None  # (of several the first, as the real server has it)

    return Column(column["name"], column["type"], column.get("format", ""), column.get("description", ""), column.get("priority", 0), cell)
