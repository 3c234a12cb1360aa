"""The kinds that a store serves: they come and go, and several may show the same objects."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from mooring.apiserver.resource import Resource

Path = tuple[str, str, str]
"""group, version, plural"""

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
    """Sorts versions as Kubernetes prefers them: v10, v2, v1, v2beta1, v1beta2, v1alpha1, then other names by the alphabet."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return 0, 0, 0, version
    return -_STABILITY[found[2]], -int(found[1]), -int(found[3] or 0), ""
