"""A column of a table: what it is called, and what it shows of an object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.printers import ages

Json = dict[str, Any]

Cell = Callable[[Json, float], Any]
"""Takes a whole object and the time, in seconds since the epoch; gives a JSON value."""

NONE: Final = "<none>"
UNSET: Final = "<unset>"


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
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
    """Shows a member of the object."""

    def cell(obj: Json, _now: float) -> Any:
        value: Any = obj
        for step in path:
            value = value.get(step) if value else None
        return default if value is None else value

    return cell


def plain(show: Callable[[Json], Any]) -> Cell:
    """Shows what a function makes of the object."""
    return lambda obj, _now: show(obj)


def age(obj: Json, now: float) -> str:
    return ages.since(obj["metadata"].get("creationTimestamp"), now)


def is_deleted(obj: Json) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_true(obj: Json, *annotations: str) -> bool:
    """True when one of the annotations says so."""
    given = obj["metadata"].get("annotations") or {}
    return any(given.get(annotation) == "true" for annotation in annotations)


NAME: Final = Column("Name", at("metadata", "name"), "The object's name, its own within the namespace.", format="name")
AGE: Final = Column("Age", age, "How long ago the object was created.")
CREATED: Final = Column("Age", age, "How long ago the object was created.", type="date")
_CREATED_AT: Final = Column("Created At", at("metadata", "creationTimestamp"), "When the object was created.", type="date")

DEFAULT: Final = (NAME, _CREATED_AT)
"""What a kind without columns of its own shows."""
