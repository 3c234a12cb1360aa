"""Serves and withdraws the kinds of CustomResourceDefinitions, in the turn of the write: its answer comes when the kind
is served.

Parts of a version that take long to make are made where its writer is, beside the loop for a large one, and kept while
the definition stays the same. The objects of a definition that is deleted go in portions: the first in the turn of the
write, the others with the housekeeping.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.aside import is_aside
from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.definition_kind import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.custom.lifecycle import APPROVED, AcceptedNames
from mooring.apiserver.custom.served_kinds import CustomKind, VersionParts, parts_of
from mooring.apiserver.portions import Portion
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.server_side_apply.managed import record_of_status
from mooring.apiserver.shallow import items, members, value, values
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, StoredChange

_RECORD: Final = "managedFields"


class DefinitionHead(msgspec.Struct, frozen=True):
    """The part of a definition that must be at hand with each change of another one: all but its schemas, which may be
    large.

    definition: metadata, spec and status as far as `lifecycle.py` reads them. versions: each as its bytes.
    """

    definition: Json
    versions: list[msgspec.Raw]


def head_of(body: bytes) -> DefinitionHead:
    """body: of a stored definition."""
    found = members(body)
    metadata, spec = members(found["metadata"]), members(found["spec"])
    meta = values(metadata, "name", "deletionTimestamp", "finalizers")
    approved = values(metadata, "annotations").get("annotations") or {}
    meta["annotations"] = {APPROVED: approved[APPROVED]} if APPROVED in approved else {}
    definition = {"metadata": meta, "spec": values(spec, "group", "names", "scope"), "status": value(found["status"])}
    return DefinitionHead(definition, items(spec["versions"]))


def digest(version: Any) -> bytes:
    """The digest of a version's JSON."""
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


_Parts = Mapping[bytes, VersionParts]
"""By the digest of the version, in the definition's order."""


class _Served(msgspec.Struct, frozen=True):
    """The served part of a definition. says: the JSON that the kinds were made from."""

    says: object
    parts: _Parts
    kinds: tuple[Resource, ...]
    stored: Resource


class Definitions:
    """Custom kinds in a store. Made before anything is written to it; `load` takes in what is stored already."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._heads: dict[str, DefinitionHead] = {}
        self._names = AcceptedNames()
        self._served: dict[str, _Served] = {}
        self._prepared: _Parts = {}
        store.before_writes(self._prepare)
        self._cleaned: dict[str, Iterator[Stored]] = {}  # (by name: the objects that are still to be deleted)
        store.follow(self._follow)
        store.workers.append(self)

    def load(self) -> None:
        """Serves the kinds of all definitions that are stored."""
        for stored in self._store.table(CUSTOM_RESOURCE_DEFINITIONS).items():
            self._know(head_of(stored.body))
        for name, head in self._heads.items():
            self._serve(head)
            if head.definition["metadata"].get("deletionTimestamp"):
                self._cleaned[name] = self._objects(name)

    def _prepare(self, resource: Resource, obj: Json) -> None:
        """Makes what the loop should not: it takes it from here."""
        if is_aside() and resource.storage == CUSTOM_RESOURCE_DEFINITIONS.storage:
            served = self._served.get(obj["metadata"]["name"])
            known = {} if served is None else served.parts
            versions = {digest(version): version for version in obj["spec"]["versions"]}
            self._prepared = {each: known.get(each) or parts_of(version) for each, version in versions.items()}

    def _follow(self, resource: Resource, change: StoredChange) -> None:
        if resource.storage == CUSTOM_RESOURCE_DEFINITIONS.storage:
            self._follow_definition(change)
        elif change.new is None and resource.custom is not None and not len(self._store.table(resource)):
            definition = self._find(resource.custom.definition)
            if definition is not None and definition["metadata"].get("deletionTimestamp"):
                self._finish(definition, change.at)

    def _follow_definition(self, change: StoredChange) -> None:
        if change.new is not None:
            head = head_of(change.new.body)
            self._know(head)
            self._settle(head, change.at)
            return
        name = change.key.name
        group = self._heads.pop(name).definition["spec"]["group"]
        self._names.drop(name)
        self._remove(name)
        for other in self._refused(group):
            self._settle(other, change.at)  # (a name may have become free)

    def _know(self, head: DefinitionHead) -> None:
        self._heads[head.definition["metadata"]["name"]] = head
        self._names.put(head.definition)

    def _refused(self, group: str) -> list[DefinitionHead]:
        """The definitions of a group that have not got the names that they want."""
        of_group = [head for head in self._heads.values() if head.definition["spec"]["group"] == group]
        return [head for head in of_group if not lifecycle.has_condition(head.definition, "NamesAccepted")]

    def _settle(self, head: DefinitionHead, now: float) -> None:
        """Writes the status that follows; that write leads here again, and then the kinds are served."""
        definition = head.definition
        status = lifecycle.status_of(definition, self._names.taken_from(definition), now)
        if status != definition["status"]:
            self._write_status(definition["metadata"]["name"], status, now)
            return
        self._serve(head)
        name = definition["metadata"]["name"]
        if definition["metadata"].get("deletionTimestamp") and name not in self._cleaned:
            self._cleaned[name] = self._objects(name)
            self._clean(name, now, Portion())

    # kinds

    def _serve(self, head: DefinitionHead) -> None:
        """Every version that is served is a kind. Objects are there even when none is. Nothing changes where nothing
        else is said.
        """
        definition, name = head.definition, head.definition["metadata"]["name"]
        before, versions = self._served.get(name), {digest(version): version for version in head.versions}
        conditions = [lifecycle.has_condition(definition, kind) for kind in ("Established", "Terminating")]
        says = (tuple(versions), definition["spec"], definition["status"]["acceptedNames"], conditions)
        if before is not None and before.says == says:
            return
        known = self._prepared if before is None else {**before.parts, **self._prepared}
        parts = {each: known.get(each) or parts_of(value(version)) for each, version in versions.items()}
        if self._prepared.keys() == parts.keys():
            self._prepared = {}
        kind = CustomKind(definition, tuple(parts.values()))
        new = self._served[name] = _Served(says, parts, kind.served(), kind.stored())
        self._store.ensure_table(new.stored)
        self._store.serve(new.kinds, () if before is None else before.kinds)

    def _remove(self, name: str) -> None:
        self._cleaned.pop(name, None)
        served = self._served.pop(name)
        self._store.withdraw(served.kinds)
        self._store.drop_table(served.stored.storage)

    # deletion

    @property
    def due(self) -> float | None:
        return 0.0 if self._cleaned else None

    def work(self, now: float, portion: Portion) -> None:
        for name in list(self._cleaned):
            if not portion.is_spent:
                self._clean(name, now, portion)

    def _objects(self, name: str) -> Iterator[Stored]:
        """Those that are there when the first is asked for, and when their turn comes."""
        table = self._store.table(self._served[name].stored)
        for key in [stored.key for stored in table.items()]:
            stored = table.get(key)
            if stored is not None:
                yield stored

    def _clean(self, name: str, now: float, portion: Portion) -> None:
        """Deletes objects; the last one takes the definition with it."""
        resource = self._served[name].stored
        for stored in self._cleaned[name]:
            self._store.delete(resource, stored.key, now)
            portion.spend(stored)
            if portion.is_spent:
                return
        self._cleaned.pop(name, None)
        left = self._find(name)
        if left is not None:
            self._finish(left, now)

    def _finish(self, definition: Json, now: float) -> None:
        """Removes the finalizer when no object of the kind is left, else writes the condition that says why not."""
        name, finalizers = definition["metadata"]["name"], definition["metadata"].get("finalizers") or []
        if len(self._store.table(self._served[name].stored)):
            status = lifecycle.emptying(definition["status"], now)
            if status != definition["status"]:
                self._write_status(name, status, now)
        elif lifecycle.CLEANUP in finalizers:
            kept = [finalizer for finalizer in finalizers if finalizer != lifecycle.CLEANUP]
            if kept:
                self._write_status(name, lifecycle.emptied(definition["status"], now), now)
            self._write_finalizers(name, kept, now)

    # definitions

    def _find(self, name: str) -> Json | None:
        """A definition as far as it is at hand."""
        head = self._heads.get(name)
        return None if head is None else head.definition

    def _write_status(self, name: str, status: Json, now: float) -> None:
        def change(obj: Json) -> None:
            put_status(CUSTOM_RESOURCE_DEFINITIONS, obj, status, now)

        self._store.amend_shallow(CUSTOM_RESOURCE_DEFINITIONS, Key("", name), change, now)

    def _write_finalizers(self, name: str, finalizers: list[str], now: float) -> None:
        def change(obj: Json) -> None:
            obj["metadata"]["finalizers"] = finalizers

        self._store.amend_shallow(CUSTOM_RESOURCE_DEFINITIONS, Key("", name), change, now)
