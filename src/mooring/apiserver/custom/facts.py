"""What others may want to know of a custom kind: its names, its schema, its columns, where its scale is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. cell: its value for an object as the kind shows it; None where there is none.

    `printers/jsonpath.py` reads paths; `printers/kinds.py` shows the values.
    """

    name: str
    type: str
    format: str
    description: str
    priority: int
    cell: Callable[[Json], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale sub-resource finds its numbers, as steps into the object. selector: () where there is none."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Custom:
    """A custom kind. schema: the openAPIV3Schema as its definition gives it. columns: after the name; () for the usual ones.

    deprecation: what each answer of a deprecated version warns of, "" for others.
    """

    definition: str
    singular: str
    list_kind: str
    schema: Json
    columns: tuple[Column, ...] = ()
    scale: ScalePaths | None = None
    deprecation: str = ""
