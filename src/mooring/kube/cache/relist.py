"""A list on its way into a store, page by page; what it lacks is gone once it has ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from mooring.api.meta import Key, Object
from mooring.kube.cache.store import Change, Store
from mooring.kube.cluster import UnreadItem, compare_versions

T = TypeVar("T", bound=Object)


class Relist(Generic[T]):
    """A list on its way into the store, page by page, so that the loop breathes between pages and memory holds one at a
    time.

    Make it before the list is asked for.
    """

    def __init__(self, store: Store[T]) -> None:
        self._store = store
        self._number = store.list_begins()
        self._known = store.known()
        self._is_alone = store._is_set_back
        self._listed: set[str] = set()

    def rewound(self, version: str) -> bool:
        """True when the list at this version comes from before what the store knew to have happened when the list was
        asked for.

        True as well for a list before which the server is known to have been set back, even if it has come as far
        again.
        """
        return self._is_alone or compare_versions(version, self._known) < 0

    def page(self, objects: Iterable[T], version: str) -> list[Change[T]]:
        """version: of the list, the same on each page."""
        changes: list[Change[T]] = []
        rewound = self.rewound(version)
        self._store._note_ahead(version)
        if rewound:
            self._store._tombstones.clear()
        for obj in objects:
            self._store._exhume(obj.metadata.uid, self._number)
            place, found = self._store._listed(obj, rewound=rewound)
            self._listed.add(place)
            changes += found
        return changes

    def keep(self, unread: Iterable[UnreadItem]) -> None:
        """Objects of the list that can't be read stay as they are known: they are not gone."""
        for one in unread:
            stored = self._store.get(key := Key(one.namespace, one.name))
            if stored is not None and stored.metadata.uid == one.uid:
                self._listed.add(str(key))

    def end(self, version: str) -> list[Change[T]]:
        """All pages are in: takes out what the list lacks."""
        store = self._store
        assert store._lists_begun == self._number, "a newer list has begun"
        rewound = self.rewound(version)
        missing = [
            obj
            for place, obj in store._objects.items()
            if place not in self._listed and (rewound or compare_versions(version, obj.metadata.resource_version) >= 0)
        ]
        changes = [store._lacked(obj) for obj in missing]
        if rewound:
            store._ahead = ""
            store._lists_alone += 1
            store._is_set_back = False
        store._tombstones = {uid: lists for uid, lists in store._tombstones.items() if lists >= self._number}
        store.version = version
        return changes
