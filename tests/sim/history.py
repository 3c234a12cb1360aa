"""The past of the API server: each change by its version and time, and every kind as it was at any of them.

It serves a second API server that lags behind the first one, and a backup. A list of ours asks for the newest state
(resourceVersion ""), which no kube-apiserver answers with an old one; "0" may be answered with any. A watch may come
from a server that lags in either case.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.meta import Key
from mooring.apiserver.listing import scope_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, StoredChange
from mooring.kube.cluster import EventType, Page, Request, WatchEvent

Storage = tuple[str, str, str]
"""A kind, by where it is stored."""


class History:
    """now: the virtual time."""

    def __init__(self, store: ObjectStore, now: Callable[[], float]) -> None:
        self._store, self._now = store, now
        self._first = {
            resource.storage: {item.key: item for item in store.table(resource).items()} for resource in store.resources
        }
        self._begin = store.version
        self._changes: list[tuple[float, Storage, StoredChange]] = []
        store.on_change(lambda resource, change: self._changes.append((now(), resource.storage, change)))

    def version_at(self, at_s: float) -> int:
        """The newest version at that time."""
        index = bisect.bisect_right(self._changes, at_s, key=lambda entry: entry[0])
        return self._changes[index - 1][2].rv if index else self._begin

    def time_of(self, version: int) -> float:
        """The time of the change that made it, or of the last one before it; 0 for what was there from the
        beginning.
        """
        index = self._index_after(version)
        return self._changes[index - 1][0] if index else 0.0

    def objects_at(self, version: int) -> dict[Storage, dict[Key, Stored]]:
        """Everything as it was then."""
        objects = {storage: dict(items) for storage, items in self._first.items()}
        for _, storage, change in self._changes[: self._index_after(version)]:
            if change.new is None:
                objects.setdefault(storage, {}).pop(change.key, None)
            else:
                objects.setdefault(storage, {})[change.key] = change.new
        return objects

    def list_at(self, request: Request, version: int) -> Page[Any]:
        """The answer to a list as the server would have given it at that version, on one page."""
        resource = self._resource(request)
        selection = request.selection
        scope = scope_of(resource, selection.namespace, selection.label_selector, selection.field_selector)
        stored = sorted(self.objects_at(version).get(resource.storage, {}).items(), key=lambda item: item[0])
        found = tuple(_typed(request, item) for _, item in stored if scope.matches(item))
        return Page(found, str(version))

    def events_after(self, request: Request, version: int) -> list[WatchEvent[Any]]:
        """What a watch of the request's kind and selection would show from that version to now."""
        resource = self._resource(request)
        selection = request.selection
        scope = scope_of(resource, selection.namespace, selection.label_selector, selection.field_selector)
        events: list[WatchEvent[Any]] = []
        for _, storage, change in self._changes[self._index_after(version) :]:
            seen = change.seen_by(scope.matches) if storage == resource.storage else None
            if seen is not None:
                kind, stored = seen
                events.append(WatchEvent(EventType(kind), _typed(request, stored), str(change.rv)))
        return events

    def forget_after(self, version: int) -> None:
        """What came later has never been: the server was set back."""
        del self._changes[self._index_after(version) :]

    def _index_after(self, version: int) -> int:
        return bisect.bisect_right(self._changes, version, key=lambda entry: entry[2].rv)

    def _resource(self, request: Request) -> Resource:
        kind = request.kind
        found = self._store.resource(kind.group, kind.version, kind.plural)
        assert found is not None, "a kind that is served"
        return found


def _typed(request: Request, stored: Stored) -> Any:
    return msgspec.json.decode(stored.body, type=request.kind.struct)
