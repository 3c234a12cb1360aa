"""Decides which objects are to exist, and when one is written. Pure."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.api.meta import OwnerReference
from mooring.api.quantity import parse_quantity
from mooring.api.storage import CSIStorageCapacity, StorageClass
from mooring.control.decision import Decision
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.capacity import reasons as why
from mooring.sidecars.provisioner.capacity.view import Capacity, Item, View
from mooring.sidecars.provisioner.model.volumes import bytes_text


class Remove(msgspec.Struct, frozen=True):
    obj: CSIStorageCapacity


class Create(msgspec.Struct, frozen=True):
    capacity: Capacity


class Update(msgspec.Struct, frozen=True):
    obj: CSIStorageCapacity
    capacity: Capacity


class Ask(msgspec.Struct, frozen=True):
    """Call GetCapacity, then decide what to write."""

    request: csi.GetCapacityRequest


Action: TypeAlias = Remove | Create | Update | Ask


def decide_item(view: View, item: Item) -> Decision[Action]:
    """The next step for one class at one place. If several objects say the same, the first stays."""
    storage_class = view.wanted(item)
    published = view.published(item)
    if storage_class is None:
        return Decision(why.Obsolete(), tuple(map(Remove, published)))
    return Decision(why.Asked(), (*map(Remove, published[1:]), Ask(capacity_request(item, storage_class))))


def decide_write(view: View, item: Item, capacity: Capacity) -> Decision[Action]:
    """The writes after the driver's answer."""
    published = view.published(item)
    if view.wanted(item) is None:  # since it was asked
        return Decision(why.Obsolete(), tuple(map(Remove, published)))
    if not published:
        return Decision(why.News(capacity.capacity), (Create(capacity),))
    obj = published[0]
    if matches(obj, capacity) and is_owned(obj, view.owner):
        return Decision(why.UpToDate())
    return Decision(why.News(capacity.capacity), (Update(obj, capacity),))


def is_news(view: View, item: Item) -> bool:
    """False when the objects of an item are as our newest write left them, or when there are none and shall be none."""
    written, published = view.written.get(item), view.published(item)
    if (
        written is not None
        and len(published) == 1
        and matches(published[0], written)
        and is_owned(published[0], view.owner)
    ):
        return False
    return bool(published) or view.wanted(item) is not None


def matches(obj: CSIStorageCapacity, capacity: Capacity) -> bool:
    """True when the object has these amounts, in whatever notation."""
    return _same(obj.capacity, capacity.capacity) and _same(obj.maximum_volume_size, capacity.maximum)


def is_owned(obj: CSIStorageCapacity, owner: OwnerReference | None) -> bool:
    """True when the owner is the one of its owners that controls it, or when there is to be none."""
    return owner is None or any(one.uid == owner.uid and one.controller for one in obj.metadata.owner_references or ())


def _same(left: str | None, right: str | None) -> bool:
    if left is None or right is None:
        return left is right
    return parse_quantity(left).value == parse_quantity(right).value


def capacity_request(item: Item, storage_class: StorageClass) -> csi.GetCapacityRequest:
    """The request, with an empty place for all nodes, as external-provisioner sends it."""
    place = csi.Topology(segments=dict(item.segment))
    return csi.GetCapacityRequest(parameters=storage_class.parameters or {}, accessible_topology=place)


def capacity_of(answer: csi.GetCapacityResponse) -> Capacity:
    """Less than nothing is nothing: the API server takes no negative amount."""
    maximum = bytes_text(max(0, answer.maximum_volume_size.value)) if answer.HasField("maximum_volume_size") else None
    return Capacity(bytes_text(max(0, answer.available_capacity)), maximum)
