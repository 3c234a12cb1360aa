"""This is the part of a definition that must be at hand with each change of another one: all but its schemas, which may be large, and stay
bytes."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any, Final

import msgspec

from mooring.apiserver.custom.lifecycle import APPROVED
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply.managed import record_of_status
from mooring.apiserver.shallow import items, members, value, values

_RECORD: Final = "managedFields"


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """definition: metadata, spec and status as far as `lifecycle.py` reads them. versions: each as its bytes."""

    definition: Json
    versions: list[msgspec.Raw]


def head_of(body: bytes) -> Head:
    """body: of a stored definition."""
    found = members(body)
    metadata, spec = members(found["metadata"]), members(found["spec"])
    meta = values(metadata, "name", "deletionTimestamp", "finalizers")
    approved = values(metadata, "annotations").get("annotations") or {}
    meta["annotations"] = {APPROVED: approved[APPROVED]} if APPROVED in approved else {}
    definition = {"metadata": meta, "spec": values(spec, "group", "names", "scope"), "status": value(found["status"])}
    return Head(definition, items(spec["versions"]))


def digest(version: Any) -> bytes:
    """Of a version's JSON."""
    return hashlib.sha256(msgspec.json.encode(version)).digest()


class _Entry(msgspec.Struct):
    subresource: str = ""


_entry: Final = msgspec.json.Decoder(_Entry)


def put_status(resource: Resource, obj: Json, status: Json, now: float) -> None:
    """Writes the status, and to the record of managers where there is one. obj: as `shallow` has it."""
    record = obj["metadata"].get(_RECORD)
    if record is not None:
        entries = items(record)
        of_status = [entry for entry in entries if _entry.decode(entry).subresource == "status"]
        new = record_of_status(resource, [value(entry) for entry in of_status], value(obj["status"]), status, now)
        obj["metadata"][_RECORD] = [*(entry for entry in entries if entry not in of_status), *new]
    obj["status"] = status
