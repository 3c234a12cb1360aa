"""Deletion's shell: what wakes a PersistentVolume, and what a failure leads to.

A deletion that something stands in the way of (an attachment, above all) waits for that to change, however long it takes: it is told
once and costs nothing meanwhile. What failed comes again after its back-off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mooring.api.classes import volume_class_of
from mooring.api.core import ObjectReference, PersistentVolume
from mooring.api.storage import StorageClass, VolumeAttachment
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.draining import Shift
from mooring.control.events import EventRecorder
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.control.secrets import SecretCache
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.deletion import reasons as why
from mooring.controllers.provisioner.deletion.actions import Actions, Changed, Failed
from mooring.controllers.provisioner.deletion.attachments import Attachments
from mooring.controllers.provisioner.deletion.decide import decide_deletion
from mooring.controllers.provisioner.deletion.metrics import DeletionMetrics
from mooring.controllers.provisioner.deletion.view import Here, Progress, View
from mooring.controllers.provisioner.driver_capabilities import DriverFacts
from mooring.controllers.provisioner.options import JITTER, ProvisionerOptions
from mooring.csi.driver import Driver
from mooring.kube.cache.informer import Change
from mooring.kube.cluster import Cluster

log = logger(__name__)

FAILED_DELETE: Final = "VolumeFailedDelete"

EVENT_LASTS_S: Final = 3600.0
"""The API server forgets events after an hour; what still holds then is told again, at the next resync."""


async def _at_once(uid: str) -> None:
    """There are no intents."""


class VolumeDeletion:
    """Deletes volumes of released PersistentVolumes, and keeps their finalizer.

    caches: run by whoever made them; has to be made before they run. here: the one node that is served, None: all. settled: as of Intents.
    deleted: called with the PersistentVolume once the driver has deleted its volume: there is room again.
    """

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        facts: DriverFacts,
        options: ProvisionerOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        events: EventRecorder,
        caches: Caches,
        secrets: SecretCache,
        *,
        settled: Callable[[str], Awaitable[None]] = _at_once,
        segments: Mapping[str, str] | None = None,
        deleted: Callable[[PersistentVolume], None] = lambda pv: None,
    ) -> None:
        self._facts = facts
        self._clock = clock
        self._events = events
        self._deleted = deleted
        self._worker_count = options.worker_threads
        self._volumes = caches.volumes
        self._metrics = metrics.once(DeletionMetrics)
        attachments = Attachments(cluster, clock, chance) if facts.publishes else None
        self.attachments = None if attachments is None else attachments.informer
        if self.attachments is not None:
            self.attachments.on_change(self._attachment_changed)
        self._progress: dict[str, Progress] = {}
        self._told: dict[str, tuple[str, type, Instant]] = {}  # of volumes that wait: uid, kind of problem, and when it was told
        self._view = View(
            driver=facts,
            volumes=caches.volumes.store,
            classes=caches.classes.store,
            attachments=None if self.attachments is None else self.attachments.store,
            here=None if options.node is None else Here(options.node.node_name, {} if segments is None else segments),
            progress=self._progress,
        )
        self._actions = Actions(
            cluster,
            driver,
            caches.volumes,
            caches.claims,
            secrets,
            self._progress,
            attachments,
            settled,
            timeout_s=options.timeout_s,
        )
        back_off = BackOff(options.retry_interval_start_s, options.retry_interval_max_s, jitter=JITTER)
        self._queue: WorkQueue[str] = WorkQueue("volumes", clock=clock, chance=chance, backoff=back_off, metrics=metrics.once(QueueMetrics))
        self._shift = Shift()
        caches.volumes.on_change(self._volume_changed)
        caches.classes.on_change(self._class_changed)

    # -- life

    async def run(self) -> None:
        """Deletes until cancelled, or until drained. The shared caches have been filled."""
        async with asyncio.TaskGroup() as group:
            watching = None
            if self.attachments is not None:
                watching = group.create_task(self.attachments.run(), name="provisioner/volumeattachments")
                await self.attachments.synced()
            async with self._shift.workers() as workers:
                for number in range(self._worker_count):
                    workers.create_task(self._queue.work(self._delete), name=f"provisioner/volume-worker/{number}")
            if watching is not None:
                watching.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new work, lets what runs end and be stored. timeout_s: how long at the most. Returns False when that was too short."""
        self._queue.close()
        return await self._shift.over(timeout_s)

    def driver_returned(self) -> None:
        """The driver was away and is back: whatever failed may have failed for that."""
        for pv in self._volumes.store.values():
            self._heal(pv.metadata.name)

    def making_over(self, name: str) -> None:
        """The volume's intent is over: that may have been what its deletion waited for."""
        self._heal(name)

    def is_ours(self, pv: PersistentVolume) -> bool:
        """True for volumes whose deletion is this driver's business."""
        return self._view.is_ours(pv)

    # -- what wakes a volume

    def _volume_changed(self, change: Change[PersistentVolume]) -> None:
        """Our own writes wake it too: their answer may be the only one to show what others did meanwhile."""
        if change.new is None:
            assert change.old is not None
            self._forget(change.old.metadata.name)
        elif self._view.is_ours(change.new):
            self._queue.add(change.new.metadata.name)

    def _forget(self, name: str) -> None:
        self._queue.forget(name)
        self._told.pop(name, None)
        self._progress.pop(name, None)

    def _attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        if change.new is None and change.old is not None:
            name = change.old.spec.source.persistent_volume_name or ""
            if name in self._told or self._queue.in_hand(name):
                self._queue.add(name)

    def _class_changed(self, change: Change[StorageClass]) -> None:
        """Its templates may have stood in the way."""
        for name in tuple(self._told):
            pv = self._view.volume(name)
            if pv is not None and volume_class_of(pv) == change.key.name:
                self._queue.add(name)

    def _heal(self, name: str) -> None:
        if self._queue.failures(name) or self._queue.in_hand(name):
            self._queue.forget(name)
            self._queue.add(name)

    # -- one volume

    async def _delete(self, name: str) -> None:
        started = self._clock.now()
        pv = self._view.volume(name)
        decision = decide_deletion(self._view, name)  # no await between this and the first action
        told = log.bind(PersistentVolume=name)
        if told.enabled(4):
            told.info(4, "decided", because=str(decision.because))
        if decision.problem is not None:
            assert pv is not None
            self._wait(pv, decision.problem)
            return
        self._told.pop(name, None)
        if pv is not None and decision.actions:
            try:
                await self._actions.perform(
                    pv,
                    decision,
                    stands=lambda: decide_deletion(self._view, name).actions == decision.actions,
                    deleted=lambda: self._succeeded(pv, self._clock.now() - started),
                )
            except Changed:
                self._queue.add(name)
                return
            except Failed as failure:
                self._failed(pv, failure)
                return
            told.info(2, "done", because=str(decision.because))
        self._queue.forget(name)
        if self._view.volume(name) is None:  # the watch was quicker than the answer
            self._forget(name)

    def _succeeded(self, pv: PersistentVolume, seconds: float) -> None:
        """The volume is gone, whatever becomes of its object: that may go without us."""
        class_name = pv.spec.storage_class_name
        self._metrics.deleted.labels(class_name).inc()
        self._metrics.duration.labels(class_name).observe(seconds)
        self._deleted(pv)

    def _wait(self, pv: PersistentVolume, problem: why.Problem) -> None:
        """Told once while the event lasts: the volume comes again when what stands in its way has changed."""
        news, now = (pv.metadata.uid, type(problem)), self._clock.now()
        before = self._told.get(pv.metadata.name)
        if before is not None and before[:2] == news and now - before[2] < EVENT_LASTS_S:
            return
        self._told[pv.metadata.name] = (*news, now)
        log.info(2, "not deleted yet", PersistentVolume=pv.metadata.name, because=str(problem))
        self._tell(pv, problem.error)

    def _failed(self, pv: PersistentVolume, failure: Failed) -> None:
        delay_s = self._queue.retry(pv.metadata.name)
        log.error(f"failed to delete: {failure}", PersistentVolume=pv.metadata.name, retry_in_s=round(delay_s, 3))
        if self._queue.failures(pv.metadata.name) >= failure.patience:
            self._tell(pv, str(failure))

    def _tell(self, pv: PersistentVolume, text: str) -> None:
        self._metrics.failed.labels(pv.spec.storage_class_name).inc()
        meta = pv.metadata
        about = ObjectReference(
            api_version="v1", kind="PersistentVolume", name=meta.name, uid=meta.uid, resource_version=meta.resource_version
        )
        self._events.event(about, "Warning", FAILED_DELETE, text)
