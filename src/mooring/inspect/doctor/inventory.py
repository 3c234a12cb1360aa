"""All that was read for one look, and what could not be seen. Every check reads this, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from mooring.api.meta import Key, Kind, Object
from mooring.base.errors import ConfigError
from mooring.inspect.doctor.objects import WORKLOADS, Item, Workload
from mooring.inspect.scene import Unseen

T = TypeVar("T", bound=Object)


class Inventory:
    """now_s: seconds since 1970. of_files: these are the files of a release, so what is missing may be in the
    cluster.
    """

    def __init__(self, now_s: float, *, of_files: bool) -> None:
        self.now_s, self.of_files = now_s, of_files
        self.unseen: list[Unseen] = []
        self.unread: list[ConfigError] = []
        self._items: dict[str, dict[Key, Item[Any]]] = {}
        self._hidden: set[str] = set()

    def put(self, item: Item[Any]) -> None:
        self._items.setdefault(item.kind.resource, {})[Key(item.namespace, item.name)] = item

    def all(self, kind: Kind[T]) -> tuple[Item[T], ...]:
        return tuple(self._items.get(kind.resource, {}).values())

    def get(self, kind: Kind[T], name: str, namespace: str = "") -> Item[T] | None:
        return self._items.get(kind.resource, {}).get(Key(namespace, name))

    def workloads(self) -> tuple[Item[Workload], ...]:
        return tuple(item for kind in WORKLOADS for item in self.all(kind))

    def hide(self, kind: Kind[Any], why: str, what: str = "") -> None:
        """Notes that objects of a kind may be there, and could not be seen. what: one of them, or several kinds; all of
        this kind, without it. The same is noted once.
        """
        self._hidden.add(kind.resource)
        unseen = Unseen(what or kind.resource, why)
        if unseen not in self.unseen:
            self.unseen.append(unseen)

    def note(self, what: str, why: str) -> None:
        """Notes that something was left out which proves nothing about a kind."""
        self.unseen.append(Unseen(what, why))

    def sees(self, *kinds: Kind[Any]) -> bool:
        """True where a missing object is proof that it is missing."""
        return not self._hidden & {kind.resource for kind in kinds}

    def count(self) -> Mapping[str, int]:
        """Objects by kind."""
        return {next(iter(held.values())).kind.name: len(held) for held in self._items.values() if held}
