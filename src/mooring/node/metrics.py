"""Metrics of a node's volumes, under the kubelet's names, labels and buckets, so that its dashboards and alerts go on
working.

Source: kubelet 1.36, pkg/volume/util/metrics.go and pkg/kubelet/volumemanager/metrics. A step is counted each time it
is tried; mounting is staging and publishing together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.registry import Collector

from mooring.api.volume_names import PLUGIN
from mooring.csi.call_counts import BUCKETS_S, NO_GRPC_CODE
from mooring.wire.grpc.codes import go_name

SUCCEEDED: Final = "success"
FAILED: Final = "fail-unknown"
_NOT_MIGRATED: Final = "false"


class DriverCalls:
    """The calls to one driver, as mooring.csi counts them."""

    def __init__(self, durations: Histogram, driver: str) -> None:
        self._durations, self._driver = durations, driver

    def observe(self, method: str, code: int | None, seconds: float, migrated: bool = False) -> None:
        """method: the full gRPC method. code: None for an error without one."""
        name = NO_GRPC_CODE if code is None else go_name(code)
        self._durations.labels(self._driver, method, name, str(migrated).lower()).observe(seconds)


class NodeMetrics(Collector):
    """Shared by all nodes of one process. volumes of each: how many are wanted, and how many are here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._calls = Histogram(
            "csi_operations_seconds",
            "[ALPHA] Container Storage Interface operation duration with gRPC error code status total",
            ("driver_name", "method_name", "grpc_status_code", "migrated"),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._operations = Histogram(
            "storage_operation_duration_seconds",
            "[ALPHA] Storage operation duration",
            ("volume_plugin", "operation_name", "status", "migrated"),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._totals = Histogram(
            "volume_operation_total_seconds",
            "[ALPHA] Storage operation end to end duration in seconds",
            ("plugin_name", "operation_name"),
            buckets=BUCKETS_S,
            registry=registry,
        )
        self._found = Counter(
            "reconstruct_volume_operations",
            "[ALPHA] The number of volumes that were attempted to be reconstructed",
            registry=registry,
        )
        self._unread = Counter(
            "reconstruct_volume_operations_errors",
            "[ALPHA] The number of volumes that failed reconstruction",
            registry=registry,
        )
        self._orphans = Gauge(
            "kubelet_orphan_pod_cleaned_volumes",
            "[ALPHA] The total number of orphaned Pods' folders",
            registry=registry,
        )
        self._orphan_errors = Gauge(
            "kubelet_orphan_pod_cleaned_volumes_errors",
            "[ALPHA] The number of orphaned Pods' folders that failed",
            registry=registry,
        )
        self._collections = Histogram(
            "kubelet_volume_metric_collection_duration_seconds",
            "[ALPHA] Duration in seconds to calculate volume stats",
            ("metric_source",),
            registry=registry,
        )
        self._counts: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {}
        registry.register(self)

    def calls_of(self, driver: str) -> DriverCalls:
        return DriverCalls(self._calls, driver)

    def operation(self, driver: str, name: str, seconds: float, *, succeeded: bool) -> None:
        """One try of an operation, by the kubelet's name for it."""
        status = SUCCEEDED if succeeded else FAILED
        self._operations.labels(f"{PLUGIN}:{driver}", name, status, _NOT_MIGRATED).observe(seconds)

    def mounted(self, seconds: float) -> None:
        """A volume is there for a pod. seconds: since the pod was first seen to want it."""
        self._totals.labels(PLUGIN, "overall_volume_mount").observe(seconds)

    def reconstructed(self, found: int, unread: int) -> None:
        """A start's findings on the disk: records, and those of them that could not be read."""
        self._found.inc(found)
        self._unread.inc(unread)

    def orphans(self, folders: int, failed: int) -> None:
        """Folders of pods that are no more: how many there were at a start, and how many of them are there still."""
        self._orphans.set(folders)
        self._orphan_errors.set(failed)

    def stats(self, driver: str, seconds: float) -> None:
        """One look at the usage of one volume."""
        self._collections.labels(f"{PLUGIN}:{driver}").observe(seconds)

    def count_volumes(self, node_name: str, wanted: Callable[[], int], present: Callable[[], int]) -> None:
        """Counts the volumes of this node at each scrape from now on."""
        self._counts[node_name] = wanted, present

    def describe(self) -> Iterable[Metric]:
        return [Metric(_TOTAL, _TOTAL_HELP, "gauge")]

    def collect(self) -> Iterable[Metric]:
        metric = Metric(_TOTAL, _TOTAL_HELP, "gauge")
        sums = {"desired_state_of_world": 0, "actual_state_of_world": 0}
        for wanted, present in self._counts.values():
            sums["desired_state_of_world"] += wanted()
            sums["actual_state_of_world"] += present()
        for state, count in sums.items():
            metric.add_sample(_TOTAL, {"plugin_name": PLUGIN, "state": state}, count)
        return [metric]


_TOTAL: Final = "volume_manager_total_volumes"
_TOTAL_HELP: Final = "[ALPHA] Number of volumes in Volume Manager"
