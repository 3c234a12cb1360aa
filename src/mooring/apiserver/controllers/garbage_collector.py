"""Kubernetes' garbage collector: dependents follow their owners.

    an object whose owners are all gone            is deleted
    one that has an owner left                     loses its references to those that are gone
    an owner that is deleted in the foreground     waits until the dependents that block it are gone; they are
                                                   deleted meanwhile
    an owner that is deleted as `Orphan`           waits until its dependents have lost their references to it

Decisions need the objects alone: examining one twice gives the same result, and a new process examines every object
with references. References to kinds that are not served, and of cluster-wide objects to namespaced ones, decide
nothing: such an object stays as it is. Work is done in small portions, since requests wait meanwhile.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from mooring.api.meta import Key
from mooring.apiserver.controllers.owners import (
    NO_LINKS,
    Dependents,
    KindIndex,
    ObjectPlace,
    OwnerLinks,
    StoredOwner,
    links_of,
)
from mooring.apiserver.deletion import FOREGROUND, ORPHAN, DeleteOptions, says_who_follows
from mooring.apiserver.portions import Portion
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, StoredChange
from mooring.base.clock import rfc3339
from mooring.base.log import logger
from mooring.kube.errors import ApiError

_EVENTS: Final = ("", "v1", "events")
"""They may name owners, and don't follow them."""
_COMPONENT: Final = "garbage-collector-controller"
_LOOKED_FOR_MAX: Final = 10
"""For an object's owners that are missing in its namespace, in all others."""
_LOOKS_OF_A_STEP: Final = 200


def _lives_somewhere(store: ObjectStore, kind: Resource, owner: StoredOwner) -> bool:
    """True when the owner is there, in whatever namespace. kind: the one that the reference names."""
    if store.namespaces is None:
        return False
    table = store.table(kind)
    found = (table.get(Key(space.key.name, owner.name)) for space in store.table(store.namespaces).items())
    return any(stored is not None and stored.uid == owner.uid for stored in found)


def _write_event(store: ObjectStore, resource: Resource, stored: Stored, owner: StoredOwner, now: float) -> None:
    """Writes an event about the dependent, where its namespace still takes one."""
    events = store.kinds.get(_EVENTS)
    if events is None:
        return
    with contextlib.suppress(ApiError):
        store.create(events, _event(resource, stored, owner, now), stored.key.namespace or "default", now)


def _event(resource: Resource, stored: Stored, owner: StoredOwner, now: float) -> Json:
    namespace, moment = stored.key.namespace, rfc3339(now)
    named = f"[{owner.api_version}/{owner.kind}, namespace: {namespace}, name: {owner.name}, uid: {owner.uid}]"
    involved = {"kind": resource.kind, "apiVersion": resource.api_version, "name": stored.key.name, "uid": stored.uid}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{stored.key.name}."},
        "involvedObject": {**involved, **({"namespace": namespace} if namespace else {})},
        "reason": "OwnerRefInvalidNamespace",
        "message": f'ownerRef {named} does not exist in namespace "{namespace}"',
        "source": {"component": _COMPONENT},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "type": "Warning",
        "eventTime": None,
        "reportingComponent": _COMPONENT,
        "reportingInstance": "",
    }


_log = logger(__name__)


class Collector:
    """Follows a store from now on; what is there already is examined first."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._kinds = KindIndex(store.resources)
        self._dependents = Dependents()
        self._queue: deque[ObjectPlace] = deque()
        self._queued: set[ObjectPlace] = set()
        self._puzzling: set[ObjectPlace] = set()  # (they name a kind that is not served)
        self._waiting: dict[str, ObjectPlace] = {}  # (owners that are deleted in the foreground, by uid)
        self._relinked: set[ObjectPlace] = set()  # (their references are new: what is odd about them has not been told)
        store.follows_owners = True
        store.on_change(self._changed)
        store.kinds.on_change(self._kinds_changed)
        for resource in store.kinds.storing():
            for stored in store.table(resource).items():
                self._found(ObjectPlace(resource.storage, stored.key), stored, links_of(stored))

    @property
    def due(self) -> float | None:
        return 0.0 if self._queue else None

    def work(self, now: float, portion: Portion) -> None:
        while self._queue and not portion.is_spent:
            place = self._queue.popleft()
            self._queued.discard(place)
            try:
                self._examine(place, now, portion)
            except ApiError as error:
                _log.warning(
                    "An object could not be collected", error=error, kind=place.storage[2], object=str(place.key)
                )

    # what happens

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        if resource.storage == _EVENTS:
            return
        old, new = links_of(change.old), links_of(change.new)
        if old is new is NO_LINKS and change.new is not None:
            return
        place = ObjectPlace(resource.storage, change.key)
        if old.owners != new.owners:
            self._dependents.unlink(place, old.owners)
            self._dependents.link(place, new.owners)
            self._enqueue_waiting(old.owners)  # (it may block them no more)
            self._enqueue(place)
            self._relinked.add(place)
        stored = change.new or change.old
        assert stored is not None
        self._note_waiting(place, stored, change.new is not None and new.waits_for_dependents)
        if change.new is None:
            self._puzzling.discard(place)
            self._relinked.discard(place)
            self._dependents.owner_goes(stored.uid)
            self._enqueue_all(stored.uid)
        elif new.waits_for_dependents or new.waits_for_orphans:
            self._enqueue(place)
            if not old.waits_for_dependents:
                self._enqueue_all(stored.uid)

    def _found(self, place: ObjectPlace, stored: Stored, links: OwnerLinks) -> None:
        if place.storage != _EVENTS and (links.owners or links.is_deleting):
            self._dependents.link(place, links.owners)
            self._enqueue(place)
            self._note_waiting(place, stored, links.waits_for_dependents)
            if links.owners:
                self._relinked.add(place)

    def _kinds_changed(self) -> None:
        self._kinds = KindIndex(self._store.resources)
        for place in self._puzzling:
            self._enqueue(place)
        self._puzzling.clear()

    def _enqueue(self, place: ObjectPlace) -> None:
        if place not in self._queued:
            self._queued.add(place)
            self._queue.append(place)

    def _enqueue_all(self, uid: str) -> None:
        for place in self._dependents.of(uid):
            self._enqueue(place)

    def _note_waiting(self, place: ObjectPlace, stored: Stored, waits: bool) -> None:
        if waits:
            self._waiting[stored.uid] = place
        else:
            self._waiting.pop(stored.uid, None)

    def _enqueue_waiting(self, owners: tuple[StoredOwner, ...]) -> None:
        """By their uids, as their dependents are counted: wherever a reference leads, whoever waits for it looks
        again.
        """
        for owner in owners:
            if owner.uid in self._waiting:
                self._enqueue(self._waiting[owner.uid])

    # what follows from it

    def _examine(self, place: ObjectPlace, now: float, portion: Portion) -> None:
        resource = self._kinds.at(place.storage)
        stored = None if resource is None else self._store.table(resource).get(place.key)
        portion.spend(stored)
        if resource is None or stored is None:
            return
        links = links_of(stored)
        if links.waits_for_orphans:
            self._orphan_dependents(resource, stored, now, portion)
        elif links.waits_for_dependents:
            if not self._dependents.any_blocking(stored.uid):
                self._store.patch(resource, stored.key, lambda obj: _without_finalizer(obj, FOREGROUND), now)
        elif not links.is_deleting and links.owners:
            self._judge(resource, stored, links, now, portion)

    def _orphan_dependents(self, resource: Resource, stored: Stored, now: float, portion: Portion) -> None:
        """Some at a time."""
        uid = stored.uid
        for number, (dependent, key) in enumerate(list(islice(self._served(uid), portion.size))):
            if number and portion.is_spent:
                break
            portion.spend(self._store.table(dependent).get(key))
            self._store.patch(dependent, key, lambda obj: _without_owners(obj, {uid}), now)
        if any(self._served(uid)):
            self._enqueue(ObjectPlace(resource.storage, stored.key))
        else:
            self._store.patch(resource, stored.key, lambda obj: _without_finalizer(obj, ORPHAN), now)

    def _served(self, uid: str) -> Iterator[tuple[Resource, Key]]:
        """The dependents that can be written to."""
        for place in self._dependents.of(uid):
            resource = self._kinds.at(place.storage)
            if resource is not None:
                yield resource, place.key

    def _judge(self, resource: Resource, stored: Stored, links: OwnerLinks, now: float, portion: Portion) -> None:
        """Whether an object that has owners stays."""
        place, namespace = ObjectPlace(resource.storage, stored.key), stored.key.namespace
        if any(self._kinds.of(owner) is None and not self._dependents.has_lost(owner.uid) for owner in links.owners):
            self._puzzling.add(place)
            return
        owners = {owner.uid: self._owner(owner, namespace) for owner in links.owners}
        if place in self._relinked:
            self._relinked.discard(place)
            self._warn(resource, stored, [owner for owner in links.owners if owners[owner.uid] is None], now, portion)
        if not resource.namespaced and any(self._is_namespaced(owner) for owner in links.owners):
            return
        gone = {uid for uid, owner in owners.items() if owner is None}
        waiting = {
            uid for uid, owner in owners.items() if owner is not None and links_of(owner[1]).waits_for_dependents
        }
        if len(gone) + len(waiting) < len(owners):
            if gone or waiting:
                self._store.patch(resource, stored.key, lambda obj: _without_owners(obj, gone | waiting), now)
        elif waiting and self._dependents.any(stored.uid):
            self._pass_on(resource, stored, now)
        else:
            policy = "" if says_who_follows(links.finalizers) else "Background"  # (whatever its kind's default is)
            self._store.delete(resource, stored.key, now, DeleteOptions(uid=stored.uid, propagation=policy))

    def _pass_on(self, resource: Resource, stored: Stored, now: float) -> None:
        """The object's owners wait for it, and it has dependents of its own: it waits for these."""
        if any(self._waits_for_dependents(place) for place in self._dependents.of(stored.uid)):
            self._store.patch(resource, stored.key, _unblocking, now)  # (they may wait for each other in a ring)
        self._store.delete(resource, stored.key, now, DeleteOptions(uid=stored.uid, propagation="Foreground"))

    # their parts

    def _owner(self, owner: StoredOwner, namespace: str) -> tuple[Resource, Stored] | None:
        """The object that a reference means; None when there is none of its kind, name and uid."""
        resource = self._kinds.of(owner)
        if resource is None:
            return None
        stored = self._store.table(resource).get(Key(namespace if resource.namespaced else "", owner.name))
        return (resource, stored) if stored is not None and stored.uid == owner.uid else None

    def _is_namespaced(self, owner: StoredOwner) -> bool:
        resource = self._kinds.of(owner)
        return resource is not None and resource.namespaced

    def _warn(
        self, resource: Resource, stored: Stored, missing: list[StoredOwner], now: float, portion: Portion
    ) -> None:
        """Logs references that no object can answer to: their owners live in another namespace. The first few are
        looked for.
        """
        spaces = self._store.namespaces
        for owner in missing[:_LOOKED_FOR_MAX]:
            kind = self._kinds.of(owner)
            portion.spend(steps=1 + (0 if spaces is None else len(self._store.table(spaces)) // _LOOKS_OF_A_STEP))
            if kind is not None and kind.namespaced and _lives_somewhere(self._store, kind, owner):
                _write_event(self._store, resource, stored, owner, now)

    def _waits_for_dependents(self, place: ObjectPlace) -> bool:
        resource = self._kinds.at(place.storage)
        return resource is not None and links_of(self._store.table(resource).get(place.key)).waits_for_dependents


def _without_owners(obj: Json, uids: set[str]) -> Json:
    kept = [owner for owner in obj["metadata"].get("ownerReferences") or [] if owner["uid"] not in uids]
    return _with(obj, "ownerReferences", kept)


def _without_finalizer(obj: Json, finalizer: str) -> Json:
    return _with(obj, "finalizers", [name for name in obj["metadata"].get("finalizers") or [] if name != finalizer])


def _unblocking(obj: Json) -> Json:
    owners = obj["metadata"].get("ownerReferences") or []
    return _with(obj, "ownerReferences", [{**owner, "blockOwnerDeletion": False} for owner in owners])


def _with(obj: Json, field: str, values: list[Any]) -> Json:
    """Empty lists are not kept."""
    obj["metadata"].pop(field, None)
    if values:
        obj["metadata"][field] = values
    return obj
