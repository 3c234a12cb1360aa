"""The attacher: the changes that wake a key, and the parts that work on it, put together.

Two queues, as in external-attacher: attachments, and volumes for the finalizer's end. A key that failed comes again
after its back-off, or at once when something changes that could heal it: the volume, the node's registration, room on a
full node, the end of an attachment that held a single-node volume, the backend. Our own writes wake only keys that wait
for a deletion. But if the answer to a write shows a change by others, that wakes keys as its event would, since the
event will bring nothing new any more.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.backoff import retry_backoff
from mooring.base.log import logger
from mooring.control.backlog import newest_keys
from mooring.control.caches import Caches
from mooring.control.call_slots import CallSlots
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, rests
from mooring.control.manager import Loop, Manager
from mooring.control.runtime import Runtime
from mooring.control.slim import always, changed
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cache.store import Store
from mooring.sidecars.attacher.decide import decide_attachment, decide_volume
from mooring.sidecars.attacher.drift import Rounds
from mooring.sidecars.attacher.memory import Memory
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.reconcile import Reconciler, Telling, room_on
from mooring.sidecars.attacher.view import (
    ATTACHMENT_INDEXES,
    BY_NODE,
    BY_VOLUME,
    VOLUME,
    VOLUME_INDEXES,
    View,
    keeps_of_attachment,
    keeps_of_node,
    keeps_of_volume,
    node_mask,
)
from mooring.sidecars.attacher.writes import Writes

log = logger(__name__)

WORKERS_PER_CALL: Final = 4
"""Workers for each allowed call, for the writes before and after it."""


class Attacher(Manager):
    """The controllers for one driver, as a program starts them.

    They read VolumeAttachments, PersistentVolumes and (for drivers that publish) CSINodes. caches: a share of the
    program's, None for its own.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        info: DriverInfo,
        options: AttacherOptions,
        *,
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

        keeps = keeps_of_attachment(capabilities.name)
        attachments = caches.of(VOLUME_ATTACHMENTS, keeps=keeps, indexes=ATTACHMENT_INDEXES, resync_s=resync_s)
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES, resync_s=resync_s)
        nodes: Informer[CSINode] | None = (
            caches.of(CSI_NODES, keeps=always(keeps_of_node(capabilities.name))) if capabilities.publishes else None
        )
        self._store = attachments.store
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
            Memory(),
            options.default_fstype,
        )
        self._handlers = EventHandlers(view, self._attachments, self._volumes)
        writes = Writes(runtime.cluster, view, attachments, volumes, nodes)
        telling = Telling(view, writes, runtime.clock, options)
        reconciler = Reconciler(runtime, view, self._slots, writes, driver, options.timeout_s, self._attachments)
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
        """The driver was away and is back."""
        self._attachments.driver_returned()

    def _goes_later(self, name: str) -> bool:
        """Among the attachments that wait for one volume, detaches go first."""
        attachment = self._store.get(Key("", name))
        return attachment is None or not is_deleting(attachment)

    async def _compare(self) -> None:
        await self.caches.synced()
        await self._rounds.run()


class EventHandlers:
    """Handlers for the three caches, of one driver's attacher."""

    def __init__(self, view: View, attachments: Controller[str], volumes: Controller[str]) -> None:
        self._view, self._attachments, self._volumes = view, attachments, volumes
        self._node = node_mask(view.driver.name)

    def look_at_all(self) -> None:
        """Look at everything once, since a term begins."""
        view = self._view
        at_rest = rests(partial(decide_attachment, view))
        self._attachments.add_later(
            self._attachments.newest_due(view.attachments, lambda one: one.metadata.name, at_rest)
        )
        self._volumes.add_later(newest_keys(view.volumes, lambda pv: pv.metadata.name if view.releasable(pv) else None))

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._attachment_ended(old)
            return
        if new.spec.attacher == self._view.driver.name and is_news(old, new, own=change.cause is Cause.OWN_WRITE):
            self._attachments.add(new.metadata.name)
        if old is not None and self._view.holds(old) and not self._view.holds(new):
            self._place_freed(old)

    def _attachment_ended(self, old: VolumeAttachment) -> None:
        """Forget it: its name may come again, as another attachment without failures, since names are made of volume
        and node.
        """
        name, pv_name = old.metadata.name, old.spec.source.persistent_volume_name
        self._attachments.forget(name)
        if self._view.memory.ended(old):
            self._attachments.add(name)
        if pv_name:
            self._volumes.add(pv_name)
        self._place_freed(old)

    def _place_freed(self, old: VolumeAttachment) -> None:
        """Wake the attachments of the volume, which may move now, and those that wait for room on the node."""
        same = (one.metadata.name for one in self._view.of_same_volume(old))
        self._attachments.retry_now(name for name in same if name != old.metadata.name)
        self._attachments.tell(room_on(old.spec.node_name))

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        pv = change.new
        if pv is None:
            self._volumes.forget(change.key.name)
            self._view.memory.unsure_volumes.discard(change.key.name)
            return
        if self._view.releasable(pv):
            self._volumes.add(pv.metadata.name)
        if change.cause is not Cause.OWN_WRITE and changed(change.old, pv, VOLUME):
            self._retry(BY_VOLUME, pv.metadata.name)

    def node_changed(self, change: Change[CSINode]) -> None:
        # A node that is gone ends the back-off of detaches, too: the driver may not know it any more.
        if change.new is None or changed(change.old, change.new, self._node):
            self._retry(BY_NODE, change.key.name)

    def _retry(self, index: str, value: str) -> None:
        self._attachments.retry_now(one.metadata.name for one in self._view.attachments.by(index, value))


def is_news(old: VolumeAttachment | None, new: VolumeAttachment, *, own: bool = False) -> bool:
    """Return True for a change that wakes the attachment. own: it is the answer to one of our writes."""
    # Success beside an error: the answer to one of the two writes was lost.
    has_both = new.status.attached and new.status.attach_error is not None
    if own:  # beside an older success it is the error of attaching it again, which has its back-off
        return old is None or is_deleting(new) != is_deleting(old) or (has_both and not old.status.attached)
    had_both = old is not None and old.status.attached and old.status.attach_error is not None
    return worth_a_look(old, new) or (has_both and not had_both)


def worth_a_look(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """Return False for an update of errors or of field managers alone, so that error reports don't defeat the back-off.

    external-attacher 4.12 ignores such updates, too; managedFields are not decoded at all.
    """
    if old is None or old.metadata.resource_version == new.metadata.resource_version:
        return True
    has_errors = any((va.status.attach_error, va.status.detach_error) != (None, None) for va in (old, new))
    return not has_errors or _without_errors(old) != _without_errors(new)


def _without_errors(attachment: VolumeAttachment) -> VolumeAttachment:
    status = msgspec.structs.replace(attachment.status, attach_error=None, detach_error=None)
    meta = msgspec.structs.replace(
        attachment.metadata,
        resource_version="",
        finalizers=attachment.metadata.finalizers or None,
        labels=attachment.metadata.labels or None,
        annotations=attachment.metadata.annotations or None,
    )
    return msgspec.structs.replace(attachment, metadata=meta, status=status)
