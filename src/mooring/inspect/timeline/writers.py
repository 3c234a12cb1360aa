"""The writers of an object's fields, with their times, from managedFields. Pure.

A manager's entry lists the fields that it owns, with one time: that of its last write to any of them. So an entry gives one moment. Only
the maker of an object owns the field that no object of its kind is made without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mooring.inspect.scene import moment_s
from mooring.inspect.timeline.traces import Lane, ManagedFields, Moment, Source, Traced

SHOWN_MAX: Final = 4
BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""Owns what an object had before its first apply, with the time of that: whoever wrote it, this entry is nobody's, and no moment."""
_MADE_WITH: Final[Mapping[str, str]] = {
    "pod": "containers",
    "pvc": "resources",
    "pv": "capacity",
    "volumeattachment": "attacher",
    "volumesnapshot": "source",
    "volumesnapshotcontent": "driver",
    "volumegroupsnapshot": "source",
    "volumegroupsnapshotcontent": "driver",
}
"""The field of `spec` that an object has from its beginning, and that nobody else writes, by kind."""


def written(lane: Lane, obj: Traced) -> Iterator[Moment]:
    """The object's beginning, and the last write of each manager."""
    made_s, maker = moment_s(obj.metadata.creation_timestamp), maker_of(lane, obj)
    if made_s:
        yield Moment(made_s, lane.label, Source.CREATED, "created it", maker.manager if maker is not None else "")
    for entry in obj.metadata.managed_fields or ():
        at_s = moment_s(entry.time)
        if not at_s or entry.manager == BEFORE_FIRST_APPLY or (entry is maker and int(at_s) == int(made_s)):
            continue
        fields = fields_of(entry)
        if fields:
            again = "last wrote one of " if entry is maker else "wrote "
            yield Moment(at_s, lane.label, Source.WROTE, again + _listed(fields), entry.manager)


def maker_of(lane: Lane, obj: Traced) -> ManagedFields | None:
    """The entry of whoever made the object; None where the record does not prove one."""
    mark = _MADE_WITH.get(lane.kind, "")
    entries = [one for one in obj.metadata.managed_fields or () if not one.subresource]
    owners = [one for one in entries if mark and f"f:{mark}" in _below(one.fields_v1, "f:spec")]
    return owners[0] if len(owners) == 1 and owners[0].manager != BEFORE_FIRST_APPLY else None


def owner_of(obj: Traced, *path: str) -> str:
    """The one manager of a field, "" where there are several or none. path: elements as in fieldsV1, `f:status`, `f:phase`."""
    owners = {one.manager for one in obj.metadata.managed_fields or () if _has(one.fields_v1, path)}
    owner = owners.pop() if len(owners) == 1 else ""
    return owner if owner != BEFORE_FIRST_APPLY else ""


def fields_of(entry: ManagedFields) -> list[str]:
    """The fields in short: two names deep, for annotations and conditions three; spec first, metadata last."""
    found = [name for element, below in entry.fields_v1.items() for name in _short(element, below)]
    rank = {"spec": 0, "status": 1}
    return sorted(dict.fromkeys(found), key=lambda name: rank.get(name.partition(".")[0], 2))


def _short(element: str, below: Any) -> Iterator[str]:
    top = _name(element)
    if top is None:
        return
    inner = [one for one in (below if isinstance(below, dict) else {}) if _name(one) is not None]
    for one in inner:
        name, deeper = _name(one), below[one]
        elements = deeper if isinstance(deeper, dict) else {}
        if top == "metadata" and name == "annotations":
            yield from (f"annotation {key}" for key in map(_name, elements) if key) if any(map(_name, elements)) else ("annotations",)
        elif top == "status" and name == "conditions":
            types = [kept for kept in map(_type_of, elements) if kept]
            yield from (f"status.conditions[{kept}]" for kept in types) if types else ("status.conditions",)
        else:
            yield f"{top}.{name}"
    if not inner:
        yield top


def _name(element: str) -> str | None:
    return element[2:] if element.startswith("f:") and len(element) > 2 else None


def _type_of(element: str) -> str:
    """The type of a condition, from an element like `k:{"type":"Ready"}`."""
    try:
        keys = json.loads(element[2:]) if element.startswith("k:") else None
    except (ValueError, RecursionError):
        return ""
    return str(keys.get("type", "")) if isinstance(keys, dict) else ""


def _below(fields: Any, element: str) -> Mapping[str, Any]:
    found = fields.get(element) if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


def _has(fields: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    for element in path[:-1]:
        fields = _below(fields, element)
    return path[-1] in fields


def _listed(fields: list[str]) -> str:
    more = len(fields) - SHOWN_MAX
    return ", ".join(fields[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
