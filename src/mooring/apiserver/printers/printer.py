"""The columns of a custom kind, from what its definition declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.apiserver.custom.facts import Custom
from mooring.apiserver.printers import ages
from mooring.apiserver.printers.column import CREATED, NAME, Cell, Column
from mooring.apiserver.printers.jsonpath import printed


def printer_columns(custom: Custom) -> tuple[Column, ...]:
    """The name, and what is declared; the age where nothing is."""
    if not custom.columns:
        return (NAME, CREATED)
    declared = (
        Column(column.name, _cell(column.cell, column.type), column.description, column.type, column.format, column.priority)
        for column in custom.columns
    )
    return (NAME, *declared)


def _cell(value_of: Callable[[dict[str, Any]], Any], kind: str) -> Cell:
    def cell(obj: dict[str, Any], now: float) -> Any:
        value = value_of(obj)
        if value is None:
            return None
        if kind == "string":
            return printed(value)
        return _date(value, now) if kind == "date" else _typed(value, kind)

    return cell


def _typed(value: Any, kind: str) -> Any:
    """The value, when it is of that type."""
    match kind, value:
        case ("boolean", bool()):
            return value
        case (_, bool()):
            return None
        case ("integer", int() | float()):
            return int(value)
        case ("number", int() | float()):
            return float(value)
    return None


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return ages.since(value, now)
    except ValueError:
        return "<invalid>"
