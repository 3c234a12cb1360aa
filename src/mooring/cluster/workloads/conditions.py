"""Conditions of workloads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from mooring.api.meta import Condition

C = TypeVar("C", bound=Condition)


def find(conditions: Iterable[C] | None, kind: str) -> C | None:
    return next((one for one in conditions or () if one.type == kind), None)


def is_true(conditions: Iterable[Condition] | None, kind: str) -> bool:
    found = find(conditions, kind)
    return found is not None and found.status == "True"


def put(conditions: Iterable[C] | None, new: C) -> tuple[C, ...]:
    """The conditions with this one at the end; one of the same status and reason stays as it is."""
    given = tuple(conditions or ())
    old = find(given, new.type)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return given
    if old is not None and old.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return (*without(given, new.type), new)


def without(conditions: Iterable[C] | None, kind: str) -> tuple[C, ...]:
    return tuple(one for one in conditions or () if one.type != kind)
