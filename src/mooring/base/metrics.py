"""Metrics of one process: a registry of its own, and its page in the form that the Go parts serve."""

from __future__ import annotations

import asyncio
import copy
import platform
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Gauge,
    Metric,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

import mooring

T = TypeVar("T")

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """Owns a registry, so that two sidecars in one process do not share series. In it from the start: process and
    build.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._page: bytes | None = None
        self._families: dict[Callable[[CollectorRegistry], object], object] = {}
        ProcessCollector(registry=self.registry)
        build = Gauge(
            "mooring_build_info",
            "Always 1; the labels say what runs here.",
            ["version", "python"],
            registry=self.registry,
        )
        build.labels(mooring.__version__, platform.python_version()).set(1)

    def once(self, make: Callable[[CollectorRegistry], T]) -> T:
        """make(registry), and the same object for the same make later: a family can be registered only once, its users
        come and go.
        """
        if make not in self._families:
            self._families[make] = make(self.registry)
        family: Any = self._families[make]
        made: T = family
        return made

    def render(self) -> bytes:
        """The page as of now, Prometheus text format 0.0.4 (CONTENT_TYPE)."""
        return generate_latest(_AsGoWrites(self.registry))

    def page(self) -> bytes:
        """The page as of now, made once for all who ask in one turn of the running loop: however many they are, other
        work waits for one page.
        """
        if self._page is None:
            asyncio.get_running_loop().call_soon(self._forget_page)
            self._page = self.render()
        return self._page

    def _forget_page(self) -> None:
        self._page = None


class _AsGoWrites(Collector):
    """The registry's metrics without `_created` series, and with bucket bounds as Go writes them (`le="1"`, not
    `le="1.0"`).

    Dashboards for the Go parts select buckets by that text. The library's own switch for `_created` is global; this is
    not.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            shown = copy.copy(metric)
            shown.samples = [_as_go(sample) for sample in metric.samples if sample.name != f"{metric.name}_created"]
            yield shown


def _as_go(sample: Sample) -> Sample:
    bound = sample.labels.get("le", "")
    return sample._replace(labels={**sample.labels, "le": bound[:-2]}) if bound.endswith(".0") else sample
