"""The metrics of the life of nodes, under kube-controller-manager's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.cluster.nodehealth.lifecycle.zones import Zones


class LifecycleMetrics:
    """Of each zone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        zone = ["zone"]
        self._shown: set[str] = set()
        self.evictions = Counter(
            "node_collector_evictions_total", "Number of nodes that got a NoExecute taint since the start", zone, registry=registry
        )
        self._size = Gauge("node_collector_zone_size", "Number of registered Nodes per zone", zone, registry=registry)
        self._health = Gauge("node_collector_zone_health", "Percentage of healthy nodes per zone", zone, registry=registry)
        self._unwell = Gauge("node_collector_unhealthy_nodes_in_zone", "Nodes per zone that are not ready", zone, registry=registry)

    def show(self, zones: Zones) -> None:
        """The zones as they are counted now, and those that were: a zone without nodes is well."""
        self._shown.update(zones.names)
        for zone in self._shown:
            count = zones.count(zone)
            size = count.ready + count.unwell
            self._size.labels(zone).set(size)
            self._health.labels(zone).set(100 * count.ready / size if size else 100)
            self._unwell.labels(zone).set(count.unwell)
