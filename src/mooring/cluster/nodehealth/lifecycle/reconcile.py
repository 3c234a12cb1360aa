"""Carries out the decisions about a node, and about a pod of a node that is not ready; counts the nodes of zones."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import Node, ObjectReference, reference_to
from mooring.api.meta import Key
from mooring.api.nodes import FALSE, READY
from mooring.base.clock import rfc3339
from mooring.cluster.nodehealth.lifecycle.decide import (
    Action,
    ChangeTaints,
    LastHeartbeat,
    MarkUnready,
    SetLabels,
    TurnUnknown,
    heartbeat_of_lease,
)
from mooring.cluster.nodehealth.lifecycle.zones import Zones
from mooring.cluster.nodehealth.view import zone_of
from mooring.cluster.nodehealth.writes import HealthCaches, conditions_patch, pod_patch, taints_patch
from mooring.control.decision import Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.errors import NotFound
from mooring.kube.patch import merge_patch


class LifecycleMetrics:
    """The metrics of each zone, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        zone = ["zone"]
        self._shown: set[str] = set()
        self.evictions = Counter(
            "node_collector_evictions_total",
            "Number of nodes that got a NoExecute taint since the start",
            zone,
            registry=registry,
        )
        self._size = Gauge("node_collector_zone_size", "Number of registered Nodes per zone", zone, registry=registry)
        self._health = Gauge(
            "node_collector_zone_health", "Percentage of healthy nodes per zone", zone, registry=registry
        )
        self._unwell = Gauge(
            "node_collector_unhealthy_nodes_in_zone", "Nodes per zone that are not ready", zone, registry=registry
        )

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
    """last: of each node, by this process; what a Lease says before a node turns unknown is noted there."""

    def __init__(
        self,
        runtime: Runtime,
        caches: HealthCaches,
        zones: Zones,
        last: dict[str, LastHeartbeat],
        events: EventRecorder,
    ) -> None:
        self._cluster, self._clock = runtime.cluster, runtime.clock
        self._nodes, self._pods = caches.node_writer, caches.pod_writer
        self._zones, self._last, self._events = zones, last, events
        self._metrics = runtime.metrics.once(LifecycleMetrics)

    @property
    def _now(self) -> str:
        return rfc3339(self._clock.wall_s())

    async def node(self, name: str, decision: Decision[Action]) -> Result | None:
        """Raises ApiError, Failed, Stale."""
        for action in decision.actions:
            match action:
                case TurnUnknown():
                    return await self._turn_unknown(action, decision)
                case ChangeTaints():
                    await self._change_taints(action)
                case SetLabels(node, labels):
                    await self._nodes.patch(node, merge_patch({"metadata": {"labels": dict(labels)}}, of=node))
        return None if decision.actions else Result(decision.because, after_s=decision.after_s)

    async def _turn_unknown(self, action: TurnUnknown, decision: Decision[Action]) -> Result | None:
        """The cache may be behind, or cut off from the API server: the Lease is read first. Whatever came meanwhile, a heartbeat perhaps,
        makes the write Stale.
        """
        node, name = action.node, action.node.metadata.name
        last = heartbeat_of_lease(action.last, await self._lease(name), self._clock.now())
        if last != action.last:
            if self._last.get(name) is action.last:
                self._last[name] = last
            return Result(decision.because, again=True)
        await self._nodes.patch(node, conditions_patch(node, action.conditions, self._now), "status", strictly=True)
        if action.was_ready:
            self._events.event(_of_node(node), "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        return None

    async def _lease(self, node_name: str) -> Lease | None:
        try:
            return await self._cluster.get(LEASES, node_name, NODE_LEASE_NAMESPACE)
        except NotFound:
            return None

    async def _change_taints(self, action: ChangeTaints) -> None:
        """A node that gets its NoExecute taint has taken its zone's turn, whatever comes of the write."""
        if action.evicting is not None:
            self._zones.take(zone_of(action.node), self._clock.now())
        await self._nodes.patch(action.node, taints_patch(action.node, action.added, action.removed, self._now))
        if action.evicting is not None:
            self._metrics.evictions.labels(zone_of(action.node)).inc()

    async def pod(self, key: Key, decision: Decision[MarkUnready]) -> None:
        """Raises Failed; Stale where the pod's kubelet has spoken meanwhile."""
        for action in decision.actions:
            status = {"conditions": [{"type": READY, "status": FALSE, "lastTransitionTime": self._now}]}
            await self._pods.patch(action.pod, pod_patch(action.pod, status), "status", strictly=True)
            self._events.event(reference_to(action.pod, "Pod"), "Warning", "NodeNotReady", "Node is not ready")

    # -- coming and going

    def registered(self, node: Node) -> None:
        self._tell(node, "RegisteredNode", f"Registered Node {node.metadata.name} in Controller")

    def removed(self, node: Node) -> None:
        self._tell(node, "RemovingNode", f"Removing Node {node.metadata.name} from Controller")

    def _tell(self, node: Node, reason: str, text: str) -> None:
        self._events.event(_of_node(node), "Normal", reason, f"Node {node.metadata.name} event: {text}")


def _of_node(node: Node) -> ObjectReference:
    return ObjectReference("v1", "Node", "", node.metadata.name, node.metadata.uid)
