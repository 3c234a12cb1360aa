"""Whether a pod's volumes can be used on a node, and which: kube-scheduler's VolumeBinding filter. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal

from mooring.api.binding import NO_PROVISIONER, request_of
from mooring.api.classes import class_of
from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.matching import fits_node, topology_matches
from mooring.api.meta import Key, key_of
from mooring.cluster.binder.match import best_match
from mooring.cluster.binder.scheduling import reasons as why
from mooring.cluster.binder.scheduling.claims import PodClaims
from mooring.cluster.binder.scheduling.storage_capacity import Promised, counts_room, has_room, promised
from mooring.cluster.binder.scheduling.view import View

ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeVerdict:
    """reasons: why not, () when it fits. static: volumes with the claims that they are for. provision: claims to be made volumes for."""

    reasons: tuple[str, ...] = ()
    static: tuple[tuple[str, Key], ...] = ()
    provision: tuple[Key, ...] = ()


class VolumeFilters:
    """One pod's claims against node after node."""

    def __init__(self, view: View, claims: PodClaims) -> None:
        self._view, self._claims = view, claims
        self._own = frozenset(key_of(claim) for claim in claims.delayed)
        self._promised: dict[str, Promised] = {}

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

    def _fits(self, node: Node, claim: PersistentVolumeClaim, chosen: list[tuple[str, Key]]) -> Callable[[PersistentVolume], bool]:
        key, planned = key_of(claim), self._view.plans.volume_of(key_of(claim))

        def fits(pv: PersistentVolume) -> bool:
            name = pv.metadata.name
            if planned and name != planned:
                return False
            taken = self._view.plans.claim_of(name) not in (None, key) or any(name == other for other, _ in chosen)
            return not taken and fits_node(pv, node.metadata.labels, node.metadata.name)

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
            elif counts_room(self._view, storage_class.provisioner):
                earlier = before.get(class_name, Decimal(0))
                if not has_room(self._view, class_name, node, size, earlier, self._taken(class_name)):
                    reasons.append(why.FULL)
                before[class_name] = earlier + size
        return reasons

    def _taken(self, class_name: str) -> Promised:
        if class_name not in self._promised:
            self._promised[class_name] = promised(self._view, class_name, self._own)
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
