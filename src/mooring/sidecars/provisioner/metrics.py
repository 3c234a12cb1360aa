"""Metrics of provisioning, under upstream's names, labels and buckets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from mooring.sidecars.provisioner.intents.tracker import IntentTracker

BUCKETS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ProvisionMetrics:
    """Labels: the StorageClass, and the kind of the claim's data source, "" without.

    Differs from external-provisioner, which counts claims of other provisioners, and claims that have their volume already, as failed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels, name = ["class", "source"], "controller_persistentvolumeclaim_provision"
        self.total = Counter(f"{name}_total", "Volumes provisioned.", labels, registry=registry)
        self.failed = Counter(f"{name}_failed_total", "Attempts that failed.", labels, registry=registry)
        self.duration = Histogram(
            f"{name}_duration_seconds", "How long provisioning a volume took.", labels, buckets=BUCKETS_S, registry=registry
        )

    def succeeded(self, class_name: str, source_kind: str, seconds: float) -> None:
        self.total.labels(class_name, source_kind).inc()
        self.duration.labels(class_name, source_kind).observe(seconds)

    def has_failed(self, class_name: str, source_kind: str) -> None:
        self.failed.labels(class_name, source_kind).inc()


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


class CapacityMetrics:
    """Of the objects that are published, counted at each scrape. One set in a registry; a later publisher takes it over."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "csistoragecapacities"
        self._goal = Gauge(f"{name}_desired_goal", "Objects that there should be.", registry=registry)
        self._current = Gauge(f"{name}_desired_current", "Objects that there should be, and are.", registry=registry)
        self._obsolete = Gauge(f"{name}_obsolete", "Objects that there should not be.", registry=registry)

    def show(self, goal: Callable[[], int], current: Callable[[], int], obsolete: Callable[[], int]) -> None:
        self._goal.set_function(goal)
        self._current.set_function(current)
        self._obsolete.set_function(obsolete)


class IntentMetrics:
    """Of volumes that may exist without a PersistentVolume. Of our own: external-provisioner has none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        prefix = "mooring_provisioner_intents"
        self._open = Gauge(f"{prefix}_open", "Volumes that are being made, or may have been.", registry=registry)
        self._oldest = Gauge(f"{prefix}_oldest_seconds", "How long the oldest of them is known.", registry=registry)

    @contextlib.contextmanager
    def shown(self, tracker: IntentTracker) -> Iterator[None]:
        """Shows the figures in the block: a process that no longer leads does not know which intents are open."""
        self._open.set_function(lambda: tracker.count)
        self._oldest.set_function(lambda: tracker.oldest_s)
        try:
            yield
        finally:
            self._open.set_function(lambda: 0)
            self._oldest.set_function(lambda: 0)


class JournalMetrics:
    """Of our own: external-provisioner has no journal."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._in_memory = Gauge(
            "mooring_provisioner_intents_in_memory",
            "1 while there is no right to write down what is about to be created, so that a kill may leak a volume.",
            registry=registry,
        )

    def in_memory(self, is_so: bool) -> None:
        self._in_memory.set(is_so)
