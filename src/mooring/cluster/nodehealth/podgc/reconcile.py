"""Removes pods by force: the phase Failed first, since no kubelet will write it, then the deletion without grace."""

from __future__ import annotations

from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from mooring.api.nodes import TRUE
from mooring.api.pods import Pod
from mooring.base.clock import Clock, rfc3339
from mooring.cluster.nodehealth.podgc.decide import FINISHED, Cause, Remove
from mooring.cluster.nodehealth.view import DISRUPTION_TARGET
from mooring.cluster.nodehealth.writes import FAILED, pod_patch
from mooring.control.decision import Failed
from mooring.control.object_writer import ObjectWriter


class PodGcMetrics:
    """By namespace and cause, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "reason"]
        self.removed = Counter(
            "pod_gc_collector_force_delete_pods_total", "Pods removed by force", labels, registry=registry
        )
        self.errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Errors while pods were removed by force",
            labels,
            registry=registry,
        )


_ORPHANED: Final = {
    "type": DISRUPTION_TARGET,
    "status": TRUE,
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class Reconciler:
    def __init__(self, pods: ObjectWriter[Pod], metrics: PodGcMetrics, clock: Clock) -> None:
        self._pods, self._metrics, self._clock = pods, metrics, clock

    async def remove(self, action: Remove) -> None:
        """Raises Failed, Stale."""
        pod, cause = action.pod, action.cause
        labels = pod.metadata.namespace, cause.value
        try:
            if pod.status.phase not in FINISHED:
                pod = await self._pods.patch(pod, pod_patch(pod, self._failed(pod, cause)), "status")
            await self._pods.delete(pod, grace_period_s=0)
        except Failed:
            self._metrics.errors.labels(*labels).inc()
            raise
        self._metrics.removed.labels(*labels).inc()

    def _failed(self, pod: Pod, cause: Cause) -> dict[str, Any]:
        observed = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
        disrupted = {**_ORPHANED, "lastTransitionTime": rfc3339(self._clock.wall_s()), **observed}
        return {"phase": FAILED, **observed, **({"conditions": [disrupted]} if cause is Cause.ORPHANED else {})}
