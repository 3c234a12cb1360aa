"""The controller `taint-eviction-controller`: which change wakes which pod, since when a pod's time runs, and the
eviction itself: an event, the condition, the deletion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import Node, reference_to
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.base.log import logger
from mooring.cluster.nodehealth.caches import HealthCaches
from mooring.cluster.nodehealth.eviction.decide import Action, Beginnings, Cancel, Evict, Stay, decide_eviction
from mooring.cluster.nodehealth.view import DISRUPTION_TARGET, Gone, no_execute_taints
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Result, Stale
from mooring.control.runtime import Runtime
from mooring.kube.cache.informer import Change

log = logger(__name__)

WORKERS: Final = 8
REASON: Final = "TaintManagerEviction"
DELETED: Final = "DeletionByTaintManager"
_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionMetrics:
    """The metrics of evictions, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deletions = Counter(
            "taint_eviction_controller_pod_deletions_total", "Pods evicted since the start", registry=registry
        )
        self.late_s = Histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds between the moment when a pod had to leave and its deletion",
            buckets=_BUCKETS_S,
            registry=registry,
        )


class TaintEviction:
    """The eviction of pods. Failed writes are logged, and no user sees them, as in kube-controller-manager."""

    def __init__(self, runtime: Runtime, caches: HealthCaches, events: EventRecorder) -> None:
        self._clock, self._caches, self._events = runtime.clock, caches, events
        self._metrics = runtime.metrics.once(EvictionMetrics)
        #: By the objects where they say so. From then on a clock that jumps changes nothing.
        self._since: dict[Key, Beginnings] = {}
        self.controller: Controller[Key] = Controller(
            runtime, "tainteviction", Deciding(self._decide, self._perform), workers=WORKERS, label="Pod", log=log
        )
        self.controller.watch(caches.nodes, self._node_changed)
        self.controller.watch(caches.pods, self._pod_changed)

    def _node_changed(self, change: Change[Node]) -> Iterable[Key]:
        if no_execute_taints(change.old) == no_execute_taints(change.new):
            return ()
        return [key_of(pod) for pod in self._caches.pods_on(change.key.name)]

    def _pod_changed(self, change: Change[Pod]) -> Iterator[Key]:
        old, new = change.old, change.new
        if new is None:
            self._since.pop(change.key, None)
            self.controller.forget(change.key)
        elif old is None or (old.spec, is_deleting(old)) != (new.spec, is_deleting(new)):
            yield change.key

    def _decide(self, key: Key) -> Decision[Action]:
        pod = self._caches.pods.store.get(key)
        if pod is None:
            return Decision(Gone(str(key)))
        node = self._caches.node(pod.spec.node_name)
        return decide_eviction(pod, node, self._since.get(key), self._clock.now(), self._clock.wall_s())

    async def _perform(self, key: Key, decision: Decision[Action]) -> Result | None:
        """Raises Failed, Stale."""
        self._since.pop(key, None)  # where the time goes on, an action has its beginning
        for action in decision.actions:
            match action:
                case Cancel(pod):
                    self._tell(pod, "Cancelling deletion of Pod")
                case Stay(_, _, since):
                    self._since[key] = since
                case Evict():
                    if action.since is not None:
                        self._since[key] = action.since  # for the next try, if this one fails
                    await self._evict(key, action)
                    return None
        return Result(decision.because, after_s=decision.after_s)

    async def _evict(self, key: Key, action: Evict) -> None:
        pod = action.pod
        await self._check_taints(action.node)
        if not self.controller.failures(key):
            self._tell(pod, "Marking for deletion Pod")
        # The condition before the deletion, which may be the end of the pod.
        if not any((one.type, one.reason) == (DISRUPTION_TARGET, DELETED) for one in pod.status.conditions or ()):
            because = self._caches.disruption(pod, DELETED, "Taint manager: deleting due to NoExecute taint")
            pod = await self._caches.patch_status(pod, {"conditions": [because]})
        # Delete this version alone: a deletion that is carried out late must not take a pod that has changed since.
        await self._caches.pod_writer.delete(pod, strictly=True)
        self._metrics.deletions.inc()
        self._metrics.late_s.observe(self._clock.now() - action.at)

    async def _check_taints(self, node: Node) -> None:
        """Raises Stale where the API server has other taints of the node, Failed.

        The watch may be long behind. A pod would leave a node that is well, its controller would make another one, and
        that one would be evicted, too, again and again. So the node is read for each pod, as before a removal by force.
        """
        found = await self._caches.node_writer.look(node)
        if no_execute_taints(node) != no_execute_taints(found):
            raise Stale(f"the taints of {node.metadata.name} are others by now")

    def _tell(self, pod: Pod, text: str) -> None:
        self._events.event(reference_to(pod, "Pod"), "Normal", REASON, f"{text} {key_of(pod)}")
