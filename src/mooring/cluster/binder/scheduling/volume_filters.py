"""Whether a pod's volumes can be used on a node, and which: kube-scheduler's VolumeBinding filter. Pure.

For volumes that are still to be made a node needs room, by its CSIStorageCapacity. Differs from kube-scheduler, which
looks at each claim alone: two claims of one pod can't both count on the same free space. Two pods can, as there: where
the room does not suffice the driver refuses, and the pod is tried elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal

import msgspec

from mooring.api.binding import NO_PROVISIONER, amount, claim_uid_in, request_of
from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.matching import fits_node, selects, topology_matches
from mooring.api.meta import Key, key_of
from mooring.api.storage import CSIStorageCapacity
from mooring.cluster.binder.match import best_match, was_made_for
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling import wake_topics
from mooring.cluster.binder.scheduling.claims import PodClaims
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_CLASS, BY_OWN
from mooring.control.topics import Topic

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ZONE_LABELS = {
    _ZONE: _ZONE,
    _REGION: _REGION,
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
"""The labels of zones, each with its present name: a node may have that alone."""


class VolumeVerdict(msgspec.Struct, frozen=True):
    """Whether a node suits the pod's volumes. reasons: why not, () when it does. static: volumes with the claims that
    they are for. provision: claims that need a new volume.
    """

    reasons: tuple[str, ...] = ()
    static: tuple[tuple[str, Key], ...] = ()
    provision: tuple[Key, ...] = ()


class VolumeFilters:
    """One pod's claims against node after node. heals: gets the topics that could end a reason, with the reason."""

    def __init__(self, view: View, claims: PodClaims, heals: set[Topic]) -> None:
        self._view, self._claims, self._heals = view, claims, heals
        self._room: dict[str, _Room] = {}

    def on(self, node: Node) -> VolumeVerdict:
        """The reasons why the volumes can't be used on this node, all together; or the volumes and claims to bind."""
        reasons = dict.fromkeys(self._bound_reasons(node))
        static: list[tuple[str, Key]] = []
        provision: list[PersistentVolumeClaim] = []
        for claim in sorted(self._claims.delayed, key=request_of):
            selected = self._view.selected_node(claim)
            pv = (
                best_match(self._view.volumes, claim, delayed=True, fits=self._fits(node, claim, static), on_node=True)
                if selected is None
                else None
            )
            if selected not in (None, node.metadata.name):
                reasons[why.CONFLICT] = None
            elif pv is not None:
                static.append((pv.metadata.name, key_of(claim)))
            else:
                provision.append(claim)
        reasons.update(dict.fromkeys(self._provision_reasons(node, provision)))
        if not reasons:
            reasons.update(dict.fromkeys(self._zone_reasons(node)))
        return VolumeVerdict(tuple(reasons), tuple(static), tuple(key_of(claim) for claim in provision))

    def _bound_reasons(self, node: Node) -> list[str]:
        reasons = []
        for claim, pv in self._claims.bound:
            if pv is None:
                reasons.append(why.BOUND_TO_NOTHING)
            elif not fits_node(pv, node.metadata.labels, node.metadata.name):
                reasons.append(why.AFFINITY)
            else:
                continue
            self._heals.add(wake_topics.volume(claim.spec.volume_name))
        return reasons

    def _fits(
        self, node: Node, claim: PersistentVolumeClaim, chosen: list[tuple[str, Key]]
    ) -> Callable[[PersistentVolume], bool]:
        key, planned = key_of(claim), self._view.plans.volume_of(key_of(claim))

        def fits(pv: PersistentVolume) -> bool:
            name = pv.metadata.name
            if planned and name != planned:
                return False
            taken = self._view.plans.claim_of(name) not in (None, key) or any(name == other for other, _ in chosen)
            is_anothers = any(was_made_for(one, pv) for one in self._view.claims.by(BY_OWN, claim_uid_in(name)))
            return not taken and not is_anothers and fits_node(pv, node.metadata.labels, node.metadata.name)

        return fits

    def _provision_reasons(self, node: Node, claims: list[PersistentVolumeClaim]) -> list[str]:
        reasons, before = [], dict[str, Decimal]()
        for claim in claims:
            class_name, size = class_of(claim), request_of(claim)
            storage_class = self._view.storage_class(class_name)
            assert storage_class is not None, "who has no class does not wait for a node"
            if storage_class.provisioner in ("", NO_PROVISIONER) or not topology_matches(
                storage_class.allowed_topologies, node.metadata.labels
            ):
                reasons.append(why.CONFLICT)
            elif _counts_room(self._view, storage_class.provisioner):
                earlier = before.get(class_name, Decimal(0))
                if not self._room_of(class_name).has(node, size, earlier):
                    reasons.append(why.FULL)
                    self._heals |= {wake_topics.room_of(class_name), wake_topics.driver(storage_class.provisioner)}
                before[class_name] = earlier + size
        for class_name in {class_of(claim) for claim in claims} if reasons else ():
            self._heals |= {wake_topics.volumes_of(class_name), wake_topics.storage_class(class_name)}
        return reasons

    def _room_of(self, class_name: str) -> _Room:
        if class_name not in self._room:
            self._room[class_name] = _Room(self._view.capacities.by(BY_CLASS, class_name))
        return self._room[class_name]

    def _zone_reasons(self, node: Node) -> list[str]:
        """The mismatch of a zone label: volumes from before node affinity have their zone in labels."""
        labels = node.metadata.labels or {}
        if not any(name in labels for name in ZONE_LABELS):
            return []
        for claim, pv in self._claims.bound:
            marks = (pv.metadata.labels or {}) if pv is not None else {}
            for name, present_name in ZONE_LABELS.items():
                zones = marks.get(name, "").split("__")
                if all(zones) and labels.get(name, labels.get(present_name)) not in zones:
                    self._heals.add(wake_topics.volume(claim.spec.volume_name))
                    return [why.ZONE]
        return []


def _counts_room(view: View, provisioner: str) -> bool:
    """True for drivers that publish their capacity."""
    driver = view.drivers.get(Key("", provisioner))
    return driver is not None and bool(driver.spec.storage_capacity)


class _Room:
    """The room for volumes of one class, by the capacity objects and the labels of nodes: the work is that for the
    objects and that for the nodes, not their product.
    """

    def __init__(self, objects: Iterable[CSIStorageCapacity]) -> None:
        #: Capacity objects by the keys of the node labels that they select, then by these labels' values.
        self._equal: dict[tuple[str, ...], dict[tuple[str, ...], list[CSIStorageCapacity]]] = {}
        #: Capacity objects that select by more than equal labels.
        self._others: list[CSIStorageCapacity] = []
        for one in objects:
            selector = one.node_topology
            if selector is None:
                continue
            if selector.match_expressions:
                self._others.append(one)
                continue
            labels = selector.match_labels or {}
            keys = tuple(sorted(labels))
            self._equal.setdefault(keys, {}).setdefault(tuple(labels[key] for key in keys), []).append(one)

    def has(self, node: Node, size: Decimal, earlier: Decimal) -> bool:
        """True when one object of the node's takes a volume of this size. earlier: bytes for others of the same pod."""
        return any(_takes(one, size, earlier) for one in self._of(node.metadata.labels or {}))

    def _of(self, labels: Mapping[str, str]) -> Iterator[CSIStorageCapacity]:
        for keys, found in self._equal.items():
            if all(key in labels for key in keys):
                yield from found.get(tuple(labels[key] for key in keys), ())
        yield from (one for one in self._others if one.node_topology and selects(one.node_topology, labels))


def _takes(one: CSIStorageCapacity, size: Decimal, earlier: Decimal) -> bool:
    limit = one.maximum_volume_size if one.maximum_volume_size is not None else one.capacity
    if limit is None or amount(limit) < size:
        return False
    return not earlier or one.capacity is None or earlier + size <= amount(one.capacity)
