"""Node health as one: its three controllers, which share their caches."""

from __future__ import annotations

from typing import Any, Final

from mooring.cluster.nodehealth import options as parts
from mooring.cluster.nodehealth.eviction.controller import TaintEviction
from mooring.cluster.nodehealth.lifecycle.controller import NodeLifecycle
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.podgc.controller import PodCollector
from mooring.cluster.nodehealth.writes import HealthCaches
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
        self.recorders: dict[str, EventRecorder] = {}
        health = HealthCaches(runtime, shared)
        super().__init__(
            shared,
            *(one for name in parts.PARTS if name in given.parts for one in self._part(name, runtime, health, given)),
        )
        for component, events in self.recorders.items():
            self.beside(f"nodehealth/events/{component}", events)

    def _part(
        self, name: str, runtime: Runtime, caches: HealthCaches, options: NodeHealthOptions
    ) -> tuple[Controller[Any], ...]:
        match name:
            case parts.LIFECYCLE:
                return NodeLifecycle(runtime, caches, options, self._recorder(runtime, LIFECYCLE_COMPONENT)).controllers
            case parts.EVICTION:
                return (TaintEviction(runtime, caches, self._recorder(runtime, parts.EVICTION)).controller,)
            case parts.POD_GC:
                return PodCollector(runtime, caches, options).controllers
        raise AssertionError(f"no part is called {name}")

    def _recorder(self, runtime: Runtime, component: str) -> EventRecorder:
        made = self.recorders[component] = EventRecorder(
            runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness
        )
        return made
