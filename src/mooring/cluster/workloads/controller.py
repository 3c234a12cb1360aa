"""Deployments, ReplicaSets, StatefulSets and Jobs together, for a program that has caches of its own or shares them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.api.meta import Key
from mooring.cluster.workloads.deployments import controller as deployments
from mooring.cluster.workloads.jobs import controller as jobs
from mooring.cluster.workloads.replicasets import controller as replicasets
from mooring.cluster.workloads.statefulsets import controller as statefulsets
from mooring.cluster.workloads.view import WorkloadCaches
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime

_Make = Callable[[Runtime, WorkloadCaches, EventRecorder], tuple[Controller[Key], ...]]

_PARTS: Final[tuple[tuple[str, _Make], ...]] = (
    (deployments.COMPONENT, deployments.deployments),
    (replicasets.COMPONENT, replicasets.replica_sets),
    (statefulsets.COMPONENT, statefulsets.stateful_sets),
    (jobs.COMPONENT, jobs.jobs),
)


class Workloads(Manager):
    """run() until cancelled or drained. caches: a share of the program's, None for its own."""

    def __init__(self, runtime: Runtime, *, caches: Caches | None = None) -> None:
        shared = caches or Caches(runtime, "workloads")
        view = WorkloadCaches(shared)
        recorders = {
            component: EventRecorder(runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness)
            for component, _ in _PARTS
        }
        super().__init__(
            shared, *(one for component, make in _PARTS for one in make(runtime, view, recorders[component]))
        )
        for component, recorder in recorders.items():
            self.beside(f"workloads/events/{component}", recorder)
