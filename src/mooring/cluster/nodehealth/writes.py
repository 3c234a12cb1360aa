"""The caches of node health with the writers of their objects, and the patches to Nodes and Pods.

The answers about Nodes enter the cache at once. Those about Pods do not: a pod in its grace period would be taken for gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import NODES, Node, Taint
from mooring.api.pods import PODS, Pod
from mooring.base.clock import Instant
from mooring.cluster.nodehealth.view import LEASE, NODE, POD, POD_INDEXES, View
from mooring.control.caches import Caches
from mooring.control.decision import Decision, Failed
from mooring.control.object_writer import ObjectWriter
from mooring.control.result import Stale
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Patch, Selection
from mooring.kube.patch import Operation, add, json_patch, remove, strategic_patch, test

FAILED: Final = "Failed"
LOOKED_S: Final = 1.0
_TAINTS: Final = "/spec/taints"


class HealthCaches:
    """Nodes, their Leases, and Pods; and who writes to them."""

    def __init__(self, runtime: Runtime, shared: Caches) -> None:
        self.nodes: Informer[Node] = shared.of(NODES, keeps=always(NODE))
        self.leases: Informer[Lease] = shared.of(
            LEASES, keeps=always(LEASE), selection=Selection(namespace=NODE_LEASE_NAMESPACE)
        )
        self.pods: Informer[Pod] = shared.of(PODS, keeps=always(POD), indexes=POD_INDEXES)
        self.view = View(self.nodes.store, self.leases.store, self.pods.store)
        self.node_writer = ObjectWriter(runtime.cluster, NODES, self.nodes)
        self.pod_writer = ObjectWriter(runtime.cluster, PODS, self.pods, keeps_answers=False)
        self._clock = runtime.clock
        self._looked_at: dict[str, Instant] = {}  # by node, for LOOKED_S

    async def check_taints(self, node: Node) -> None:
        """Raises Stale where the Node has other taints: the watch may be long behind. Asks once a second for each node. Raises Failed."""
        name, now = node.metadata.name, self._clock.now()
        self._looked_at = {one: at for one, at in self._looked_at.items() if now - at < LOOKED_S}
        if name in self._looked_at:
            return
        found = await self.node_writer.look(node)
        self._looked_at[name] = now
        if (node.spec.taints or ()) != (found.spec.taints or ()):
            raise Stale(f"the taints of {name} are others by now")


async def tell_nobody(key: object, decision: Decision[Any], failure: Failed) -> None:
    """A write of node health that fails is logged, and no user hears of it; nor does one of kube-controller-manager's."""


# -- nodes


def conditions_patch(node: Node, conditions: Iterable[Mapping[str, Any]], now: str) -> Patch:
    """A condition that has changed gets the time of now, by the clock of the wall."""
    return strategic_patch(
        {"status": {"conditions": [{"lastTransitionTime": now, **one} for one in conditions]}}, of=node
    )


def taints_patch(node: Node, added: Iterable[Taint], removed: Iterable[Taint], now: str) -> Patch:
    """Others' taints stay as they are, and may have changed meanwhile."""
    return json_patch([*_removals(node, removed), *_additions(node, added, now)], of=node)


def _removals(node: Node, removed: Iterable[Taint]) -> Iterator[Operation]:
    """From the end of the list to its beginning, so that places stay right."""
    gone = {(taint.key, taint.effect) for taint in removed}
    for place, taint in reversed(list(enumerate(node.spec.taints or ()))):
        if (taint.key, taint.effect) in gone:
            yield test(f"{_TAINTS}/{place}/key", taint.key)
            yield test(f"{_TAINTS}/{place}/effect", taint.effect)
            yield remove(f"{_TAINTS}/{place}")


def _additions(node: Node, added: Iterable[Taint], now: str) -> Iterator[Operation]:
    new = [{"key": taint.key, "effect": taint.effect, "timeAdded": now} for taint in added]
    if new and not node.spec.taints:
        yield test(_TAINTS, None)
        yield add(_TAINTS, new)
        return
    for taint in new:
        yield add(f"{_TAINTS}/-", taint)


# -- pods


def pod_patch(pod: Pod, status: Mapping[str, Any]) -> Patch:
    """status: its conditions join those that are there."""
    return strategic_patch({"status": status}, of=pod)
