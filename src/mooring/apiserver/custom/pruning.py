"""Before validation: unknown fields go, nulls without meaning go, defaults come. All but `whole_numbers` write to their
argument.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from mooring.apiserver.bodies.objects import VALUES_MAX, count_of
from mooring.apiserver.custom.structural_schema import Structure

_WRITTEN_OUT: Final = 1e21  # larger ones are written with an exponent
_WHOLE: Final = ("apiVersion", "kind", "metadata")
"""Members of the object itself, and of objects within it, that every kind has."""


class FromFloat(int):
    """A whole number that came as 2.0. Go's decoder makes a float of it, which differs from every 2 that is stored."""


def whole_numbers(value: Any, made: type[int] = int) -> Any:
    """The value with 2.0 written as 2, as Go writes it. made: what becomes of it."""
    if isinstance(value, dict):
        return {name: whole_numbers(inner, made) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item, made) for item in value]
    return made(value) if isinstance(value, float) and value.is_integer() and abs(value) < _WRITTEN_OUT else value


def settle_floats(value: Any) -> bool:
    """Makes plain numbers of each FromFloat. True when there was one."""
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for place, inner in places:
        if isinstance(inner, FromFloat):
            value[place] = int(inner)
            found = True
        else:
            found = settle_floats(inner) or found
    return found


def prune(
    value: Any, structure: Structure, *, root: bool = True, path: str = "", gone: list[str] | None = None
) -> None:
    """Drops what the schema does not know. gone: gets the paths of what was dropped."""
    if isinstance(value, list):
        if structure.items is not None:
            for number, item in enumerate(value):
                prune(item, structure.items, root=False, path=f"{path}[{number}]", gone=gone)
        return
    if not isinstance(value, dict):
        return
    whole = root or structure.embedded
    for name in list(value):
        if whole and name in _WHOLE:
            continue
        inner, here = structure.of_key(name), f"{path}.{name}" if path else name
        if isinstance(inner, Structure):
            prune(value[name], inner, root=False, path=here, gone=gone)
        elif inner is None and not structure.open:
            del value[name]
            if gone is not None:
                gone.append(here)


def drop_nulls(value: Any, structure: Structure) -> None:
    """Drops nulls where the schema has none: they count as not given."""
    if isinstance(value, list):
        for item in value if structure.items is not None else ():
            assert structure.items is not None
            drop_nulls(item, structure.items)
    elif isinstance(value, dict):
        for name in list(value):
            inner = structure.of_key(name)
            if not isinstance(inner, Structure):
                continue
            if value[name] is None and not inner.nullable:
                del value[name]
            else:
                drop_nulls(value[name], inner)


def fill(value: Any, structure: Structure) -> bool:
    """Fills in the defaults of what is absent. False when there are more of them than an object may have values: some
    are missing then.
    """
    return _fill(value, structure, VALUES_MAX) >= 0


def _fill(value: Any, structure: Structure, left: int) -> int:
    """left: how many values may still be made. Gives what is left of that, below zero when it was not enough."""
    if isinstance(value, list):
        for item in value if structure.items is not None else ():
            assert structure.items is not None
            left = _fill(item, structure.items, left) if left >= 0 else left
    elif isinstance(value, dict):
        for name, default in structure.defaults:
            if name not in value:
                left -= count_of(default)
                if left < 0:
                    return left
                value[name] = copy.deepcopy(default)
        for name, member in value.items():
            known = structure.of_key(name)
            if isinstance(known, Structure):
                left = _fill(member, known, left) if left >= 0 else left
    return left
