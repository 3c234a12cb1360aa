"""Reads, updates and writes `metadata.managedFields`.

A manager is a name with an operation: appliers and updaters differ, and so do sub-resources. The record begins with the
first apply, the server's or kubectl's own: objects without one carry none. Fields that an object had before belong to
`before-first-apply`. kubectl's own apply counts, since a later `kubectl apply --server-side` takes over all fields of
the manager that owns kubectl's annotation (LAST_APPLIED), and removes those that the file lacks: fields of others must
not be among them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mooring.apiserver.codecs.scalars import equal_json
from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.server_side_apply.fieldsets import NO_FIELDS, FieldSet, field_set, from_json, named
from mooring.apiserver.server_side_apply.shapes import Shape, custom_shape, object_shape
from mooring.apiserver.server_side_apply.typed import Comparison, compare, has_paths
from mooring.base.clock import rfc3339

BEFORE_FIRST_APPLY: Final = "before-first-apply"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl notes what it has applied by itself."""
APPLY: Final = "Apply"
UPDATE: Final = "Update"
UPDATERS_MAX: Final = 10
ANCIENT: Final = "ancient-changes"
"""Takes over from the oldest where more than UPDATERS_MAX managers have updated an object."""

_SERVERS_OWN: Final = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
)
_NOBODYS: Final = field_set(
    (named("apiVersion"),),
    (named("kind"),),
    (named("metadata"),),
    *((named("metadata"), named(name)) for name in (*_SERVERS_OWN, "resourceVersion")),
)
"""Fields that have no owner."""


class FieldManager(NamedTuple):
    """version: "" for appliers, whose entry moves on with the version that they apply."""

    name: str
    operation: str
    version: str = ""
    subresource: str = ""


class ManagedFieldsEntry(msgspec.Struct, frozen=True):
    """The fields of a manager. version: their apiVersion. time: of their last change, "" where unknown."""

    fields: FieldSet
    version: str
    time: str = ""

    def owning(self, fields: FieldSet) -> ManagedFieldsEntry:
        return msgspec.structs.replace(self, fields=fields)


Managed = Mapping[FieldManager, ManagedFieldsEntry]


def applier(name: str, subresource: str = "") -> FieldManager:
    return FieldManager(name, APPLY, "", subresource)


def updater(name: str, version: str, subresource: str = "") -> FieldManager:
    return FieldManager(name, UPDATE, version, subresource)


def read_entries(entries: Any) -> dict[FieldManager, ManagedFieldsEntry]:
    """The record of an object; empty where it can't be read."""
    try:
        return dict(_read(entry) for entry in entries or ())
    except (ValueError, AttributeError, TypeError):
        return {}


def is_cleared(entries: Any) -> bool:
    """True for what clients send to end the record: an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or entries == [{}])


def written_entries(managed: Managed) -> list[dict[str, Any]]:
    """As an object carries it, in its order: appliers first, the oldest first."""
    order = sorted(
        managed.items(),
        key=lambda found: (found[0].operation, found[1].time, found[0].name, found[1].version, found[0].subresource),
    )
    return [_written(manager, entry) for manager, entry in order]


def after_update(
    managed: Managed, compared: Comparison, manager: FieldManager, ignored: FieldSet, time: str
) -> dict[FieldManager, ManagedFieldsEntry]:
    """The record when a manager has written what `compared` found. ignored: what the endpoint does not write."""
    compared = compared.without(ignored)
    changed = compared.added | compared.modified
    kept = released(managed, changed | compared.removed)
    taken = changed - _NOBODYS
    if taken:
        old = kept.get(manager, ManagedFieldsEntry(NO_FIELDS, manager.version))
        kept[manager] = ManagedFieldsEntry(old.fields | taken, manager.version, time)
    return _bounded(kept)


def conflicts(managed: Managed, compared: Comparison, manager: FieldManager) -> dict[FieldManager, FieldSet]:
    """Fields that the manager would change and that belong to others."""
    changed = compared.added | compared.modified
    found = {other: entry.fields & changed for other, entry in managed.items() if other != manager}
    return {other: fields for other, fields in found.items() if fields}


def released(
    managed: Managed, fields: FieldSet, but: FieldManager | None = None
) -> dict[FieldManager, ManagedFieldsEntry]:
    """The record without those fields. but: a manager that keeps them. A manager without fields has no entry."""
    left = {other: entry if other == but else entry.owning(entry.fields - fields) for other, entry in managed.items()}
    return {other: entry for other, entry in left.items() if entry.fields}


def owned(fields: FieldSet) -> FieldSet:
    """The part that can have an owner."""
    return fields - _NOBODYS


def same_but_for_times(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """True when two objects differ in nothing, or only in when whose fields changed."""
    if equal_json(left, right):
        return True
    ours, theirs = left["metadata"], right["metadata"]
    if not ours.get("managedFields") or not theirs.get("managedFields"):
        return False
    if not equal_json(
        {**left, "metadata": {**ours, "managedFields": None}}, {**right, "metadata": {**theirs, "managedFields": None}}
    ):
        return False
    return _timeless(ours["managedFields"]) == _timeless(theirs["managedFields"])


def _timeless(entries: Iterable[Mapping[str, Any]]) -> dict[FieldManager, FieldSet]:
    return {manager: entry.fields for manager, entry in read_entries(entries).items()}


def _read(entry: Mapping[str, Any]) -> tuple[FieldManager, ManagedFieldsEntry]:
    operation, version = entry.get("operation"), entry.get("apiVersion", "")
    if operation not in (APPLY, UPDATE) or not version or entry.get("fieldsType") != "FieldsV1":
        raise ValueError("an entry names its operation, its apiVersion and the type of its fields")
    manager = FieldManager(
        entry.get("manager", ""), operation, version if operation == UPDATE else "", entry.get("subresource", "")
    )
    return manager, ManagedFieldsEntry(from_json(entry.get("fieldsV1") or {}), version, entry.get("time") or "")


def _written(manager: FieldManager, entry: ManagedFieldsEntry) -> dict[str, Any]:
    names = {"manager": manager.name, "operation": manager.operation, "apiVersion": entry.version, "time": entry.time}
    whole = {**names, "fieldsType": "FieldsV1", "fieldsV1": entry.fields.to_json(), "subresource": manager.subresource}
    return {name: value for name, value in whole.items() if value != ""}


def _bounded(managed: dict[FieldManager, ManagedFieldsEntry]) -> dict[FieldManager, ManagedFieldsEntry]:
    """Not more than UPDATERS_MAX updaters: the oldest of each version become one."""
    oldest = sorted(
        (manager for manager in managed if manager.operation == UPDATE),
        key=lambda manager: (managed[manager].time, manager),
    )
    count, firsts = len(oldest), dict[str, FieldManager]()
    for manager in oldest:
        if count <= UPDATERS_MAX:
            break
        bucket = updater(ANCIENT, manager.version)
        first = firsts.setdefault(manager.version, manager)
        if first == manager:
            continue
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        managed[bucket] = ManagedFieldsEntry(
            managed[bucket].fields | managed[manager].fields, manager.version, managed[manager].time
        )
        if manager != bucket:
            del managed[manager]
        count -= 1
    return managed


class Writer(msgspec.Struct, frozen=True):
    """The writer as managedFields names it. applies: the write is an apply, which has kept the record itself."""

    name: str = ""
    applies: bool = False


SERVER: Final = Writer("mooring")
"""The manager of the server's own writes."""


@functools.lru_cache(maxsize=256)
def shape_of(resource: Resource) -> Shape:
    return object_shape(resource.message) if resource.custom is None else custom_shape(resource.custom.schema)


def unwritten(resource: Resource, subresource: str) -> FieldSet:
    """The fields that an endpoint does not write, and whose ownership it does not change."""
    if resource.status is Status.NONE:
        return NO_FIELDS
    if subresource != "status":
        return field_set((named("status"),))
    whole = ("metadata", "spec") if resource.status is Status.ONLY else ("spec",)
    kept = ((named("metadata"), named(name)) for name in resource.status_keeps)
    return field_set(*((named(name),) for name in whole), *kept)


def record_at_creation(resource: Resource, sent: Json, by: Writer, now: float) -> list[Json]:
    """The managedFields of a new object. sent: without what admission adds, which nobody owns."""
    new = sent
    if not by.applies and (sent["metadata"].get("managedFields") or has_note(sent)):
        new = copy.deepcopy(sent)
        resource.default(new)
    return record_after(resource, None, new, by, now)


def record_after(
    resource: Resource, old: Json | None, new: Json, by: Writer, now: float, subresource: str = ""
) -> list[Json]:
    """The managedFields after a write; empty where none are kept.

    old: None at creation. new: decoded and with its defaults. Its managedFields are the client's: a client that sends
    the record back changes nothing, and one that leaves it out loses nothing.
    """
    sent = new["metadata"].get("managedFields")
    if by.applies:
        return [] if is_cleared(sent) else sent
    kept = old["metadata"].get("managedFields") if old is not None else None
    begins = has_note(new) and not (old is not None and has_note(old))
    if not (sent or kept or begins) or is_cleared(sent):
        return []
    record = read_entries(sent) or read_entries(kept)
    if not (record or begins) or not all(has_paths(shape_of(resource), obj) for obj in (old, new) if obj is not None):
        return []
    if not record and old is not None:
        record = record_before(resource, old, rfc3339(now))
    version = (
        new["apiVersion"] if subresource == "scale" else resource.api_version
    )  # (a scale writes a field of its object)
    who = updater(by.name, version, subresource)
    compared = compare(
        shape_of(resource), without_record(empty_object(resource) if old is None else old), without_record(new)
    )
    return written_entries(after_update(record, compared, who, unwritten(resource, subresource), rfc3339(now)))


def record_of_status(resource: Resource, entries: list[Json], old: Any, new: Any, now: float) -> list[Json]:
    """The entries of the status when the server itself has written it. entries: those before, which are of the status
    alone, too.
    """
    who, bare = (
        updater(SERVER.name, resource.api_version, "status"),
        {"apiVersion": resource.api_version, "kind": resource.kind},
    )
    compared = compare(shape_of(resource), {**bare, "status": old}, {**bare, "status": new})
    return written_entries(
        after_update(read_entries(entries), compared, who, unwritten(resource, "status"), rfc3339(now))
    )


def record_before(
    resource: Resource, live: Json, time: str, subresource: str = ""
) -> dict[FieldManager, ManagedFieldsEntry]:
    """The record of an object that has none: whoever wrote its fields, they belong to nobody that is known by name."""
    first = updater(BEFORE_FIRST_APPLY, resource.api_version, subresource)
    return after_update(
        {}, compare(shape_of(resource), empty_object(resource), live), first, unwritten(resource, subresource), time
    )


def has_note(obj: Json) -> bool:
    """True for an object that kubectl has applied by itself."""
    return LAST_APPLIED in (obj["metadata"].get("annotations") or ())


def empty_object(resource: Resource) -> Json:
    """The object before its first apply."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if resource.custom is not None:
        return {**head, "metadata": {}}
    return {**head, **decode(resource.message, {}, [])}


def without_record(obj: Json) -> Json:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
