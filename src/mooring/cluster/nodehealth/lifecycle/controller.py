"""The controller `node-lifecycle-controller`: which change wakes which node or pod, and the writes to nodes and to the
pods of those that are not ready.

A node sleeps until it changes or would count as silent; renewals of its Lease are noted and wake nobody.
kube-controller-manager looks at all nodes every 5 s.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api.coordination import LEASES, NODE_LEASE_NAMESPACE, Lease
from mooring.api.core import Node, ObjectReference, reference_to
from mooring.api.meta import Key, key_of
from mooring.api.nodes import FALSE, READY, UNKNOWN, readiness
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.nodehealth.caches import HealthCaches
from mooring.cluster.nodehealth.lifecycle.decide import (
    Action,
    ChangeTaints,
    LastHeartbeat,
    MarkUnready,
    SetLabels,
    TaintId,
    TurnUnknown,
    decide_node,
    decide_pod,
    heartbeat_of_lease,
    heartbeat_of_node,
)
from mooring.cluster.nodehealth.lifecycle.zones import Shift, Zones
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.view import Gone, zone_of
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Read
from mooring.control.events import EventRecorder
from mooring.control.result import Result
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import Patch
from mooring.kube.patch import Operation, add, json_patch, merge_patch, remove, strategic_patch

log = logger(__name__)

WORKERS: Final = 8
_TAINTS: Final = "/spec/taints"


class LifecycleMetrics:
    """The metrics of each zone, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        zone = ["zone"]
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
        #: All zones that there ever were; one without nodes counts as well.
        self._shown: set[str] = set()

    def show(self, zones: Zones) -> None:
        self._shown.update(zones.names)
        for zone in self._shown:
            count = zones.count(zone)
            self._size.labels(zone).set(count.size)
            self._health.labels(zone).set(100 * count.ready / count.size if count.size else 100)
            self._unwell.labels(zone).set(count.unwell)


class NodeLifecycle:
    """controllers: of nodes, and of the pods of nodes that are not ready. Failed writes are logged, and no user sees
    them, as in kube-controller-manager.
    """

    def __init__(
        self, runtime: Runtime, caches: HealthCaches, options: NodeHealthOptions, events: EventRecorder
    ) -> None:
        self._clock, self._caches, self._options, self._events = runtime.clock, caches, options, events
        self._metrics = runtime.metrics.once(LifecycleMetrics)
        self._zones = Zones(options)
        #: The last sign of life of each node that the cache has.
        self._last: dict[str, LastHeartbeat] = {}
        nodes = Deciding(self._decide, self._perform, reads=self._reads)
        self._nodes: Controller[str] = Controller(
            runtime, "nodelifecycle", nodes, workers=WORKERS, label="Node", log=log
        )
        pods = Deciding(self._decide_pod, self._perform_pod)
        self._pods: Controller[Key] = Controller(
            runtime, "nodelifecycle-pods", pods, workers=WORKERS, label="Pod", log=log
        )
        self.controllers = (self._nodes, self._pods)
        self._nodes.watch(caches.nodes, self._node_changed)
        self._nodes.watch(caches.leases, self._lease_changed)
        self._pods.watch(caches.pods, self._pod_changed)

    # -- changes

    def _node_changed(self, change: Change[Node]) -> Iterable[str]:
        old, new, name = change.old, change.new, change.key.name
        self._zones.moved(old, new)
        if new is None:
            self._last.pop(name, None)
            self._nodes.forget(name)
            self._tell(change.object, "RemovingNode", f"event: Removing Node {name} from Controller")
            return ("",)  # the zones are others now
        now = self._clock.now()
        last = heartbeat_of_node(self._last.get(name), new, now, self._clock.wall_s())
        if old is None:
            lease = self._caches.leases.store.get(Key(NODE_LEASE_NAMESPACE, name))
            last = heartbeat_of_lease(last, lease, now)
            self._tell(new, "RegisteredNode", f"event: Registered Node {name} in Controller")
        self._last[name] = last
        if readiness(new) == UNKNOWN and readiness(old) != UNKNOWN:
            for pod in self._caches.pods_on(name):
                self._pods.add(key_of(pod))
        return (name,)

    def _lease_changed(self, change: Change[Lease]) -> None:
        last = self._last.get(change.key.name)
        if last is not None:
            self._last[change.key.name] = heartbeat_of_lease(last, change.new, self._clock.now())

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        """Wake a pod that has come to a node."""
        old, new = change.old, change.new
        if new is not None and new.spec.node_name and (old is None or old.spec.node_name != new.spec.node_name):
            yield change.key

    # -- one node

    def _decide(self, name: str) -> Decision[Action]:
        now = self._clock.now()
        shift = self._zones.refresh(now)
        if shift != Shift():
            self._apply(shift)
        self._metrics.show(self._zones)
        node, last = self._caches.node(name), self._last.get(name)
        if node is None or last is None:
            return Decision(Gone(name))
        turn_s = self._zones.wait_s(zone_of(node), now)
        return decide_node(node, last, now, self._options, turn_s=turn_s, all_down=self._zones.all_down)

    def _apply(self, shift: Shift) -> None:
        """Wake the nodes that wait for the zones."""
        if shift.began:
            log.info(0, "No node is ready: evictions stop")
        if shift.ended:
            # This process was cut off, most likely: no node is silent for the time that it did not hear of any.
            now = self._clock.now()
            self._last = {name: msgspec.structs.replace(one, at=now) for name, one in self._last.items()}
            log.info(0, "Some nodes are ready again: evictions go on")
        for node in self._caches.nodes.store.values():
            if shift.began or shift.ended or zone_of(node) in shift.zones:
                self._nodes.add(node.metadata.name)

    def _reads(self, name: str, decision: Decision[Action]) -> Sequence[Read]:
        """Read the Lease before a node is given up: the watch may be late, or cut off from the API server."""
        if not any(isinstance(action, TurnUnknown) for action in decision.actions):
            return ()
        return (functools.partial(self._caches.read, self._caches.leases, LEASES, Key(NODE_LEASE_NAMESPACE, name)),)

    async def _perform(self, name: str, decision: Decision[Action]) -> Result | None:
        """Raises Failed, Stale."""
        writer = self._caches.node_writer
        for action in decision.actions:
            node = action.node
            match action:
                case TurnUnknown():
                    stamped = [{"lastTransitionTime": self._caches.stamp, **one} for one in action.conditions]
                    patch = strategic_patch({"status": {"conditions": stamped}}, of=node)
                    # A heartbeat that came meanwhile makes this write Stale.
                    await writer.patch(node, patch, "status", strictly=True)
                    if action.was_ready:
                        self._tell(node, "NodeNotReady", "status is now: NodeNotReady")
                case ChangeTaints():
                    zone = zone_of(node)
                    if action.takes_turn:
                        # Before the write, whatever comes of that: an answer may be lost, and other workers decide.
                        self._zones.take(zone, self._clock.now())
                    patch = taints_patch(node, action.added, action.removed, self._caches.stamp)
                    # Strictly, as kube-controller-manager: a taint that is written late would evict from a well node.
                    await writer.patch(node, patch, strictly=True)
                    if action.takes_turn:
                        self._metrics.evictions.labels(zone).inc()
                case SetLabels():
                    await writer.patch(node, merge_patch({"metadata": {"labels": dict(action.labels)}}, of=node))
        return None if decision.actions else Result(decision.because, after_s=decision.after_s)

    def _tell(self, node: Node, reason: str, text: str) -> None:
        name = node.metadata.name
        ref = ObjectReference("v1", "Node", "", name, node.metadata.uid)
        self._events.event(ref, "Normal", reason, f"Node {name} {text}")

    # -- one pod

    def _decide_pod(self, key: Key) -> Decision[MarkUnready]:
        pod = self._caches.pods.store.get(key)
        return Decision(Gone(str(key))) if pod is None else decide_pod(pod, self._caches.node(pod.spec.node_name))

    async def _perform_pod(self, key: Key, decision: Decision[MarkUnready]) -> None:
        """Raises Failed; Stale where the pod's kubelet has reported meanwhile."""
        for action in decision.actions:
            unready = {"type": READY, "status": FALSE, "lastTransitionTime": self._caches.stamp}
            await self._caches.patch_status(action.pod, {"conditions": [unready]})
            self._events.event(reference_to(action.pod, "Pod"), "Warning", "NodeNotReady", "Node is not ready")


def taints_patch(node: Node, added: Iterable[TaintId], removed: Collection[TaintId], now: str) -> Patch:
    """Add and remove these taints of this very version of the node, and leave those of others as they are."""
    held = node.spec.taints or ()
    # Remove from the end to the beginning, so that the places before stay right.
    steps: list[Operation] = [
        remove(f"{_TAINTS}/{place}")
        for place, taint in reversed(list(enumerate(held)))
        if (taint.key, taint.effect) in removed
    ]
    new = [{"key": key, "effect": effect, "timeAdded": now} for key, effect in added]
    if new and not held:  # there may be no list to append to
        steps.append(add(_TAINTS, new))
    else:
        steps += (add(f"{_TAINTS}/-", taint) for taint in new)
    return json_patch(steps, of=node)
