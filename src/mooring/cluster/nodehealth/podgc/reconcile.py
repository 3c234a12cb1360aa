"""Removes pods by force: the phase Failed first, since no kubelet will write it, then the deletion without grace."""

from __future__ import annotations

from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from mooring.api.nodes import TRUE
from mooring.api.pods import Pod
from mooring.cluster.nodehealth.podgc.decide import FINISHED, Cause
from mooring.cluster.nodehealth.view import DISRUPTION_TARGET
from mooring.cluster.nodehealth.writes import FAILED, Writes
from mooring.control.result import Because, Result
from mooring.kube.errors import ApiError


class PodGcMetrics:
    """By namespace and cause, under kube-controller-manager's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "reason"]
        self.removed = Counter("pod_gc_collector_force_delete_pods_total", "Pods removed by force", labels, registry=registry)
        self.errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total", "Errors while pods were removed by force", labels, registry=registry
        )


_ORPHANED: Final = {"type": DISRUPTION_TARGET, "status": TRUE, "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}


class Reconciler:
    def __init__(self, writes: Writes, metrics: PodGcMetrics) -> None:
        self._writes, self._metrics = writes, metrics

    async def remove(self, pod: Pod, cause: Cause, because: Because) -> Result:
        """Raises ApiError, Stale."""
        namespace = pod.metadata.namespace
        try:
            if pod.status.phase not in FINISHED:
                await self._writes.patch_pod(pod, self._failed(pod, cause))
            await self._writes.delete_pod(pod, grace_period_s=0)
        except ApiError:
            self._metrics.errors.labels(namespace, cause.value).inc()
            raise
        self._metrics.removed.labels(namespace, cause.value).inc()
        return Result(because, done="removed by force")

    def _failed(self, pod: Pod, cause: Cause) -> dict[str, Any]:
        observed = {"observedGeneration": pod.metadata.generation} if pod.metadata.generation else {}
        disrupted = {**_ORPHANED, "lastTransitionTime": self._writes.now, **observed}
        return {"phase": FAILED, **observed, **({"conditions": [disrupted]} if cause is Cause.ORPHANED else {})}
