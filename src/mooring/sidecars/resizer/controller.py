"""The resizer: growing and modifying as two controllers on common caches, as one manager.

Each has its own queue and back-off, so that a growth which fails does not hold up a modification; at the driver they take turns for each
volume.
"""

from __future__ import annotations

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from mooring.control.caches import Caches
from mooring.control.call_slots import CallSlots
from mooring.control.events import EventRecorder
from mooring.control.manager import Idle, Loop, Manager, Worker
from mooring.control.object_writer import ObjectWriter
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.kube.cache.store import Store
from mooring.sidecars.resizer.claim_controller import ClaimController, tells_all
from mooring.sidecars.resizer.event_handlers import EventHandlers, class_facts, growth_facts, node_has_acted
from mooring.sidecars.resizer.expansion.reconcile import Reconciler as Expansion
from mooring.sidecars.resizer.memory import Memory
from mooring.sidecars.resizer.metrics import GrowthMetrics
from mooring.sidecars.resizer.modification.reconcile import Reconciler as Modification
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.resizer.pods_in_use import PodsInUse, released
from mooring.sidecars.resizer.view import ATTRIBUTES_CLASS, CLAIM, CLAIM_INDEXES, View, keeps_of_volume


class Resizer(Manager):
    """The controllers for one driver, as a program starts them. on_node: the driver grows volumes on their nodes.

    A driver that grows volumes neither there nor on the controller has no controller for that, one that does not modify none for that;
    with neither it waits for its end, as external-resizer does where classes are off, and the driver does nothing else.
    events: of the driver's source; sent here. caches: a share of the program's, None for their own.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        info: DriverInfo,
        options: ResizerOptions,
        events: EventRecorder,
        *,
        on_node: bool = False,
        caches: Caches | None = None,
    ) -> None:
        capabilities = capabilities_of(info)
        caches = caches or Caches(runtime, "resizer")
        modifies = capabilities.modifies and options.modify
        claims = caches.of(
            PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM), indexes=CLAIM_INDEXES, resync_s=options.resync_s
        )
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume(capabilities.name), resync_s=options.resync_s)
        classes = (
            caches.of(VOLUME_ATTRIBUTES_CLASSES, keeps=always(ATTRIBUTES_CLASS), awaited=False) if modifies else None
        )
        class_store: Store[VolumeAttributesClass] = Store() if classes is None else classes.store
        controllers: list[ClaimController] = []
        tell = tells_all(controllers)
        self._pods, calls = PodsInUse(runtime, tell), CallSlots[str](tell)
        view = View(capabilities, options, claims.store, volumes.store, class_store, self._pods, calls, Memory())
        writers = (
            ObjectWriter(runtime.cluster, PERSISTENT_VOLUME_CLAIMS, claims),
            ObjectWriter(runtime.cluster, PERSISTENT_VOLUMES, volumes),
        )
        self._parts: list[tuple[ClaimController, EventHandlers]] = []

        runtime.metrics.once(GrowthMetrics).show(claims, view, runtime.clock)
        if capabilities.expands or on_node:
            expansion = ClaimController(runtime, view, Expansion(runtime, view, calls, *writers, driver, events))
            self._parts.append((expansion, EventHandlers(view, expansion, growth_facts, node_has_acted)))
            expansion.controller.watch(self._pods.informer, tells=released)
        if classes is not None:
            view = msgspec.structs.replace(view, memory=Memory())
            modification = ClaimController(
                runtime, view, Modification(runtime, view, calls, *writers, driver, events), needs=classes
            )
            handlers = EventHandlers(view, modification, class_facts)
            self._parts.append((modification, handlers))
            modification.controller.watch(classes, handlers.class_changed)

        for one, handlers in self._parts:
            controllers.append(one)
            one.controller.watch(claims, handlers.claim_changed)
            one.controller.watch(volumes, handlers.volume_changed)
        workers: list[Worker] = [*controllers]
        super().__init__(caches, *(workers or [Idle()]), first_looks=[self._look])
        self.beside("resizer/pods", Loop(self._pods.run))
        self.beside("resizer/events", events)

    async def _look(self) -> None:
        for _, handlers in self._parts:
            handlers.look_at_all()

    def driver_returned(self) -> None:
        """The driver was away and is back: any failure may have been due to that."""
        for _, handlers in self._parts:
            handlers.retry_now()
