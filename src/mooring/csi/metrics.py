"""Metrics of CSI calls for a registry: the counts of `csi/call_counts.py` as prometheus_client collects them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from mooring.csi.call_counts import HELP, NAME, CallCounts


class CallMetrics(CallCounts, Collector):
    """Durations of CSI calls, registered where a registry is given."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__()
        if registry is not None:
            registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """The name alone: two of these in one registry are an error."""
        return [Metric(NAME, HELP, "histogram")]

    def collect(self) -> Iterable[Metric]:
        metric = Metric(NAME, HELP, "histogram")
        for suffix, labels, value in self.samples():
            metric.add_sample(f"{NAME}{suffix}", dict(labels), value)
        return [metric]
