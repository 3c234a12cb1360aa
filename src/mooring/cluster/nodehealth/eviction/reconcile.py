"""Carries out evictions: an event, the condition, the deletion."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import reference_to
from mooring.api.meta import key_of
from mooring.api.nodes import TRUE
from mooring.api.pods import Pod
from mooring.base.clock import Clock, rfc3339
from mooring.cluster.nodehealth.eviction.decide import Evict
from mooring.cluster.nodehealth.view import DISRUPTION_TARGET
from mooring.cluster.nodehealth.writes import HealthCaches, pod_patch
from mooring.control.events import EventRecorder

REASON: Final = "TaintManagerEviction"
_BUCKETS_S: Final = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionMetrics:
    """Under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._deletions = Counter(
            "taint_eviction_controller_pod_deletions_total", "Pods evicted since the start", registry=registry
        )
        self._seconds = Histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Seconds between the moment when a pod had to leave and its deletion",
            buckets=_BUCKETS_S,
            registry=registry,
        )

    def evicted(self, late_s: float) -> None:
        """late_s: after the moment at which the pod had to leave."""
        self._deletions.inc()
        self._seconds.observe(late_s)


class Reconciler:
    def __init__(self, caches: HealthCaches, events: EventRecorder, metrics: EvictionMetrics, clock: Clock) -> None:
        self._caches, self._events, self._metrics, self._clock = caches, events, metrics, clock

    async def evict(self, action: Evict, *, first: bool) -> None:
        """first: it did not fail before. Raises Failed, Stale.

        The taints are looked at anew: what makes pods would make another one at once, on a node that has been well for long.
        """
        pod = action.pod
        await self._caches.check_taints(action.node)
        if first:
            self._tell(pod, "Marking for deletion Pod")
        reason = {"reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}
        if not any(
            (one.type, one.reason) == (DISRUPTION_TARGET, reason["reason"]) for one in pod.status.conditions or ()
        ):
            stamped = {
                "type": DISRUPTION_TARGET,
                "status": TRUE,
                **reason,
                "lastTransitionTime": rfc3339(self._clock.wall_s()),
            }
            observed = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
            pod = await self._caches.pod_writer.patch(
                pod, pod_patch(pod, {"conditions": [{**stamped, **observed}]}), "status"
            )
        await self._caches.pod_writer.delete(pod)
        self._metrics.evicted(self._clock.now() - action.at)

    def cancelled(self, pod: Pod) -> None:
        """It may stay after all."""
        self._tell(pod, "Cancelling deletion of Pod")

    def _tell(self, pod: Pod, text: str) -> None:
        self._events.event(reference_to(pod, "Pod"), "Normal", REASON, f"{text} {key_of(pod)}")
