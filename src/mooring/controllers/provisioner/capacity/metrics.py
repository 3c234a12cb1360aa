"""Gauges of what is published, under upstream's names; counted when somebody looks."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge


class CapacityMetrics:
    """One set in a registry; a later publisher takes it over."""

    def __init__(self, registry: CollectorRegistry) -> None:
        name = "csistoragecapacities"
        self._goal = Gauge(f"{name}_desired_goal", "Objects that there should be.", registry=registry)
        self._current = Gauge(f"{name}_desired_current", "Objects that there should be, and are.", registry=registry)
        self._obsolete = Gauge(f"{name}_obsolete", "Objects that there should not be.", registry=registry)

    def show(self, goal: Callable[[], int], current: Callable[[], int], obsolete: Callable[[], int]) -> None:
        self._goal.set_function(goal)
        self._current.set_function(current)
        self._obsolete.set_function(obsolete)
