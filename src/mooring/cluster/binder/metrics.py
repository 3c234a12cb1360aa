"""The binder's metrics, under kube-controller-manager's names."""

from __future__ import annotations

from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, UntypedMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.api.binding import BOUND, PROVISIONED_BY, mode_of
from mooring.api.classes import class_of, volume_class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import annotation
from mooring.base.clock import Instant
from mooring.kube.cache.informer import Informer

_BUCKETS_S: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
_RUNNING_MAX: Final = 50_000


class BindingMetrics:
    """Counters, and gauges that are counted when the page is rendered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["plugin_name", "operation_name"]
        self._errors = Counter(
            "volume_operation_errors_total", "Total volume operation errors", labels, registry=registry
        )
        self._seconds = Histogram(
            "volume_operation_total_seconds",
            "Storage operation end to end duration in seconds",
            labels,
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._running: OrderedDict[tuple[str, str], tuple[str, Instant]] = OrderedDict()
        self.retroactive = Counter(
            "retroactive_storageclass_total", "Total number of retroactive StorageClass assignments", registry=registry
        )
        self.retroactive_errors = Counter(
            "retroactive_storageclass_errors_total",
            "Total number of failed retroactive StorageClass assignments",
            registry=registry,
        )
        self.ephemeral = Counter(
            "ephemeral_volume_controller_create_total",
            "Number of PersistentVolumeClaim creation requests",
            registry=registry,
        )
        self.ephemeral_failures = Counter(
            "ephemeral_volume_controller_create_failures_total",
            "Number of failed PersistentVolumeClaim creation requests",
            registry=registry,
        )
        self._counted = _Counted()
        registry.register(self._counted)

    def failed(self, plugin: str, operation: str) -> None:
        self._errors.labels(plugin, operation).inc()
        self._counted.errors[plugin, operation] += 1

    def began(self, operation: str, uid: str, plugin: str, now: Instant) -> None:
        """operation: provision (asked, until bound) or delete (released, until gone). uid: the claim's, or the
        volume's.
        """
        self._running.setdefault((operation, uid), (plugin, now))
        if len(self._running) > _RUNNING_MAX:
            self._running.popitem(last=False)

    def ended(self, operation: str, uid: str, now: Instant) -> None:
        """Count the operation, if this process saw its beginning."""
        plugin, since = self._running.pop((operation, uid), ("", now))
        if plugin:
            self._seconds.labels(plugin, operation).observe(now - since)

    def show(self, claims: Informer[PersistentVolumeClaim], volumes: Informer[PersistentVolume]) -> None:
        """The caches whose objects are counted, while the controllers have them: a standby counts nothing."""
        self._counted.claims, self._counted.volumes = claims, volumes


class _Counted(Collector):
    """Numbers of claims and volumes, counted anew for each page.

    errors: also counted under the old name, to which prometheus_client's counters would append `_total`.
    """

    def __init__(self) -> None:
        self.errors: Tally[tuple[str, ...]] = Tally()
        self.claims: Informer[PersistentVolumeClaim] | None = None
        self.volumes: Informer[PersistentVolume] | None = None

    def collect(self) -> Iterable[Metric]:
        old_errors = UntypedMetricFamily(
            "volume_operation_total_errors",
            "Total volume operation errors (deprecated)",
            labels=["plugin_name", "operation_name"],
        )
        for values, count in sorted(self.errors.items()):
            old_errors.add_metric(list(values), count)
        yield old_errors
        if self.claims is None or self.volumes is None or not (self.claims.has_synced and self.volumes.has_synced):
            return
        volumes = self.volumes.store.values()
        plugins: Tally[tuple[str, ...]] = Tally((_plugin_of(pv), mode_of(pv)) for pv in volumes)
        yield _family("pv_collector_total_pv_count", "Volumes", ["plugin_name", "volume_mode"], plugins)
        bound: Tally[tuple[str, ...]] = Tally((volume_class_of(pv),) for pv in volumes if pv.status.phase == BOUND)
        free: Tally[tuple[str, ...]] = Tally((volume_class_of(pv),) for pv in volumes if pv.status.phase != BOUND)
        yield _family("pv_collector_bound_pv_count", "Volumes that are bound", ["storage_class"], bound)
        yield _family("pv_collector_unbound_pv_count", "Volumes that are not bound", ["storage_class"], free)
        labels = ["namespace", "storage_class", "volume_attributes_class"]
        claims = self.claims.store.values()
        held = Tally(_labels_of(claim) for claim in claims if claim.status.phase == BOUND)
        waiting = Tally(_labels_of(claim) for claim in claims if claim.status.phase != BOUND)
        yield _family("pv_collector_bound_pvc_count", "Claims that are bound", labels, held)
        yield _family("pv_collector_unbound_pvc_count", "Claims that are not bound", labels, waiting)


def _labels_of(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return claim.metadata.namespace, class_of(claim), claim.spec.volume_attributes_class_name or ""


def _plugin_of(pv: PersistentVolume) -> str:
    return f"kubernetes.io/csi:{pv.spec.csi.driver}" if pv.spec.csi else annotation(pv, PROVISIONED_BY) or "N/A"


def _family(name: str, text: str, labels: list[str], tally: Mapping[tuple[str, ...], int]) -> Metric:
    family = GaugeMetricFamily(name, f"{text}, counted now.", labels=labels)
    for values, count in sorted(tally.items()):
        family.add_metric(list(values), count)
    return family
