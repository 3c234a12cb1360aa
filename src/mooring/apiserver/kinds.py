"""The kinds of a store and their tables: how they come and go, and what a file brings back. `store.py` reads and writes
them.

Several kinds may show the same objects: those are in one table.
"""

from __future__ import annotations

import bisect
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mooring.api.meta import Key
from mooring.apiserver.aside import Overtaken
from mooring.apiserver.resource import Json, Resource
from mooring.apiserver.table import HistoryLimits, Stored, StoredChange, StoreView, Table
from mooring.base.json_text import ANY_JSON

Path = tuple[str, str, str]
"""group, version, plural"""

NAMESPACES: Final[Path] = ("", "v1", "namespaces")

_Rank = tuple[tuple[int, int, int, str], int, Path]
"""Sorts kinds: by version, then by when they came."""

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY: Final = {"alpha": 1, "beta": 2, None: 3}


class Kinds:
    """Resources by path. served: all of them, a new tuple with each change, the preferred version of a group first."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.served: tuple[Resource, ...] = ()
        self._by_path: dict[Path, Resource] = {}
        self._stored: dict[Path, Resource] = {}
        self._order: list[_Rank] = []
        self._ranks: dict[Path, _Rank] = {}
        self._count = 0
        self._listeners: list[Callable[[], None]] = []
        self.put(resources)

    def get(self, path: Path) -> Resource | None:
        return self._by_path.get(path)

    def put(self, resources: Iterable[Resource]) -> None:
        """Serves them, in place of those with the same path."""
        self.replace((), resources)

    def remove(self, paths: Iterable[Path]) -> None:
        self.replace(paths, ())

    def replace(self, gone: Iterable[Path], new: Iterable[Resource]) -> None:
        """Serves the new ones in place of the others, in one change."""
        for path in gone:
            if self._by_path.pop(path, None) is not None:
                del self._order[bisect.bisect_left(self._order, self._ranks.pop(path))]
        for resource in new:
            if resource.path not in self._by_path:
                self._count += 1
                rank = self._ranks[resource.path] = (version_order(resource.version), self._count, resource.path)
                bisect.insort(self._order, rank)
            self._by_path[resource.path] = resource
        self.served = tuple([self._by_path[path] for _, _, path in self._order])
        for listener in self._listeners:
            listener()

    def add_table(self, resource: Resource) -> None:
        """Objects of the kind are stored, whether it is served or not."""
        self._stored[resource.storage] = resource

    def drop_table(self, storage: Path) -> None:
        """Nothing is stored there any more."""
        self._stored.pop(storage, None)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Calls listener each time that kinds have come or gone."""
        self._listeners.append(listener)

    def storing(self) -> Iterator[Resource]:
        """One kind for each place of stored objects, so that an iteration meets each object once."""
        seen: set[Path] = set()
        for resource in (*self.served, *self._stored.values()):
            if resource.storage not in seen and resource.answer is None:
                seen.add(resource.storage)
                yield resource


def version_order(version: str) -> tuple[int, int, int, str]:
    """Sorts versions as Kubernetes prefers them: v10, v2, v1, v2beta1, v1beta2, v1alpha1, then other names by the
    alphabet.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return 0, 0, 0, version
    return -_STABILITY[found[2]], -int(found[1]), -int(found[3] or 0), ""


class Tables:
    """Empty tables for kinds that are served from the start."""

    def __init__(self, resources: Iterable[Resource], limits: HistoryLimits) -> None:
        self.kinds: Final = Kinds(resources)
        self.version = 1
        """The newest resource version."""
        self._limits = limits
        self._tables = {resource.storage: Table(limits) for resource in self.resources}
        self._view = StoreView(self._tables)
        #: What all histories take. It may be too much after some were trimmed, and is counted anew before any shrinks.
        self._history_bytes = 0
        #: What goes by itself, by when it was written (epoch seconds), oldest first: kind, key, version.
        self._expiring: deque[tuple[float, Resource, Key, int]] = deque()

    @property
    def resources(self) -> tuple[Resource, ...]:
        return self.kinds.served

    @property
    def namespaces(self) -> Resource | None:
        """The kind of the namespaces; None in a store that has none."""
        return self.kinds.get(NAMESPACES)

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        """The kind of a URL or of a `Kind`; None if it is not served."""
        return self.kinds.get((group, version, plural))

    def table(self, resource: Resource) -> Table:
        """The kind's objects and history, for reading. They are in the stored shape: `Stored.shown_by` gives the kind's
        own.

        Raises Overtaken in a thread beside the loop, where the kind has gone since it was looked up.
        """
        table = self._tables.get(resource.storage)
        if table is None:
            raise Overtaken
        return table

    def serve(self, resources: Iterable[Resource], instead_of: Iterable[Resource] = ()) -> None:
        """Adds or replaces kinds; objects stored for them become visible again. instead_of: kinds that go in the same
        step.
        """
        new, gone = {resource.path: resource for resource in resources}, [resource.path for resource in instead_of]
        for resource in new.values():
            self.ensure_table(resource)
        self.kinds.replace([path for path in gone if path not in new], new.values())

    def ensure_table(self, resource: Resource) -> None:
        """Objects of the kind can be stored, whether it is served or not."""
        if resource.storage not in self._tables:
            self._tables[resource.storage] = Table(self._limits, floor=self.version)
        self.kinds.add_table(resource)

    def withdraw(self, resources: Iterable[Resource]) -> None:
        """These kinds are served no more: no route, no discovery, their watches end. Their objects stay where they
        are.
        """
        self.kinds.remove([resource.path for resource in resources])

    def drop_table(self, storage: tuple[str, str, str]) -> None:
        """Nothing is stored there any more; what comes later under the same path is new, and so is its history."""
        assert not any(resource.storage == storage for resource in self.resources), (
            "a kind that is served has a place for its objects"
        )
        assert not len(self._tables.get(storage, ())), "objects are never forgotten, they are deleted"
        self._tables.pop(storage, None)
        self.kinds.drop_table(storage)

    def _remember(self, resource: Resource, change: StoredChange) -> None:
        """Take the change into its table. If all histories take too much together, the largest lose their older halves:
        one client that writes to a hundred kinds gets no more memory than one that writes to two.
        """
        table = self.table(resource)
        before = table.history.bytes_count
        table.apply(change)
        self._history_bytes += table.history.bytes_count - before
        if self._history_bytes <= self._limits.sum_bytes_max:
            return
        histories, share = [each.history for each in self._tables.values()], self._limits.bytes_max
        while (taken := sum(history.bytes_count for history in histories)) > self._limits.sum_bytes_max:
            share //= 2
            for history in histories:
                history.shrink(share)
        self._history_bytes = taken

    # from a file

    def begin(self, version: int) -> None:
        """Makes an empty store go on where another ended. `load_object` brings the objects of earlier versions."""
        assert not any(len(table) for table in self._tables.values()), "a store begins once"
        self.version = version
        for table in self._tables.values():
            table.history.floor = version

    def load_object(
        self, resource: Resource, key: Key, rv: int, at: float, body: bytes | None, *, remembered: bool
    ) -> None:
        """An object as a file has kept it, None for its removal: no rules, no listeners. remembered: as a part of the
        history.
        """
        table = self._tables[resource.storage]
        new = None if body is None else stored_as(resource, ANY_JSON.decode(body), body)
        assert new is None or (new.key, new.rv) == (key, rv), "an object is what it says"
        if remembered:
            self._remember(resource, StoredChange(rv, table.get(key), new, at))
        elif new is not None:
            table.place(new)
        if new is not None and resource.ttl_s is not None:
            self._expiring.append((at, resource, key, rv))

    def finish_loading(self, version: int) -> None:
        """Everything has been taken in; the next write is the one after this version."""
        assert version >= self.version
        self.version = version
        self._expiring = deque(sorted(self._expiring, key=lambda written: written[0]))


def stored_as(resource: Resource, obj: Json, body: bytes | None = None) -> Stored:
    """The object as a table has it. body: its JSON, if it is known."""
    meta = obj["metadata"]
    return Stored(
        obj,
        {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", ""), **resource.fields(obj)},
        body,
    )
