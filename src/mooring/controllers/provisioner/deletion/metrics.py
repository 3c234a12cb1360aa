"""Metrics of deletions, under upstream's names."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class DeletionMetrics:
    """By class name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["class"]
        name = "controller_persistentvolume_delete"
        self.deleted = Counter(name, "Volumes deleted.", labels, registry=registry)
        self.failed = Counter(f"{name}_failed", "Deletions that failed, each try.", labels, registry=registry)
        self.duration = Histogram(
            f"{name}_duration_seconds", "Time to delete a volume, successes only.", labels, buckets=BUCKETS_S, registry=registry
        )

    def succeeded(self, class_name: str, seconds: float) -> None:
        self.deleted.labels(class_name).inc()
        self.duration.labels(class_name).observe(seconds)
