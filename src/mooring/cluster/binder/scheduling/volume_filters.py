"""Whether a pod's volumes can be used on a node, and which: kube-scheduler's VolumeBinding filter. Pure.

For volumes that are still to be made a node needs room: CSIStorageCapacity, less what is promised to others. Differs from kube-scheduler,
which looks at each claim alone and reserves nothing: two claims of one pod, or of two pods, can't both count on the same free space.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

import msgspec

from mooring.api.binding import NO_PROVISIONER, amount, request_of
from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.matching import fits_node, selects, topology_matches
from mooring.api.meta import Key, key_of
from mooring.api.storage import CSIStorageCapacity
from mooring.cluster.binder.match import best_match, was_made_for
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling.claims import PodClaims
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_CLASS, BY_OWN, BY_RESERVING

_Promised = Mapping[str, Decimal]
"""Bytes promised to claims without a volume, by node name."""

ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


class VolumeVerdict(msgspec.Struct, frozen=True):
    """reasons: why not, () when it fits. static: volumes with the claims that they are for. provision: claims to be made volumes for."""

    reasons: tuple[str, ...] = ()
    static: tuple[tuple[str, Key], ...] = ()
    provision: tuple[Key, ...] = ()


class VolumeFilters:
    """One pod's claims against node after node."""

    def __init__(self, view: View, claims: PodClaims) -> None:
        self._view, self._claims = view, claims
        self._own = frozenset(key_of(claim) for claim in claims.delayed)
        self._promised: dict[str, _Promised] = {}

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
        for _, pv in self._claims.bound:
            if pv is None:
                reasons.append(why.BOUND_TO_NOTHING)
            elif not fits_node(pv, node.metadata.labels, node.metadata.name):
                reasons.append(why.AFFINITY)
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
            is_anothers = any(was_made_for(one, pv) for one in self._view.claims.by(BY_OWN, name))
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
                if not _has_room(self._view, class_name, node, size, earlier, self._taken(class_name)):
                    reasons.append(why.FULL)
                before[class_name] = earlier + size
        return reasons

    def _taken(self, class_name: str) -> _Promised:
        if class_name not in self._promised:
            self._promised[class_name] = _promised(self._view, class_name, self._own)
        return self._promised[class_name]

    def _zone_reasons(self, node: Node) -> list[str]:
        """Volumes from before node affinity have their zone in labels."""
        labels = node.metadata.labels or {}
        if not any(name in labels for name in ZONE_LABELS):
            return []
        for _, pv in self._claims.bound:
            zones = (pv.metadata.labels or {}) if pv is not None else {}
            for name in ZONE_LABELS:
                if name in zones and labels.get(name) not in zones[name].split("__"):
                    return [why.ZONE]
        return []


def _counts_room(view: View, provisioner: str) -> bool:
    """True for drivers that publish their capacity."""
    driver = view.drivers.get(Key("", provisioner))
    return driver is not None and bool(driver.spec.storage_capacity)


def _promised(view: View, class_name: str, but: frozenset[Key]) -> _Promised:
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


def _has_room(view: View, class_name: str, node: Node, size: Decimal, before: Decimal, taken: _Promised) -> bool:
    """True when one capacity object takes a volume of this size. before: bytes for others of the same pod."""
    return any(_takes(view, one, node, size, before, taken) for one in view.capacities.by(BY_CLASS, class_name))


def _takes(view: View, one: CSIStorageCapacity, node: Node, size: Decimal, before: Decimal, taken: _Promised) -> bool:
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
