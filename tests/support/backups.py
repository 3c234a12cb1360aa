"""An embedded API server's store that is set back, as etcd is from a backup."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, Table


def put_back(store: ObjectStore, resource: Resource, objects: Iterable[Stored], version: int) -> None:
    """The objects of this resource are these, and its history begins with version. The store's own version stays."""
    table = Table(store._limits, floor=version)
    for one in objects:
        table.place(one)
    store._tables[resource.storage] = table
