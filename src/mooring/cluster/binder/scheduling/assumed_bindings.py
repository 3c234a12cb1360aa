"""Decisions for pods that the API does not show yet: node, volumes, claims to be provisioned. Other decisions count on
them at once.
"""

from __future__ import annotations

from collections.abc import Set

import msgspec

from mooring.api.meta import Key
from mooring.base.clock import Instant


class AssumedBinding(msgspec.Struct):
    """One pod's plan. static: volumes with the claims that they are for. provision: claims that need a new volume.

    claims: all that the pod names. written: the choice of volumes is stored. bound: the pod has its node, which only
    the watch does not show yet.
    """

    pod: Key
    uid: str
    node_name: str
    static: tuple[tuple[str, Key], ...] = ()
    provision: tuple[Key, ...] = ()
    claims: tuple[Key, ...] = ()
    deadline: Instant = 0.0
    written: bool = False
    bound: bool = False


class AssumedBindings:
    """All plans, by pod, node, volume and claim."""

    def __init__(self) -> None:
        self._plans: dict[Key, AssumedBinding] = {}
        self._on_node: dict[str, dict[Key, None]] = {}
        self._volume_of: dict[Key, tuple[str, Key]] = {}
        self._claim_of: dict[str, Key] = {}
        self._node_of: dict[Key, tuple[str, Key]] = {}
        self._refused: dict[str, set[str]] = {}

    def refused(self, uid: str) -> Set[str]:
        """The nodes for which the pod's volumes could not be had, or bound."""
        return self._refused.get(uid, frozenset())

    def refuse(self, plan: AssumedBinding) -> None:
        """Note that the pod is to be tried on other nodes first."""
        self._refused.setdefault(plan.uid, set()).add(plan.node_name)

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone, or has its node."""
        self._refused.pop(uid, None)

    def get(self, pod: Key) -> AssumedBinding | None:
        return self._plans.get(pod)

    def on_node(self, node_name: str) -> tuple[Key, ...]:
        """The pods that are planned on the node."""
        return tuple(self._on_node.get(node_name, ()))

    def volume_of(self, claim: Key) -> str:
        """The volume that is to be bound to the claim, "" for none."""
        return self._volume_of.get(claim, ("", claim))[0]

    def claim_of(self, pv_name: str) -> Key | None:
        return self._claim_of.get(pv_name)

    def node_of(self, claim: Key) -> str:
        """The node near which the claim's volume is to be made, "" for none."""
        return self._node_of.get(claim, ("", claim))[0]

    def provisioning(self) -> tuple[Key, ...]:
        """The claims that a volume is to be made for."""
        return tuple(self._node_of)

    def add(self, plan: AssumedBinding) -> None:
        assert plan.pod not in self._plans, "one plan a pod"
        self._plans[plan.pod] = plan
        self._on_node.setdefault(plan.node_name, {})[plan.pod] = None
        for pv_name, claim in plan.static:  # a second pod of the same claim plans the same
            self._volume_of.setdefault(claim, (pv_name, plan.pod))
            self._claim_of.setdefault(pv_name, claim)
        for claim in plan.provision:
            self._node_of.setdefault(claim, (plan.node_name, plan.pod))

    def drop(self, pod: Key) -> AssumedBinding | None:
        plan = self._plans.pop(pod, None)
        if plan is None:
            return None
        on_node = self._on_node[plan.node_name]
        del on_node[pod]
        if not on_node:
            del self._on_node[plan.node_name]
        for pv_name, claim in plan.static:
            if self._volume_of.get(claim) == (pv_name, pod):
                del self._volume_of[claim]
                self._claim_of.pop(pv_name, None)
        for claim in plan.provision:
            if self._node_of.get(claim) == (plan.node_name, pod):
                del self._node_of[claim]
        return plan
