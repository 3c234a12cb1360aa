"""The binder: controllers on common caches, the scheduler among them.

Each can be switched off, where kube-controller-manager or kube-scheduler has it. This is the one place that joins two
rooms of controllers.
"""

from __future__ import annotations

from typing import Any, Protocol

from mooring.cluster.binder import options
from mooring.cluster.binder.announcer import Announcer
from mooring.cluster.binder.caches import BindingCaches
from mooring.cluster.binder.ephemeral.controller import EPHEMERAL_COMPONENT, EphemeralVolumes
from mooring.cluster.binder.options import BinderOptions
from mooring.cluster.binder.protection.controller import AttributesClassProtection, ClaimProtection, VolumeProtection
from mooring.cluster.binder.scheduling.controller import Scheduler
from mooring.cluster.binder.volumes.controller import VOLUMES_COMPONENT, VolumeBinding
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime

CLAIM_PROTECTION_COMPONENT = "pvc-protection-controller"


class _Part(Protocol):
    @property
    def controllers(self) -> tuple[Controller[Any], ...]: ...

    async def look_at_all(self) -> None: ...


def make_binder(runtime: Runtime, given: BinderOptions, *, caches: Caches | None = None) -> Manager:
    """The controllers that the options name, for one cluster, on the same caches. caches: a share of the program's,
    None for their own.
    """
    shared = caches or Caches(runtime, "binder")
    binding = BindingCaches(runtime, shared, schedules=options.SCHEDULER in given.parts)
    recorders: dict[str, EventRecorder] = {}

    def recorder(component: str) -> EventRecorder:
        made = recorders[component] = EventRecorder(
            runtime.cluster, component, clock=runtime.clock, randomness=runtime.randomness
        )
        return made

    def make(name: str) -> _Part:
        match name:
            case options.BINDER:
                return VolumeBinding(runtime, binding, given.workers, recorder(VOLUMES_COMPONENT))
            case options.CLAIM_PROTECTION:
                return ClaimProtection(runtime, binding, Announcer(recorder(CLAIM_PROTECTION_COMPONENT), runtime.clock))
            case options.VOLUME_PROTECTION:
                return VolumeProtection(runtime, binding)
            case options.ATTRIBUTES_PROTECTION:
                return AttributesClassProtection(runtime, binding)
            case options.EPHEMERAL:
                return EphemeralVolumes(runtime, binding, Announcer(recorder(EPHEMERAL_COMPONENT), runtime.clock))
            case options.SCHEDULER:
                return Scheduler(runtime, binding, given, recorder(given.scheduler_name))
        raise AssertionError(f"no part is called {name}")

    parts = [make(name) for name in sorted(given.parts)]
    looks = [binding.look_at_all, *(part.look_at_all for part in parts)]
    manager = Manager(shared, *(controller for part in parts for controller in part.controllers), first_looks=looks)
    for component, events in recorders.items():
        manager.beside(f"binder/events/{component}", events)
    return manager
