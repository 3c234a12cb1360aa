"""The record of owners, kept with each write: who writes, what an endpoint may write, what the write makes of the record."""

from __future__ import annotations

import dataclasses
import functools
from typing import Final

from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.server_side_apply import managed
from mooring.apiserver.server_side_apply.customshapes import custom_shape
from mooring.apiserver.server_side_apply.fieldsets import NO_FIELDS, FieldSet, field_set, named
from mooring.apiserver.server_side_apply.shapes import Shape, object_shape
from mooring.apiserver.server_side_apply.typed import compare
from mooring.base.clock import rfc3339


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, as managedFields names it. applies: the write is an apply, which has kept the record itself."""

    name: str = ""
    applies: bool = False


SERVER: Final = Writer("mooring")
"""What the server does by itself."""


@functools.lru_cache(maxsize=256)
def shape_of(resource: Resource) -> Shape:
    return object_shape(resource.message) if resource.custom is None else custom_shape(resource.custom.schema)


def unwritten(resource: Resource, subresource: str) -> FieldSet:
    """The fields that an endpoint does not write, and that nobody owns by writing there."""
    if resource.status is Status.NONE:
        return NO_FIELDS
    if subresource != "status":
        return field_set((named("status"),))
    whole = ("metadata", "spec") if resource.status is Status.ONLY else ("spec",)
    return field_set(*((named(name),) for name in whole))


def record_after(resource: Resource, old: Json | None, new: Json, by: Writer, now: float, subresource: str = "") -> list[Json]:
    """The managedFields of an object that somebody has written; empty where none are kept.

    old: None at creation. new: decoded and with its defaults; its managedFields are those of the client's body: clients that know
    of the record send it back, and one that doesn't, loses nothing.
    """
    sent = new["metadata"].get("managedFields")
    if by.applies:
        return [] if managed.is_cleared(sent) else sent
    kept = old["metadata"].get("managedFields") if old is not None else None
    if not (sent or kept) or managed.is_cleared(sent):
        return []
    record = managed.read(sent) or managed.read(kept)
    if not record:
        return []
    who = managed.updater(by.name, resource.api_version, subresource)
    compared = compare(shape_of(resource), without_record(empty_object(resource) if old is None else old), without_record(new))
    return managed.write(managed.after_update(record, compared, who, unwritten(resource, subresource), rfc3339(now)))


def empty_object(resource: Resource) -> Json:
    """What an object is before anybody has said anything."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if resource.custom is not None:
        return {**head, "metadata": {}}
    return {**head, **decode(resource.message, {}, [])}


def without_record(obj: Json) -> Json:
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}
