"""Metrics of CSI drivers for a registry: calls, as `csi/call_counts.py` counts them, and connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from mooring.csi.call_counts import HELP, NAME, CallCounts

CONNECTED: Final = "mooring_driver_connected"
_CONNECTED_TEXT: Final = "1 while the driver is identified and its connection stands."


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


class ConnectionMetrics(Collector):
    """Which drivers can be called, asked when the page is rendered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._drivers: dict[object, Callable[[], Mapping[str, bool]]] = {}
        registry.register(self)

    def show(self, owner: object, drivers: Callable[[], Mapping[str, bool]]) -> None:
        """drivers: by name, whether each can be called now. owner: whose they are; it shows one such answer."""
        self._drivers[owner] = drivers

    def describe(self) -> Iterable[Metric]:
        return [Metric(CONNECTED, _CONNECTED_TEXT, "gauge")]

    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily(CONNECTED, _CONNECTED_TEXT, labels=["driver_name"])
        worst: dict[str, bool] = {}
        for drivers in self._drivers.values():
            for name, can_be_called in drivers().items():
                worst[name] = worst.get(name, True) and can_be_called
        for name, can_be_called in sorted(worst.items()):
            family.add_metric([name], int(can_be_called))
        yield family
