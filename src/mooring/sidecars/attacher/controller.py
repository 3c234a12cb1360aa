"""The attacher: the events that wake a key, the keys that run side by side, and the consequences of a failure.

Two queues, as in external-attacher: attachments, and volumes for the finalizer's end. A key that failed comes again after its back-off, or
at once when something changes that could heal it: the volume, the node's registration, room on a full node, the backend.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, ObjectReference
from mooring.api.meta import Key, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.backoff import retry_backoff
from mooring.base.clock import Instant, rfc3339
from mooring.base.log import logger
from mooring.base.text import shortened
from mooring.control.caches import Caches
from mooring.control.controller import Controller
from mooring.control.events import EventRecorder
from mooring.control.manager import Loop, Manager
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.slim import always
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import Informer
from mooring.kube.cache.store import Store
from mooring.kube.errors import ApiError
from mooring.sidecars.attacher.calls import CallSlots, idle, secret_read
from mooring.sidecars.attacher.decide import decide_attachment, decide_volume
from mooring.sidecars.attacher.decision import Decision
from mooring.sidecars.attacher.drift import Rounds
from mooring.sidecars.attacher.event_handlers import EventHandlers, room_on
from mooring.sidecars.attacher.memory import Memory
from mooring.sidecars.attacher.options import AttacherOptions
from mooring.sidecars.attacher.reconcile import Reconciler
from mooring.sidecars.attacher.view import ATTACHMENT_INDEXES, VOLUME_INDEXES, View, keeps_of_attachment, keeps_of_node, keeps_of_volume
from mooring.sidecars.attacher.writes import Failed, Target
from mooring.wire.grpc.codes import Code

log = logger(__name__)

WORKERS_PER_CALL: Final = 4
"""Workers for each allowed call, for the writes before and after it."""

LASTS: Final = 2
"""Failures in a row after which one more is told that is mostly passing."""

ERROR_BYTES_MAX: Final = 1024
"""For a VolumeError's message; the API server refuses more, and then nobody would see the error."""


ATTACH_FAILED: Final = "FailedAttachVolume"
DETACH_FAILED: Final = "FailedDetachVolume"
"""Reasons of events; of the same words as those that the attach/detach controller sends to pods and claims."""


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
        calls_max = options.worker_threads
        self._attachments: Controller[str] = Controller(
            runtime,
            "csi-attacher-va",
            self._reconcile_attachment,
            workers=calls_max * WORKERS_PER_CALL,
            backoff=back_off,
            label="VolumeAttachment",
            log=log,
        )
        self._volumes: Controller[str] = Controller(
            runtime, "csi-attacher-pv", self._reconcile_volume, workers=calls_max, backoff=back_off, label="PersistentVolume", log=log
        )
        super().__init__(caches, self._attachments, self._volumes)
        self._options, self._clock, self._events = options, runtime.clock, events
        if events is not None:
            self.beside("attacher/events", events)

        capabilities, resync_s = capabilities_of(info), options.resync_s
        keeps = keeps_of_attachment(capabilities.name)
        attachments = caches.of(VOLUME_ATTACHMENTS, keeps=keeps, indexes=ATTACHMENT_INDEXES, resync_s=resync_s)
        volumes = caches.of(PERSISTENT_VOLUMES, keeps=keeps_of_volume, indexes=VOLUME_INDEXES, resync_s=resync_s)
        nodes: Informer[CSINode] | None = (
            caches.of(CSI_NODES, keeps=always(keeps_of_node(capabilities.name))) if capabilities.publishes else None
        )
        self._slots = CallSlots(calls_max, self._attachments.add, self._goes_later)
        self._store, self._memory = attachments.store, Memory()
        node_store: Store[CSINode] = Store() if nodes is None else nodes.store
        self._view = View(capabilities, attachments.store, volumes.store, node_store, self._slots, self._memory, options.default_fstype)
        self._handlers = EventHandlers(self._view, self._attachments, self._volumes)
        self._reconciler = Reconciler(
            runtime,
            self._view,
            attachments,
            volumes,
            nodes,
            driver,
            options.timeout_s,
            self._handlers.publish_undone,
            self._attachments.tell,
        )
        self._rounds = Rounds(driver, self._view, attachments.store, self._attachments, options, runtime.clock)
        self._attachments.watch(attachments, self._handlers.attachment_changed)
        self._volumes.watch(volumes, self._handlers.volume_changed)
        if nodes is not None:
            self._attachments.watch(nodes, self._handlers.node_changed)
        if capabilities.publishes and capabilities.lists_published_nodes:
            self.beside("attacher/drift", Loop(self._compare))

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

    # -- attachments

    async def _reconcile_attachment(self, name: str) -> Result:
        began_s = self._clock.now()
        try:
            decision = decide_attachment(self._view, name)  # no await between this and the slot
            self._attachments.explain(name, decision.because)
            if decision.needs_slot:
                self._slots.wait(decision.volume_handle, name)
                return Result(decision.because, keeps_backoff=True)
            if decision.shares is not None:
                self._memory.secrets.share(name, decision.shares)
                return Result(decision.because, keeps_backoff=True, waits_for=frozenset({secret_read(decision.shares)}))
            target = Target(name, decision.uid)
            try:
                await self._carry_out(target, decision)
            except Failed as failure:
                raise await self._failed(target, decision, failure) from failure
            if not decision.again:
                self._memory.mark_drift(name, None)
                self._log_done(name, decision, began_s)
            return Result(decision.because, again=decision.again)
        finally:
            self._slots.reconciled(name)

    async def _carry_out(self, target: Target, decision: Decision) -> None:
        """Raises Stale, and Failed, also for a problem that the decision found."""
        handle = decision.volume_handle
        try:
            if handle is None:
                await self._reconciler.carry_out(target, decision.actions, _nothing)
            else:
                with self._slots.begin(handle, target.name) as slot:
                    await self._reconciler.carry_out(target, decision.actions, slot.call_over)
        finally:
            self._memory.worked_on(target.name)
            if handle is not None or not decision.again:
                self._memory.secrets.forget(target.name)
            if handle is not None:
                self._volumes.tell(idle(handle))
        if decision.problem is not None:
            raise Failed(decision.problem.error)

    def _log_done(self, name: str, decision: Decision, began_s: Instant) -> None:
        """One line for what has been done."""
        if not decision.actions or not log.enabled(2):
            return
        if decision.done:
            result = f"{decision.done} in {(self._clock.now() - began_s) * 1000:.0f} ms"
            log.info(2, "done", VolumeAttachment=name, result=result, node_id=decision.node_id)
        else:
            log.info(2, "done", VolumeAttachment=name, result=str(decision.because))

    async def _failed(self, target: Target, decision: Decision, failure: Failed) -> Retry:
        """Shows the failure to the user."""
        text = shortened(str(failure), ERROR_BYTES_MAX)
        if decision.undoing:
            self._memory.undo_failed(target.name)
            await self._show_to_the_next(target.name, text)
            return Retry(f"failed to undo a publish: {text}", because=decision.because)
        attachment = target.find(self._view)
        is_told = failure.reported or (failure.is_told_when_it_lasts and self._attachments.failures(target.name) >= LASTS)
        if attachment is not None and is_told:
            await self._show(attachment, decision.detaching, text, failure.code)
        is_full = attachment is not None and failure.code == Code.RESOURCE_EXHAUSTED
        heals = (room_on(attachment.spec.node_name),) if attachment is not None and is_full else ()
        return Retry(f"failed to {'detach' if decision.detaching else 'attach'}: {text}", heals=heals, because=decision.problem)

    async def _show_to_the_next(self, name: str, text: str) -> None:
        """An attachment that has the name of a vanished one hears what it waits for."""
        attachment = self._view.attachment(name)
        if attachment is not None and attachment.spec.attacher == self._view.driver.name:
            waits = f"waits until what an earlier VolumeAttachment of this name left published is taken back: {text}"
            await self._show(attachment, is_deleting(attachment), shortened(waits, ERROR_BYTES_MAX), None)

    async def _show(self, attachment: VolumeAttachment, detaching: bool, text: str, code: int | None) -> None:
        name = attachment.metadata.name
        field = "detachError" if detaching else "attachError"
        shown_code = code if self._options.report_error_codes and not detaching else None
        target = Target(name, attachment.metadata.uid)
        if self._events is not None:
            self._events.event(_reference_to(attachment), "Warning", DETACH_FAILED if detaching else ATTACH_FAILED, text)
        try:
            await self._reconciler.writes.save_error(target, field, text, rfc3339(self._clock.wall_s()), shown_code)
        except ApiError as error:
            log.error("could not save the error in the status", error=error, VolumeAttachment=name)

    # -- PersistentVolumes

    async def _reconcile_volume(self, name: str) -> Result:
        decision = decide_volume(self._view, name)
        self._volumes.explain(name, decision.because)
        try:
            await self._reconciler.carry_out(Target(name, ""), decision.actions, _nothing)
        except Failed as failure:
            raise Retry(str(failure)) from failure
        done = "removed the finalizer" if decision.actions else ""
        return Result(decision.because, done=done, waits_for=decision.waits_for)


def _reference_to(attachment: VolumeAttachment) -> ObjectReference:
    """For events."""
    kind, meta = VOLUME_ATTACHMENTS, attachment.metadata
    return ObjectReference(kind.api_version, kind.name, "", meta.name, meta.uid, meta.resource_version)


def _nothing() -> None:
    """In place of the end of a call, where none is made."""
