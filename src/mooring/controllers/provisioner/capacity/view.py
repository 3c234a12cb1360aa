"""The input of publishing: classes, places, and the existing objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.meta import Key, OwnerReference
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.controllers.provisioner.capacity.items import Item, Segment, counts, index_value, item_of
from mooring.controllers.provisioner.capacity.requests import Capacity
from mooring.kube.cache.reader import Reader

BY_ITEM: Final = "item"

CAPACITY_INDEXES: Final[Mapping[str, Callable[[CSIStorageCapacity], Iterable[str]]]] = {BY_ITEM: lambda one: (index_value(item_of(one)),)}


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches and our newest writes, live. owner: of the objects, None for no owner. written: by item, in the newest write of ours."""

    driver_name: str
    classes: Reader[StorageClass]
    objects: Reader[CSIStorageCapacity]
    has_segment: Callable[[Segment], bool]
    immediate_too: bool = False
    owner: OwnerReference | None = None
    written: Mapping[Item, Capacity] = dataclasses.field(default_factory=dict)

    def wanted(self, item: Item) -> StorageClass | None:
        """The class of an item that is to be published, None for one that is not."""
        storage_class = self.classes.get(Key("", item.class_name))
        if storage_class is None or item.selects or not self.has_segment(item.segment):
            return None
        return storage_class if counts(storage_class, self.driver_name, self.immediate_too) else None

    def published(self, item: Item) -> tuple[CSIStorageCapacity, ...]:
        return self.objects.by(BY_ITEM, index_value(item))
