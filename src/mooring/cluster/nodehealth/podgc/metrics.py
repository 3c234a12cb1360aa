"""The metrics of the pod garbage collector, under kube-controller-manager's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class PodGcMetrics:
    """By namespace and cause."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["namespace", "reason"]
        self.removed = Counter("pod_gc_collector_force_delete_pods_total", "Pods removed by force", labels, registry=registry)
        self.errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total", "Errors while pods were removed by force", labels, registry=registry
        )
