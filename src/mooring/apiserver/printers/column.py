"""A column of a table: its name, the value that it shows of an object, and ages in the few letters that fit."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mooring.apiserver.resource import Json
from mooring.base.clock import parse_rfc3339

UNKNOWN: Final = "<unknown>"

_ZERO: Final = "0001-01-01T00:00:00Z"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_YEAR: Final = 365 * _DAY


def age_of(timestamp: str | None, now: float) -> str:
    """The age of a moment. timestamp: RFC 3339, nothing for one that is not known. now: seconds since the epoch."""
    return short_age(now - _seconds(timestamp)) if timestamp and timestamp != _ZERO else UNKNOWN


def short_age(seconds: float) -> str:
    """At most two units, the second only while it matters: `119s`, `2m5s`, `5h10m`, `3d4h`, `2y30d`."""
    whole = int(seconds)  # (towards zero: clocks differ a little, so what is a second ahead is now)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(0, whole)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(whole: int, large: int, large_letter: str, small: int, small_letter: str) -> str:
    rest = whole % large // small
    return f"{whole // large}{large_letter}" + (f"{rest}{small_letter}" if rest else "")


@functools.lru_cache(maxsize=4096)
def _seconds(timestamp: str) -> float:
    return parse_rfc3339(timestamp)


Cell = Callable[[Json, float], Any]
"""Takes a whole object and the time, in seconds since the epoch; gives a JSON value."""

NONE: Final = "<none>"
UNSET: Final = "<unset>"


class Column(msgspec.Struct, frozen=True):
    """type, format: as in OpenAPI. priority: 0 always shown, 1 where there is room for it (`-o wide`)."""

    name: str
    cell: Cell
    description: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def to_json(self) -> Json:
        """Its definition in a table."""
        shown = ("name", "type", "format", "description", "priority")
        return {part: getattr(self, part) for part in shown}


def at(*path: str, default: Any = "") -> Cell:
    def cell(obj: Json, _now: float) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if value else None
        return default if value is None else value

    return cell


def plain(show: Callable[[Json], Any]) -> Cell:
    return lambda obj, _now: show(obj)


def age(obj: Json, now: float) -> str:
    return age_of(obj["metadata"].get("creationTimestamp"), now)


def is_deleted(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_true(obj: Json, *annotations: str) -> bool:
    given = obj["metadata"].get("annotations") or {}
    return any(given.get(annotation) == "true" for annotation in annotations)


NAME: Final = Column("Name", at("metadata", "name"), "The object's name, its own within the namespace.", format="name")
AGE: Final = Column("Age", age, "How long ago the object was created.")
CREATED: Final = Column("Age", age, "How long ago the object was created.", type="date")
_CREATED_AT: Final = Column(
    "Created At", at("metadata", "creationTimestamp"), "When the object was created.", type="date"
)

DEFAULT: Final = (NAME, _CREATED_AT)
"""The columns of a kind without any of its own."""

_WHOLE: Final = {"Name": NAME, "Age": AGE}


def table(text: str, **cells: Cell) -> tuple[Column, ...]:
    """The columns of a kind, a line for each: its name (`:` and the type, if it is no text; `*` where it is shown only
    with `-o wide`), its cell, and a description, two blanks apart. A line `Name` or `Age` is that common column.

    A cell is a path into the object, such as `.spec.replicas=0` with the value where there is none, or one of cells.
    """
    return tuple(_WHOLE.get(line.strip()) or _column(line, cells) for line in text.strip().splitlines())


def _column(line: str, cells: Mapping[str, Cell]) -> Column:
    called, cell, description = re.split(r"\s{2,}", line.strip())
    name, _, kind = called.rstrip("*").partition(":")
    path, _, default = cell.partition("=")
    show = (
        at(*path[1:].split("."), default=msgspec.json.decode(default) if default else "")
        if path[0] == "."
        else cells[cell]
    )
    return Column(name, show, description, type=kind or "string", priority=int(called.endswith("*")))
