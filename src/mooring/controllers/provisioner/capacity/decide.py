"""Which objects there are to be, and when one is written. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final

from mooring.api.meta import Key, OwnerReference
from mooring.api.quantity import Quantity, parse_quantity
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.controllers.provisioner.capacity import reasons as why
from mooring.controllers.provisioner.capacity.items import Item, Segment, counts, index_value, item_of
from mooring.controllers.provisioner.claims.view import Reader
from mooring.csi.proto import csi_pb2 as csi

BY_ITEM: Final = "item"

CAPACITY_INDEXES: Final[Mapping[str, Callable[[CSIStorageCapacity], Iterable[str]]]] = {BY_ITEM: lambda one: (index_value(item_of(one)),)}


@dataclasses.dataclass(frozen=True, slots=True)
class Room:
    """What the driver answered, as quantities. maximum: of one volume, None where the driver does not say."""

    capacity: str
    maximum: str | None = None


def room_of(answer: csi.GetCapacityResponse) -> Room:
    """Less than nothing is nothing: the API server takes no negative amount."""
    maximum = _text(answer.maximum_volume_size.value) if answer.HasField("maximum_volume_size") else None
    return Room(_text(answer.available_capacity), maximum)


def _text(size: int) -> str:
    return str(Quantity(Decimal(max(0, size)), "binary"))


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The world as it is for capacity, live. owner: of the objects, None for no owner."""

    driver_name: str
    classes: Reader[StorageClass]
    objects: Reader[CSIStorageCapacity]
    has_segment: Callable[[Segment], bool]
    immediate_too: bool = False
    owner: OwnerReference | None = None

    def wanted(self, item: Item) -> StorageClass | None:
        """The class of an item that is to be published, None for one that is not."""
        storage_class = self.classes.get(Key("", item.class_name))
        if storage_class is None or item.selects or not self.has_segment(item.segment):
            return None
        return storage_class if counts(storage_class, self.driver_name, self.immediate_too) else None

    def published(self, item: Item) -> tuple[CSIStorageCapacity, ...]:
        return self.objects.by(BY_ITEM, index_value(item))


# -- actions


@dataclasses.dataclass(frozen=True, slots=True)
class Remove:
    obj: CSIStorageCapacity


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Call GetCapacity, and then decide what to write."""

    request: csi.GetCapacityRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Create:
    item: Item
    room: Room


@dataclasses.dataclass(frozen=True, slots=True)
class Update:
    obj: CSIStorageCapacity
    room: Room


Action = Remove | Ask | Create | Update


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    because: why.Because
    actions: tuple[Action, ...] = ()


def decide_item(view: View, item: Item) -> Decision:
    """The next step for one class at one place. Of several objects that say the same the first stays."""
    storage_class = view.wanted(item)
    published = view.published(item)
    if storage_class is None:
        return Decision(why.Obsolete(), tuple(Remove(obj) for obj in published))
    place = csi.Topology(segments=dict(item.segment))  # an empty one for all nodes, as external-provisioner sends it
    request = csi.GetCapacityRequest(parameters=storage_class.parameters or {}, accessible_topology=place)
    return Decision(why.Asked(), (*(Remove(obj) for obj in published[1:]), Ask(request)))


def decide_write(view: View, item: Item, room: Room) -> Decision:
    """What the driver's answer leads to."""
    if view.wanted(item) is None:  # since it was asked
        return Decision(why.Obsolete(), tuple(Remove(obj) for obj in view.published(item)))
    published = view.published(item)
    if not published:
        return Decision(why.News(room.capacity), (Create(item, room),))
    obj = published[0]
    if says(obj, room) and is_owned(obj, view.owner):
        return Decision(why.UpToDate())
    return Decision(why.News(room.capacity), (Update(obj, room),))


def says(obj: CSIStorageCapacity, room: Room) -> bool:
    """True when that is what the object says, however it is written."""
    return _same(obj.capacity, room.capacity) and _same(obj.maximum_volume_size, room.maximum)


def is_owned(obj: CSIStorageCapacity, owner: OwnerReference | None) -> bool:
    """True when the owner is the one of its owners that controls it, or when there is to be none."""
    return owner is None or any(one.uid == owner.uid and one.controller for one in obj.metadata.owner_references or ())


def _same(left: str | None, right: str | None) -> bool:
    if left is None or right is None:
        return left is right
    return parse_quantity(left).value == parse_quantity(right).value
