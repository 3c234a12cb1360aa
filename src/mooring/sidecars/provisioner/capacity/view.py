"""The input of publishing: items, classes, places, and the existing objects.

An item is one amount for a place and a class. Items are known by value, so that each is queued once, however often it
is added.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from mooring.api.core import Node
from mooring.api.meta import Key, LabelSelector, OwnerReference
from mooring.api.storage import CSINode, CSIStorageCapacity, StorageClass
from mooring.kube.cache.informer import Change
from mooring.kube.cache.reader import Reader
from mooring.sidecars.provisioner.model.topology import Segment, segment_of


class Item(NamedTuple):
    """A class in a place, whose room is published."""

    class_name: str
    segment: Segment
    #: A selector that is no plain place, as text; then no item of ours can mean the same.
    selects: str = ""

    def __str__(self) -> str:
        place = self.selects or ", ".join(f"{key}={value}" for key, value in self.segment) or "all nodes"
        return f"{self.class_name} at {place}"


def item_of(capacity: CSIStorageCapacity) -> Item:
    """The item of an object."""
    topology = capacity.node_topology
    if topology is None:
        return Item(capacity.storage_class_name, (), "no node")
    if topology.match_expressions:
        return Item(capacity.storage_class_name, (), _shown(topology))
    return Item(capacity.storage_class_name, segment_of(topology.match_labels))


def _shown(selector: LabelSelector) -> str:
    return repr((sorted((selector.match_labels or {}).items()), selector.match_expressions))


def index_value(item: Item) -> str:
    """The item as text. No name, key or value has a zero in it."""
    return "\0".join((item.class_name, item.selects, *itertools.chain.from_iterable(item.segment)))


def counts(storage_class: StorageClass, driver_name: str, immediate_too: bool) -> bool:
    """True for classes whose capacity is published; the scheduler reads it only where it chooses the node before there
    is a volume.
    """
    late = storage_class.volume_binding_mode != "Immediate"
    return storage_class.provisioner == driver_name and (late or immediate_too)


BY_ITEM: Final = "capacity/item"

CAPACITY_INDEXES: Final[Mapping[str, Callable[[CSIStorageCapacity], Iterable[str]]]] = {
    BY_ITEM: lambda one: (index_value(item_of(one)),)
}


class Capacity(msgspec.Struct, frozen=True):
    """The driver's answer, as quantities."""

    capacity: str
    #: The largest volume, None where the driver gives none.
    maximum: str | None = None


class View(msgspec.Struct, frozen=True):
    """The caches and our newest writes, live."""

    driver_name: str
    classes: Reader[StorageClass]
    objects: Reader[CSIStorageCapacity]
    has_segment: Callable[[Segment], bool]
    immediate_too: bool = False
    #: The owner of the objects, None for no owner.
    owner: OwnerReference | None = None
    #: The capacity in our newest write, by item.
    written: dict[Item, Capacity] = msgspec.field(default_factory=dict)

    def wanted(self, item: Item) -> StorageClass | None:
        """The class of an item that is to be published, None for one that is not."""
        storage_class = self.classes.get(Key("", item.class_name))
        if storage_class is None or item.selects or not self.has_segment(item.segment):
            return None
        return storage_class if counts(storage_class, self.driver_name, self.immediate_too) else None

    def published(self, item: Item) -> tuple[CSIStorageCapacity, ...]:
        return self.objects.by(BY_ITEM, index_value(item))


class Segments:
    """changed: called with a place that has its first node, and with one that has lost its last."""

    def __init__(
        self, driver_name: str, csi_nodes: Reader[CSINode], nodes: Reader[Node], changed: Callable[[Segment], None]
    ) -> None:
        self._driver_name, self._csi_nodes, self._nodes, self._changed = driver_name, csi_nodes, nodes, changed
        self._place: dict[str, Segment] = {}
        self._nodes_in: Counter[Segment] = Counter()

    def all(self) -> Collection[Segment]:
        return self._nodes_in.keys()

    def node_changed(self, change: Change[Node] | Change[CSINode]) -> None:
        name = change.key.name
        before, after = self._place.get(name), self._place_of(name)
        if before == after:
            return
        if after is not None:
            self._place[name] = after
            self._nodes_in[after] += 1
            if self._nodes_in[after] == 1:
                self._changed(after)
        if before is not None:
            if after is None:
                del self._place[name]
            self._nodes_in[before] -= 1
            if not self._nodes_in[before]:
                del self._nodes_in[before]
                self._changed(before)

    def _place_of(self, name: str) -> Segment | None:
        """The node's segment; None if the node lacks the driver, or a label that the driver names."""
        csi_node, node = self._csi_nodes.get(Key("", name)), self._nodes.get(Key("", name))
        driver = next(
            (d for d in (csi_node.spec.drivers if csi_node else None) or () if d.name == self._driver_name), None
        )
        if driver is None or node is None:
            return None
        keys, labels = driver.topology_keys or (), node.metadata.labels or {}
        return segment_of({key: labels[key] for key in keys}) if all(key in labels for key in keys) else None
