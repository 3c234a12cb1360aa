"""The metrics of evictions, under kube-controller-manager's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._deletions = Counter("taint_eviction_controller_pod_deletions_total", "Pods evicted since the start", registry=registry)
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
