"""The resizer: growing and modifying as two controllers on common caches, as one manager.

Each has its own queue and back-off, so that a growth which fails does not hold up a modification; at the driver they
take turns for each volume. A claim that failed comes again after its back-off, or at once when something changes that
could heal it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, key_of
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, VolumeAttributesClass
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.call_slots import CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, rests
from mooring.control.events import EventRecorder
from mooring.control.manager import Idle, Loop, Manager, Worker
from mooring.control.object_writer import ObjectWriter
from mooring.control.runtime import Runtime
from mooring.control.slim import always, changed
from mooring.control.topics import Topic
from mooring.csi.driver import Call, Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cache.store import Store
from mooring.sidecars.resizer.decision import volume_changed
from mooring.sidecars.resizer.expansion.reconcile import Reconciler as Expansion
from mooring.sidecars.resizer.metrics import GrowthMetrics
from mooring.sidecars.resizer.modification.reconcile import Reconciler as Modification
from mooring.sidecars.resizer.options import ResizerOptions
from mooring.sidecars.resizer.pods_in_use import PodsInUse, released
from mooring.sidecars.resizer.reconcile import ClaimReconciler
from mooring.sidecars.resizer.view import (
    ATTRIBUTES_CLASS,
    BY_CLASS,
    BY_VOLUME,
    CLAIM,
    CLAIM_INDEXES,
    Memory,
    View,
    keeps_of_volume,
)
from mooring.wire.grpc.codes import Code

log = logger(__name__)


async def grows_on_nodes(driver: Driver, timeout_s: float) -> bool:
    """True for a driver that grows volumes on their nodes, as the node service at the controller's socket says. Raises
    DriverError.
    """
    try:
        answer = await driver.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), Call(timeout_s))
    except DriverError as error:
        if error.code != Code.UNIMPLEMENTED:
            raise
        return False  # there is no node service at this socket
    return any(one.rpc.type == csi.NodeServiceCapability.RPC.EXPAND_VOLUME for one in answer.capabilities)


class Resizer(Manager):
    """The controllers for one driver, as a program starts them. on_node: the driver grows volumes on their nodes.

    A driver that grows volumes neither there nor on the controller has no controller for that; where the API server has
    no classes there is none for them. With neither the resizer waits for its end, as external-resizer does.
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
        claims = caches.of(
            PERSISTENT_VOLUME_CLAIMS, keeps=always(CLAIM), indexes=CLAIM_INDEXES, resync_s=options.resync_s
        )
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume(capabilities.name), resync_s=options.resync_s)
        classes = (
            caches.of(VOLUME_ATTRIBUTES_CLASSES, keeps=always(ATTRIBUTES_CLASS), awaited=False)
            if options.modify and capabilities.modifies
            else None
        )
        class_store: Store[VolumeAttributesClass] = Store() if classes is None else classes.store
        self._pods, calls = PodsInUse(runtime, self._tell_all), CallSlots[str](self._tell_all)
        view = View(capabilities, options, claims.store, volumes.store, class_store, self._pods, calls, Memory())
        runtime.metrics.once(GrowthMetrics).show(claims, view, runtime.clock)
        shared = (
            *(calls, ObjectWriter(runtime.cluster, PERSISTENT_VOLUME_CLAIMS, claims)),
            *(ObjectWriter(runtime.cluster, PERSISTENT_VOLUMES, volumes), driver, events),
        )
        self._parts: list[ClaimController] = []
        if capabilities.expands or on_node:
            expansion = ClaimController(runtime, Expansion(runtime, view, *shared))
            expansion.controller.watch(self._pods.informer, tells=released)
            self._parts.append(expansion)
        if options.modify:  # also where the driver can't: users are to hear of it
            view = msgspec.structs.replace(view, memory=Memory())
            modification = ClaimController(runtime, Modification(runtime, view, *shared), needs=classes)
            if classes is not None:
                modification.controller.watch(classes, modification.class_changed)
            self._parts.append(modification)
        for one in self._parts:
            one.controller.watch(claims, one.claim_changed)
            one.controller.watch(volumes, one.volume_changed)
        workers: list[Worker] = [*self._parts]
        super().__init__(caches, *(workers or [Idle()]), first_looks=[self._look])
        self.beside("resizer/pods", Loop(self._pods.run))
        self.beside("resizer/events", events)

    def _tell_all(self, topic: Topic) -> None:
        """Growing and modifying wait for the same topics."""
        for one in self._parts:
            one.controller.tell(topic)

    async def _look(self) -> None:
        for one in self._parts:
            one.look_at_all()

    def driver_returned(self) -> None:
        """The driver was away and is back."""
        for one in self._parts:
            one.driver_returned()


class ClaimController:
    """The queue of growing, or of modifying, and the changes that wake its claims.

    Our own writes wake no claim, so that the report of a failure does not defeat its back-off. But where the answer to
    a write shows a change by others, that wakes the claim as its event would, for the event brings nothing new any
    more. needs: a cache that this controller alone waits for.
    """

    def __init__(self, runtime: Runtime, reconciler: ClaimReconciler, needs: Informer[Any] | None = None) -> None:
        self._view, self._reconciler, self._needs, self._is_to_end = reconciler.view, reconciler, needs, asyncio.Event()
        options = reconciler.view.options
        self.controller: Controller[Key] = Controller(
            runtime,
            f"{reconciler.view.driver.name}-pvc",
            Deciding(reconciler.decide, reconciler.perform, reconciler.show, reconciler.work),
            workers=options.workers,
            backoff=retry_backoff(options.retry_interval_start_s, options.retry_interval_max_s),
            label="PersistentVolumeClaim",
            log=log,
        )

    # -- life

    @property
    def name(self) -> str:
        return self.controller.name

    async def run(self) -> None:
        """Work until cancelled, or until drained, as soon as the cache that it needs is filled. The others are."""
        if self._needs is not None:
            async with asyncio.TaskGroup() as group:
                begun = (("synced", self._needs.synced()), ("end", self._is_to_end.wait()))
                waits = [group.create_task(one, name=f"{self.name}/{what}") for what, one in begun]
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for one in waits:
                    one.cancel()
        await self.controller.run()

    async def drain(self, timeout_s: float) -> bool:
        """Begin nothing new, and let the calls in hand end. False when timeout_s was too short."""
        self._is_to_end.set()
        return await self.controller.drain(timeout_s)

    # -- what wakes claims

    def look_at_all(self) -> None:
        """Look at every claim once, since a term begins."""
        self.controller.add_later(self.controller.newest_due(self._view.claims, key_of, rests(self._reconciler.decide)))

    def claim_changed(self, change: Change[PersistentVolumeClaim]) -> Iterable[Key]:
        if change.new is None:
            self.controller.forget(change.key)
            self._reconciler.forget(change.object)
            return ()
        return (change.key,) if is_news(self._reconciler, change.old, change.new, change.cause) else ()

    def volume_changed(self, change: Change[PersistentVolume]) -> Iterable[Key]:
        """A volume that came, or is not what it was, may heal a failure of its claim; it also may have become the
        claim's.
        """
        if change.cause in (Cause.OWN_WRITE, Cause.RESYNC) or change.new is None or not changed(change.old, change.new):
            return ()
        self.controller.tell(volume_changed(change.key.name))
        return self._hurried(self._view.claims.by(BY_VOLUME, change.key.name))

    def class_changed(self, change: Change[VolumeAttributesClass]) -> Iterable[Key]:
        if change.new is None or not changed(change.old, change.new):
            return ()
        return self._hurried(self._view.claims.by(BY_CLASS, change.key.name))

    def _hurried(self, claims: Iterable[PersistentVolumeClaim]) -> tuple[Key, ...]:
        """These claims are tried again at once, also where the driver called their requests infeasible."""
        keys = tuple(map(key_of, claims))
        for key in keys:
            self._view.memory.hurry(key)
        self.controller.retry_now(keys)
        return keys

    def driver_returned(self) -> None:
        """The driver was away and is back. What it refused for good is asked for once more."""
        self.controller.retry_now(self._view.memory.driver_returned())
        self.controller.driver_returned()


def is_news(
    reconciler: ClaimReconciler | type[ClaimReconciler],
    old: PersistentVolumeClaim | None,
    new: PersistentVolumeClaim,
    cause: Cause,
) -> bool:
    """True for a change of a claim that calls for a look at it."""
    if old is None or cause is Cause.RESYNC:
        return True
    if cause is Cause.OWN_WRITE:
        is_another_wish = (old.spec, old.status.phase) != (new.spec, new.status.phase)
        return is_another_wish or reconciler.others_have_acted(old, new)
    return reconciler.facts(old) != reconciler.facts(new)
