"""The attacher: the events that wake a key, the keys that run side by side, and the consequences of a failure.

Two queues, as in external-attacher: attachments, and volumes for the finalizer's end. A key that failed comes again after its back-off, or
at once when something changes that could heal it: the volume, the node's registration, room on a full node, the backend.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Key, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.call_slots import CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import Deciding
from mooring.control.events import EventRecorder
from mooring.control.manager import Loop, Manager
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import Informer
from mooring.kube.cache.store import Store
from mooring.sidecars.attacher.decide import decide_attachment, decide_volume
from mooring.sidecars.attacher.drift import Rounds
from mooring.sidecars.attacher.event_handlers import EventHandlers
from mooring.sidecars.attacher.memory import Memory
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.reconcile import Reconciler
from mooring.sidecars.attacher.telling import Telling
from mooring.sidecars.attacher.view import (
    ATTACHMENT_INDEXES,
    VOLUME_INDEXES,
    View,
    keeps_of_attachment,
    keeps_of_node,
    keeps_of_volume,
)
from mooring.sidecars.attacher.writes import Writes

log = logger(__name__)

WORKERS_PER_CALL: Final = 4
"""Workers for each allowed call, for the writes before and after it."""


class Attacher(Manager):
    """The controllers for one driver, as a program starts them. caches: a share of the program's, None for its own.

    events: of failures, on the attachments themselves, sent here; None for none. Differs from external-attacher, which sends none.

    They read VolumeAttachments, PersistentVolumes and (for drivers that publish) CSINodes.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        info: DriverInfo,
        options: AttacherOptions,
        *,
        events: EventRecorder | None = None,
        caches: Caches | None = None,
    ) -> None:
        caches = caches or Caches(runtime, "informer")
        back_off = retry_backoff(options.retry_interval_start_s, options.retry_interval_max_s)
        calls_max, resync_s, capabilities = options.worker_threads, options.resync_s, capabilities_of(info)
        label, pv_label = VOLUME_ATTACHMENTS.name, PERSISTENT_VOLUMES.name
        workers = calls_max * WORKERS_PER_CALL
        self._attachments: Controller[str] = Controller(
            runtime, "csi-attacher-va", workers=workers, backoff=back_off, label=label, log=log
        )
        self._volumes: Controller[str] = Controller(
            runtime, "csi-attacher-pv", workers=calls_max, backoff=back_off, label=pv_label, log=log
        )
        super().__init__(caches, self._attachments, self._volumes, first_looks=[self._look])
        if events is not None:
            self.beside("attacher/events", events)

        keeps = keeps_of_attachment(capabilities.name)
        attachments = caches.of(VOLUME_ATTACHMENTS, keeps=keeps, indexes=ATTACHMENT_INDEXES, resync_s=resync_s)
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES, resync_s=resync_s)
        nodes: Informer[CSINode] | None = (
            caches.of(CSI_NODES, keeps=always(keeps_of_node(capabilities.name))) if capabilities.publishes else None
        )
        self._store, self._memory = attachments.store, Memory()
        self._slots: CallSlots[str] = CallSlots(
            self._volumes.tell, calls_max=calls_max, call_up=self._attachments.add, rank=self._goes_later
        )
        node_store: Store[CSINode] = Store() if nodes is None else nodes.store
        view = View(
            capabilities,
            attachments.store,
            volumes.store,
            node_store,
            self._slots,
            self._memory,
            options.default_fstype,
        )
        self._handlers = EventHandlers(view, self._attachments, self._volumes)
        writes = Writes(runtime.cluster, view, attachments, volumes, nodes)
        telling = Telling(view, writes, events, runtime.clock, options)
        reconciler = Reconciler(runtime, view, self._slots, writes, driver, options.timeout_s, self._handlers)
        self._attachments.reconcile_by(
            Deciding(
                partial(decide_attachment, view), reconciler.perform, telling.show, telling.work, self._slots.reconciled
            )
        )
        self._volumes.reconcile_by(Deciding(partial(decide_volume, view), reconciler.release))

        self._rounds = Rounds(driver, view, attachments.store, self._attachments, options, runtime.clock)
        self._attachments.watch(attachments, self._handlers.attachment_changed)
        self._volumes.watch(volumes, self._handlers.volume_changed)
        if nodes is not None:
            self._attachments.watch(nodes, self._handlers.node_changed)
        if capabilities.publishes and capabilities.lists_published_nodes:
            self.beside("attacher/drift", Loop(self._compare))

    async def _look(self) -> None:
        self._handlers.look_at_all()

    def driver_returned(self) -> None:
        """The driver was away and is back: any failure may have been due to that."""
        self._handlers.retry_now(self._store.values())

    def _goes_later(self, name: str) -> bool:
        """Among the attachments that wait for one volume, detaches go first."""
        attachment = self._store.get(Key("", name))
        return attachment is None or not is_deleting(attachment)

    async def _compare(self) -> None:
        await self.caches.synced()
        await self._rounds.run()
