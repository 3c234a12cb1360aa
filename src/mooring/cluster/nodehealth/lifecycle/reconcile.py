"""Carries out the decisions about a node, and about a pod of a node that is not ready; counts the nodes of zones."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import Node, ObjectReference, Taint, reference_to
from mooring.api.nodes import FALSE, READY, readiness
from mooring.api.pods import Pod
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.lifecycle.decide import Decision, Heard, heard_of_lease
from mooring.cluster.nodehealth.lifecycle.zones import Zones
from mooring.cluster.nodehealth.view import zone_of
from mooring.cluster.nodehealth.writes import Writes
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.errors import NotFound


class LifecycleMetrics:
    """Of each zone, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        zone = ["zone"]
        self._shown: set[str] = set()
        self.evictions = Counter(
            "node_collector_evictions_total", "Number of nodes that got a NoExecute taint since the start", zone, registry=registry
        )
        self._size = Gauge("node_collector_zone_size", "Number of registered Nodes per zone", zone, registry=registry)
        self._health = Gauge("node_collector_zone_health", "Percentage of healthy nodes per zone", zone, registry=registry)
        self._unwell = Gauge("node_collector_unhealthy_nodes_in_zone", "Nodes per zone that are not ready", zone, registry=registry)

    def show(self, zones: Zones) -> None:
        """The zones as they are counted now, and those that were: a zone without nodes is well."""
        self._shown.update(zones.names)
        for zone in self._shown:
            count = zones.count(zone)
            size = count.ready + count.unwell
            self._size.labels(zone).set(size)
            self._health.labels(zone).set(100 * count.ready / size if size else 100)
            self._unwell.labels(zone).set(count.unwell)


class Reconciler:
    """Raises ApiError, Stale."""

    def __init__(self, runtime: Runtime, writes: Writes, zones: Zones, events: EventRecorder) -> None:
        self._cluster, self._clock, self._writes, self._zones, self._events = runtime.cluster, runtime.clock, writes, zones, events
        self._metrics = runtime.metrics.once(LifecycleMetrics)

    async def node(self, node: Node, heard: Heard, decision: Decision) -> tuple[Result, Heard]:
        """What came of it, and what is known of the node's signs of life then."""
        if decision.conditions:
            return await self._turn_unknown(node, heard, decision)
        turn_s = self._turn_s(node, decision.evicting)
        added = (*decision.added, *((decision.evicting,) if decision.evicting is not None and turn_s <= 0 else ()))
        if added or decision.removed:
            await self._writes.edit_taints(node, added, decision.removed)
            if decision.evicting in added:
                self._metrics.evictions.labels(zone_of(node)).inc()
            done = f"changed taints: {', '.join((*(f'+{_shown(one)}' for one in added), *(f'-{_shown(one)}' for one in decision.removed)))}"
            return Result(decision.because, done=done, again=True), heard
        if decision.labels:
            await self._writes.set_labels(node, decision.labels)
            return Result(decision.because, done="set the beta labels", again=True), heard
        silent_s = math.inf if decision.silent_at is None else max(0.0, decision.silent_at - self._clock.now())
        after_s = min(silent_s, turn_s if decision.evicting is not None else math.inf)
        return Result(decision.because, after_s=None if after_s == math.inf else after_s), heard

    async def _turn_unknown(self, node: Node, heard: Heard, decision: Decision) -> tuple[Result, Heard]:
        """The cache may be behind, or cut off from the API server: the Lease is read first."""
        lease = await self._lease(node.metadata.name)
        if (now_heard := heard_of_lease(heard, lease, self._clock.now())) != heard:
            return Result(decision.because, again=True), now_heard
        await self._writes.set_conditions(node, decision.conditions)
        if decision.was_ready:
            self._events.event(_of_node(node), "Normal", "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady")
        return Result(decision.because, done="the conditions are Unknown now", again=True), heard

    async def _lease(self, node_name: str) -> Lease | None:
        try:
            return await self._cluster.get(LEASES, node_name, NODE_LEASE_NAMESPACE)
        except NotFound:
            return None

    def _turn_s(self, node: Node, evicting: Taint | None) -> float:
        """The seconds until the node may get its NoExecute taint; where that is now, it has taken its zone's turn."""
        if evicting is None:
            return 0.0
        now, zone = self._clock.now(), zone_of(node)
        wait_s = self._zones.wait_s(zone, now)
        if wait_s <= 0:
            self._zones.take(zone, now)
        return wait_s

    async def pod(self, pod: Pod, node: Node | None) -> Result:
        """Marks it as not ready, unless its kubelet has spoken meanwhile."""
        because = why.OnUnwellNode(pod.spec.node_name, readiness(node))
        status = {"conditions": [{"type": READY, "status": FALSE, "lastTransitionTime": self._writes.now}]}
        await self._writes.patch_pod(pod, status, strictly=True)
        self._events.event(reference_to(pod, "Pod"), "Warning", "NodeNotReady", "Node is not ready")
        return Result(because, done="marked as not ready")

    # -- coming and going

    def registered(self, node: Node) -> None:
        self._tell(node, "RegisteredNode", f"Registered Node {node.metadata.name} in Controller")

    def removed(self, node: Node) -> None:
        self._tell(node, "RemovingNode", f"Removing Node {node.metadata.name} from Controller")

    def _tell(self, node: Node, reason: str, text: str) -> None:
        self._events.event(_of_node(node), "Normal", reason, f"Node {node.metadata.name} event: {text}")


def _of_node(node: Node) -> ObjectReference:
    return ObjectReference("v1", "Node", "", node.metadata.name, node.metadata.uid)


def _shown(taint: Taint) -> str:
    return f"{taint.key}:{taint.effect}"
