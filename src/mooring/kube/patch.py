"""Changes to objects as data. Objects are decoded in part, so none is ever written back whole: these patches are
sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from mooring.api.meta import Object, finalizers_of
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError, Conflict, Invalid

Operation: TypeAlias = dict[str, Any]
"""One step of a JSON patch (RFC 6902)."""

_FINALIZERS: Final = "/metadata/finalizers"


def merge_patch(body: Mapping[str, Any], *, of: Object | str | None = None) -> Patch:
    """Fields to set; None removes one, a list replaces the whole list (RFC 7386).

    of: the very object that is meant, or its uid. A write may be carried out long after whoever sent it gave up; where
    another object has the name by then, it is refused (`is_about_identity`). The controllers name it wherever an
    object's name can come again.
    """
    return Patch(PatchType.MERGE, body if of is None else _with_uid(body, of))


def strategic_patch(body: Mapping[str, Any], *, of: Object | str | None = None) -> Patch:
    """Make a patch like `merge_patch`, but for lists, which are joined as their fields say. Only Kubernetes' own kinds
    take it.
    """
    return Patch(PatchType.STRATEGIC, body if of is None else _with_uid(body, of))


def json_patch(operations: Iterable[Operation], *, of: Object | str | None = None) -> Patch:
    """Steps that apply together or not at all; `test` makes them depend on what is stored (RFC 6902). of: as for
    `merge_patch`.
    """
    return Patch(PatchType.JSON, [*([] if of is None else [test("/metadata/uid", _uid(of))]), *operations])


def is_about_identity(error: ApiError) -> bool:
    """True where a write may have been refused because the object is another one, or another version, than was meant.

    A JSON patch whose test has failed names no field, whatever it tested.
    """
    causes = error.details.get("causes") or ()
    return isinstance(error, Conflict | Invalid) and all(
        str(cause.get("field", "")).startswith("metadata.") for cause in causes
    )


def test(path: str, value: Any) -> Operation:
    """Makes the patch fail (Invalid) unless this is what is stored there."""
    return {"op": "test", "path": path, "value": value}


def add(path: str, value: Any) -> Operation:
    """Sets a field, or inserts into a list; `/-` at the end appends."""
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> Operation:
    """Removes a field, or an item of a list; fails (Invalid) when nothing is there."""
    return {"op": "remove", "path": path}


def replace(path: str, value: Any) -> Operation:
    return {"op": "replace", "path": path, "value": value}


def pointer(*parts: str | int) -> str:
    """The path to a field, with each part escaped (RFC 6901): an annotation's name has a slash."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def add_finalizer(obj: Object, *finalizers: str, strictly: bool = True) -> Patch:
    """Adds missing finalizers to the very object. strictly: fails (Invalid) on changed finalizers; else one may end up
    there twice.
    """
    held = obj.metadata.finalizers
    assert finalizers
    assert not set(finalizers) & set(finalizers_of(obj))
    if not held:
        return json_patch([test(_FINALIZERS, None if held is None else []), add(_FINALIZERS, list(finalizers))], of=obj)
    unchanged = [test(_FINALIZERS, list(held))] if strictly else []
    return json_patch([*unchanged, *(add(f"{_FINALIZERS}/-", one) for one in finalizers)], of=obj)


def remove_finalizer(obj: Object, *finalizers: str) -> Patch:
    """Removes finalizers from the very object, also double ones. Fails (Invalid) unless each stands where obj has
    it.
    """
    places = [(f"{_FINALIZERS}/{place}", held) for place, held in enumerate(finalizers_of(obj)) if held in finalizers]
    assert places
    return json_patch((step for place, held in reversed(places) for step in (test(place, held), remove(place))), of=obj)


def _with_uid(body: Mapping[str, Any], of: Object | str) -> Mapping[str, Any]:
    return {**body, "metadata": {**body.get("metadata", {}), "uid": _uid(of)}}


def _uid(of: Object | str) -> str:
    return of if isinstance(of, str) else of.metadata.uid


def set_fields(obj: Object, field: str, before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> Patch | None:
    """Turns the mapping in this field of the object, a status for one, from `before` into `after`; None where nothing
    differs.

    before: None where the field was not there. Entries that neither names stay as they are. Fails (Invalid) on another
    uid, where the field came meanwhile, and where `before` has what is not there any more.
    """
    path = pointer(field)
    if before is None:
        return json_patch([test(path, None), add(path, dict(after))], of=obj) if after else None
    steps = [remove(f"{path}{pointer(name)}") for name in before if after.get(name) is None]
    steps += [
        add(f"{path}{pointer(name)}", value) for name, value in after.items() if not _same(before.get(name), value)
    ]
    return json_patch(steps, of=obj) if steps else None


def merge_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch from `old` to `new`, {} for none. A null inside `new` counts as absent: a merge patch can't say
    more.
    """
    patch: dict[str, Any] = {key: None for key, value in old.items() if value is not None and new.get(key) is None}
    for key, value in new.items():
        if value is None:
            continue
        before = old.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            inner = merge_diff(before, value)
            if inner:
                patch[key] = inner
        elif not _same(before, value):
            patch[key] = value
    return patch


def _same(left: Any, right: Any) -> bool:
    """Equality as JSON has it: true is not 1, as it would be in Python."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)
