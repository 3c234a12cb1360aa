"""Node health as one: its three controllers, which share their caches."""

from __future__ import annotations

from typing import Any, Final

from mooring.cluster.nodehealth import options as parts
from mooring.cluster.nodehealth.caches import HealthCaches
from mooring.cluster.nodehealth.eviction.controller import TaintEviction
from mooring.cluster.nodehealth.lifecycle.controller import NodeLifecycle
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.podgc.controller import PodCollector
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime

LIFECYCLE_COMPONENT: Final = "node-controller"


class NodeHealth(Manager):
    """run() until cancelled or drained. caches: a share of the program's, None for its own."""

    def __init__(
        self, runtime: Runtime, options: NodeHealthOptions | None = None, *, caches: Caches | None = None
    ) -> None:
        given, shared = options or NodeHealthOptions(), caches or Caches(runtime, "nodehealth")
        health = HealthCaches(runtime, shared)
        recorders: dict[str, EventRecorder] = {}

        def recorder(component: str) -> EventRecorder:
            made = recorders[component] = EventRecorder(
                runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness
            )
            return made

        controllers: list[Controller[Any]] = []
        if parts.LIFECYCLE in given.parts:
            controllers += NodeLifecycle(runtime, health, given, recorder(LIFECYCLE_COMPONENT)).controllers
        if parts.EVICTION in given.parts:
            controllers.append(TaintEviction(runtime, health, recorder(parts.EVICTION)).controller)
        if parts.POD_GC in given.parts:
            controllers += PodCollector(runtime, health, given).controllers
        super().__init__(shared, *controllers)
        for component, events in recorders.items():
            self.beside(f"nodehealth/events/{component}", events)
