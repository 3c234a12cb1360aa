"""What admission may see of the other objects: read only, by the path of their kind, as whole dicts of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.api.meta import Key
from mooring.apiserver.resource import Json
from mooring.apiserver.table import Table


class StoreView:
    """A `resource.View` on the tables of a store. A kind that is not served has no objects."""

    def __init__(self, tables: Mapping[tuple[str, str, str], Table]) -> None:
        self._tables = tables

    def get(self, path: tuple[str, str, str], name: str, namespace: str = "") -> Json | None:
        table = self._tables.get(path)
        stored = table.get(Key(namespace, name)) if table is not None else None
        return None if stored is None else stored.whole()

    def all(self, path: tuple[str, str, str], namespace: str | None = None) -> Iterator[Json]:
        table = self._tables.get(path)
        if table is None:
            return
        for stored in table.items(namespace):
            yield stored.whole()
