"""Batches of watch events, shared by watches of the same kind and scope."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

import msgspec

from mooring.apiserver.durability import Durability
from mooring.apiserver.listing import ListScope
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import History, Stored, StoredChange
from mooring.kube.cluster import EventType

_BATCH_MAX: Final = 256
"""Items in a batch."""
_BATCH_BYTES: Final = 128 * 1024
_STEPS_KEPT: Final = 4
_LOOKS: Final = 20_000
"""Steps of work to find out what a selector leaves of objects or changes, for one batch: some milliseconds."""


class WatchItem(msgspec.Struct, frozen=True):
    """One line of a watch. stored: None for a BOOKMARK. initial_end: the bookmark after everything that was there."""

    type: EventType
    version: int
    stored: Stored | None = None
    initial_end: bool = False


class Batch:
    """Items that belong together; none, where all that has been looked at was left out. version: where a watch stands
    after them.

    is_shared: with other watches. encoded: what readers have made of them, by form.
    """

    __slots__ = ("encoded", "is_shared", "items", "version")

    def __init__(self, version: int, items: tuple[WatchItem, ...], *, is_shared: bool = False) -> None:
        self.version, self.items, self.is_shared = version, items, is_shared
        self.encoded: dict[object, bytes] = {}


class WatchBuffer:
    """The events of one kind and scope. The latest batches are kept for the next watch that takes them."""

    def __init__(self, store: ObjectStore, durability: Durability, resource: Resource, scope: ListScope) -> None:
        self._store, self._durability = store, durability
        self._resource, self._scope = resource, scope
        self._history: History = store.table(resource).history
        self._latest: dict[int, Batch] = {}

    def has(self, version: int) -> bool:
        """False for a place that is forgotten, and at the end of a kind that has gone."""
        return version >= self._history.floor and (self._is_served() or bool(self._history.after(version, 1)))

    def _is_served(self) -> bool:
        """Takes the kind as it is now: a custom one may change. False when it has gone, or is another by now."""
        current = self._store.kinds.get(self._resource.path)
        if current is None or self._store.table(current).history is not self._history:
            return False
        self._resource = current
        return True

    def after(self, version: int) -> Batch | None:
        """The next changes; None when there are none that may be shown. version: one that it has."""
        batch = self._latest.get(version)
        if batch is not None:
            return batch
        count = max(1, min(_BATCH_MAX, _LOOKS // (2 * self._scope.steps)))
        changes = _until(self._durability.committed, self._history.after(version, count))
        if not changes:
            return None
        changes = changes[: _fitting([_size(change) for change in changes])]
        batch = self._latest[version] = Batch(
            changes[-1].rv, _items(changes, self._scope, self._resource), is_shared=True
        )
        if len(self._latest) > _STEPS_KEPT:
            del self._latest[next(iter(self._latest))]
        return batch


class Beginning:
    """The objects that existed when a watch began, batch by batch. found: all of them, selected or not."""

    def __init__(self, version: int, resource: Resource, scope: ListScope, found: Sequence[Stored]) -> None:
        self._version, self._resource, self._scope = version, resource, scope
        self._left = iter(found)
        self._next: Stored | None = next(self._left, None)

    def take(self) -> Batch | None:
        """None when it has been told."""
        if self._next is None:
            return None
        items, size, looks = list[WatchItem](), 0, _LOOKS
        while self._next is not None and looks > 0 and len(items) < _BATCH_MAX:
            looks -= self._scope.steps
            if self._scope.matches(self._next):
                shown = self._next.shown_by(self._resource)
                size += len(shown.body)
                if items and size > _BATCH_BYTES:
                    break
                items.append(WatchItem(EventType.ADDED, shown.rv, shown))
            self._next = next(self._left, None)
        return Batch(self._version, tuple(items))


def _fitting(sizes: Sequence[int]) -> int:
    """How many of the first fit into a batch by their bytes; at least one."""
    return max(1, sum(total <= _BATCH_BYTES for total in itertools.accumulate(sizes)))


def _size(change: StoredChange) -> int:
    stored = change.new or change.old
    assert stored is not None
    return len(stored.body)


def _until(committed: int, changes: list[StoredChange]) -> list[StoredChange]:
    """The changes that may be shown; of most lists, all."""
    while changes and changes[-1].rv > committed:
        changes.pop()
    return changes


def _items(changes: list[StoredChange], scope: ListScope, resource: Resource) -> tuple[WatchItem, ...]:
    observed = ((change.rv, change.seen_by(scope.matches)) for change in changes)
    return tuple(
        WatchItem(view[0], version, view[1].shown_by(resource)) for version, view in observed if view is not None
    )
