"""Serves and withdraws the kinds of CustomResourceDefinitions, in the turn of the write: its answer comes when the kind is served.

The objects of a definition that is deleted go in portions: the first in the turn of the write, the others with the housekeeping.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.meta import Key
from mooring.apiserver.custom import lifecycle
from mooring.apiserver.custom.serving import resources_of, stored_resource
from mooring.apiserver.portions import Portion
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.rules.customresourcedefinition import CUSTOM_RESOURCE_DEFINITIONS
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Change, Stored


class Definitions:
    """Custom kinds in a store. Made before anything is written to it; `load` takes in what is stored already."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._served: dict[str, tuple[Resource, ...]] = {}
        self._stored: dict[str, Resource] = {}
        self._cleaned: dict[str, Iterator[Stored]] = {}  # (by name: the objects that are still to be deleted)
        store.follow(self._follow)
        store.workers.append(self)

    def load(self) -> None:
        """Serves the kinds of all definitions that are stored."""
        for definition in self._all():
            self._serve(definition)
            if definition["metadata"].get("deletionTimestamp"):
                name = definition["metadata"]["name"]
                self._cleaned[name] = self._objects(name)

    def _follow(self, resource: Resource, change: Change) -> None:
        if resource.storage == CUSTOM_RESOURCE_DEFINITIONS.storage:
            self._follow_definition(change)
        elif change.new is None and resource.custom is not None and not len(self._store.table(resource)):
            definition = self._find(resource.custom.definition)
            if definition is not None and definition["metadata"].get("deletionTimestamp"):
                self._finish(definition, change.at)

    def _follow_definition(self, change: Change) -> None:
        if change.new is not None:
            self._settle(change.new.whole(), change.at)
            return
        assert change.old is not None
        self._remove(change.key.name)
        group = change.old.whole()["spec"]["group"]
        for other in self._all():
            if other["spec"]["group"] == group and not lifecycle.has_condition(other, "NamesAccepted"):
                self._settle(other, change.at)  # (a name may have become free)

    def _settle(self, definition: Json, now: float) -> None:
        """Writes the status that follows; that write leads here again, and then the kinds are served."""
        name, group = definition["metadata"]["name"], definition["spec"]["group"]
        others = [other for other in self._all() if other["spec"]["group"] == group and other["metadata"]["name"] != name]
        status = lifecycle.status_of(definition, others, now)
        if status != definition["status"]:
            self._write_status(name, status, now)
            return
        self._serve(definition)
        if definition["metadata"].get("deletionTimestamp") and name not in self._cleaned:
            self._cleaned[name] = self._objects(name)
            self._clean(name, now, Portion())

    # kinds

    def _serve(self, definition: Json) -> None:
        """Every version that is served is a kind. Objects are there even when none is."""
        name, new = definition["metadata"]["name"], resources_of(definition)
        paths = {resource.path for resource in new}
        self._store.withdraw([resource for resource in self._served.get(name, ()) if resource.path not in paths])
        self._stored[name] = stored_resource(definition)
        self._store.serve(new)
        self._store.ensure_table(self._stored[name])
        self._served[name] = new

    def _remove(self, name: str) -> None:
        self._cleaned.pop(name, None)
        self._store.withdraw(self._served.pop(name))
        self._store.drop_table(self._stored.pop(name).storage)

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
        table = self._store.table(self._stored[name])
        for key in [stored.key for stored in table.items()]:
            stored = table.get(key)
            if stored is not None:
                yield stored

    def _clean(self, name: str, now: float, portion: Portion) -> None:
        """Deletes objects; the last one takes the definition with it."""
        resource = self._stored[name]
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
        if len(self._store.table(self._stored[name])):
            status = lifecycle.emptying(definition["status"], now)
            if status != definition["status"]:
                self._write_status(name, status, now)
        elif lifecycle.CLEANUP in finalizers:
            kept = [finalizer for finalizer in finalizers if finalizer != lifecycle.CLEANUP]
            if kept:
                self._write_status(name, lifecycle.emptied(definition["status"], now), now)
            self._write_finalizers(name, kept, now)

    # definitions

    def _all(self) -> list[Json]:
        return [stored.whole() for stored in self._store.table(CUSTOM_RESOURCE_DEFINITIONS).items()]

    def _find(self, name: str) -> Json | None:
        stored = self._store.table(CUSTOM_RESOURCE_DEFINITIONS).get(Key("", name))
        return None if stored is None else stored.whole()

    def _write_status(self, name: str, status: Json, now: float) -> None:
        self._store.patch(CUSTOM_RESOURCE_DEFINITIONS, Key("", name), lambda obj: {**obj, "status": status}, now, subresource="status")

    def _write_finalizers(self, name: str, finalizers: list[str], now: float) -> None:
        def change(obj: Json) -> Json:
            return {**obj, "metadata": {**obj["metadata"], "finalizers": finalizers}}

        self._store.patch(CUSTOM_RESOURCE_DEFINITIONS, Key("", name), change, now)
