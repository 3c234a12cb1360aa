"""The controller `node-lifecycle-controller`: which change wakes which node or pod.

A node sleeps until it would count as silent; heartbeats are noted and wake nobody. kube-controller-manager looks at all nodes every 5 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mooring.api.coordination import Lease
from mooring.api.core import Node
from mooring.api.meta import Key, key_of
from mooring.api.nodes import UNKNOWN, readiness
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.lifecycle.decide import (
    Action,
    LastHeartbeat,
    MarkUnready,
    decide_node,
    decide_pod,
    heartbeat_of_lease,
    heartbeat_of_node,
)
from mooring.cluster.nodehealth.lifecycle.reconcile import LifecycleMetrics, Reconciler
from mooring.cluster.nodehealth.lifecycle.zones import Shift, Zones
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.view import zone_of
from mooring.cluster.nodehealth.writes import HealthCaches, tell_nobody
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.events import EventRecorder
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

WORKERS: Final = 8


class NodeLifecycle:
    """controllers: of nodes, and of the pods of nodes that are not ready."""

    def __init__(
        self, runtime: Runtime, caches: HealthCaches, options: NodeHealthOptions, events: EventRecorder
    ) -> None:
        self._clock, self._options, self._view = runtime.clock, options, caches.view
        self._metrics = runtime.metrics.once(LifecycleMetrics)
        self._zones = Zones(options)
        self._last: dict[str, LastHeartbeat] = {}
        self._reconciler = Reconciler(runtime, caches, self._zones, self._last, events)
        nodes = Deciding(self._decide, self._reconciler.node, tell_nobody)
        self._nodes: Controller[str] = Controller(
            runtime, "nodelifecycle", nodes, workers=WORKERS, label="Node", log=log
        )
        pods = Deciding(self._decide_pod, self._reconciler.pod, tell_nobody)
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
            self._reconciler.removed(change.object)
            return ("",)  # the zones are others now
        known = heartbeat_of_node(self._last.get(name), new, self._clock.now(), self._clock.wall_s())
        if old is None:
            known = heartbeat_of_lease(known, self._view.lease(name), self._clock.now())
            self._reconciler.registered(new)
        self._last[name] = known
        if readiness(new) == UNKNOWN and readiness(old) != UNKNOWN:
            for pod in self._view.pods_on(name):
                self._pods.add(key_of(pod))
        return (name,)

    def _lease_changed(self, change: Change[Lease]) -> None:
        known = self._last.get(change.key.name)
        if known is not None and change.new is not None:
            self._last[change.key.name] = heartbeat_of_lease(known, change.new, self._clock.now())

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        """A pod that has come to a node."""
        old, new = change.old, change.new
        if new is not None and new.spec.node_name and (old is None or old.spec.node_name != new.spec.node_name):
            yield change.key

    # -- one node, one pod

    def _decide(self, name: str) -> Decision[Action]:
        now = self._clock.now()
        self._wake(self._zones.refresh(now))
        self._metrics.show(self._zones)
        node, last = self._view.node(name), self._last.get(name)
        if node is None or last is None:
            return Decision(why.Gone(name))
        turn_s = self._zones.wait_s(zone_of(node), now)
        return decide_node(node, last, now, self._options, turn_s=turn_s, all_down=self._zones.all_down)

    def _wake(self, shift: Shift) -> None:
        """Wakes the nodes that wait for the zones. Where no node was ready, and one is now, all get their grace anew."""
        if shift.ended:
            now = self._clock.now()
            self._last |= {
                name: LastHeartbeat(now, one.has_ready, one.heartbeat, one.renewed) for name, one in self._last.items()
            }
        if shift.began or shift.ended:
            log.info(
                0, "No node is ready: evictions stop" if shift.began else "Some nodes are ready again: evictions go on"
            )
        for node in self._view.nodes.values() if shift.zones or shift.began or shift.ended else ():
            if shift.began or shift.ended or zone_of(node) in shift.zones:
                self._nodes.add(node.metadata.name)

    def _decide_pod(self, key: Key) -> Decision[MarkUnready]:
        pod = self._view.pods.get(key)
        return Decision(why.Gone(str(key))) if pod is None else decide_pod(pod, self._view.node(pod.spec.node_name))
