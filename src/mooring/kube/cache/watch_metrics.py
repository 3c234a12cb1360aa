"""Whether the caches follow the API server, as a metric: read from the informers when the page is rendered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from weakref import WeakSet

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.kube.cache.informer import Informer

NAME: Final = "mooring_watch_healthy"
_TEXT: Final = "1 while the cache of a resource is filled, and list and watch work; a standby has none."


class WatchMetrics(Collector):
    """The caches of one process. Of several for one resource the worst counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._informers: WeakSet[Informer[Any]] = WeakSet()
        registry.register(self)

    def show(self, informer: Informer[Any]) -> None:
        """Show this informer as long as it runs."""
        self._informers.add(informer)

    def describe(self) -> Iterable[Metric]:
        return [Metric(NAME, _TEXT, "gauge")]

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(NAME, _TEXT, labels=["resource"])
        worst: dict[str, bool] = {}
        for informer in self._informers:
            if informer.is_running:
                worst[informer.resource] = worst.get(informer.resource, True) and informer.is_healthy
        for resource, healthy in sorted(worst.items()):
            family.add_metric([resource], int(healthy))
        yield family
