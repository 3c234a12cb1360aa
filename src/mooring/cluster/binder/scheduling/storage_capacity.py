"""Whether a node has room for volumes that are still to be made: CSIStorageCapacity, less what is promised to others. Pure.

Differs from kube-scheduler, which looks at each claim alone and reserves nothing: two claims of one pod, or of two pods, can't both count
on the same free space.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from mooring.api.binding import amount, request_of
from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolumeClaim
from mooring.api.matching import selects
from mooring.api.meta import Key, key_of
from mooring.api.storage import CSIStorageCapacity
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_CLASS, BY_RESERVING

Promised = Mapping[str, Decimal]
"""Bytes promised to claims without a volume, by node name."""


def counts_room(view: View, provisioner: str) -> bool:
    """True for drivers that publish their capacity."""
    driver = view.drivers.get(Key("", provisioner))
    return driver is not None and bool(driver.spec.storage_capacity)


def promised(view: View, class_name: str, but: frozenset[Key]) -> Promised:
    """The bytes promised on each node to claims of a class. but: the claims that are being decided on, which don't block themselves."""
    sums: dict[str, Decimal] = {}
    for claim in _reserving(view, class_name):
        if key_of(claim) not in but:
            node_name = view.selected_node(claim) or ""
            sums[node_name] = sums.get(node_name, Decimal(0)) + request_of(claim)
    return sums


def _reserving(view: View, class_name: str) -> list[PersistentVolumeClaim]:
    found = {key_of(claim): claim for claim in view.claims.by(BY_RESERVING, class_name)}
    for key in view.plans.provisioning():
        claim = view.claims.get(key)
        if claim is not None and not claim.spec.volume_name and class_of(claim) == class_name:
            found[key] = claim
    return list(found.values())


def has_room(view: View, class_name: str, node: Node, size: Decimal, before: Decimal, taken: Promised) -> bool:
    """True when one capacity object takes a volume of this size. before: bytes for others of the same pod."""
    return any(_takes(view, one, node, size, before, taken) for one in view.capacities.by(BY_CLASS, class_name))


def _takes(view: View, one: CSIStorageCapacity, node: Node, size: Decimal, before: Decimal, taken: Promised) -> bool:
    limit = one.maximum_volume_size if one.maximum_volume_size is not None else one.capacity
    if limit is None or one.node_topology is None or not selects(one.node_topology, node.metadata.labels):
        return False
    if amount(limit) < size:
        return False
    others = before + sum((amount for name, amount in taken.items() if _is_of(view, one, name)), Decimal(0))
    return not others or one.capacity is None or others + size <= amount(one.capacity)


def _is_of(view: View, one: CSIStorageCapacity, node_name: str) -> bool:
    node = view.node(node_name)
    return node is not None and one.node_topology is not None and selects(one.node_topology, node.metadata.labels)
