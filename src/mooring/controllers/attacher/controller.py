"""The attacher's shell: what wakes a key, which keys run side by side, and what a failure leads to.

Two queues, as in external-attacher: attachments, and volumes for the finalizer's end. A key that failed comes again after its back-off, or
at once when something changes that could heal it: the volume, the node's registration, room on a full node, the backend.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Final

from mooring.api.core import PERSISTENT_VOLUMES, PersistentVolume
from mooring.api.meta import Key, is_deleting
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS, CSINode, VolumeAttachment
from mooring.base.clock import Clock, rfc3339
from mooring.base.log import Logger, logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.base.text import shortened
from mooring.control.draining import Shift
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.control.secrets import SecretCache
from mooring.controllers.attacher import reasons as why
from mooring.controllers.attacher.actions import Actions, Undo
from mooring.controllers.attacher.decide import decide_attachment, decide_volume
from mooring.controllers.attacher.decision import Decision
from mooring.controllers.attacher.reconcile import Reconciler
from mooring.controllers.attacher.turns import Turns
from mooring.controllers.attacher.view import ATTACHMENT_INDEXES, Drift, View, attachment_pruner, facts_of, node_pruner, prune_volume
from mooring.controllers.attacher.wakes import Wakes
from mooring.controllers.attacher.writes import CacheWasBehind, Failed, Target, Writes
from mooring.csi.codes import Code
from mooring.csi.driver import Driver
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import Informer, obstacles
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

log = logger(__name__)

WORKERS_PER_CALL: Final = 4
"""Workers for each allowed call, for the writes before and after it."""

ERROR_BYTES_MAX: Final = 1024
"""Of a VolumeError's message; the API server refuses more, and then nobody would see the error."""

STEPS_MAX: Final = 4
"""Decisions for one key in a row before others get their turn: hold the volume, attach, and twice a cache that was behind."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttacherOptions:
    """The attacher's flags, under their names. Durations in seconds."""

    timeout_s: float = 15.0
    worker_threads: int = 10
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    resync_s: float = 600.0
    reconcile_sync_s: float = 60.0
    max_entries: int = 0
    default_fstype: str = ""
    report_error_codes: bool = True  # the gate MutableCSINodeAllocatableCount


class Attacher:
    """The controller for one driver.

    Reads VolumeAttachments, PersistentVolumes and (for drivers that publish) CSINodes; decides with `decide`; acts through `Actions`.
    """

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        info: DriverInfo,
        options: AttacherOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
    ) -> None:
        self._options = options
        self._clock = clock
        self._facts = facts_of(info)
        resync_s = options.resync_s
        self._attachments: Informer[VolumeAttachment] = Informer(
            cluster,
            VOLUME_ATTACHMENTS,
            clock=clock,
            chance=chance,
            indexes=ATTACHMENT_INDEXES,
            prune=attachment_pruner(info.name),
            resync_s=resync_s,
        )
        self._volumes: Informer[PersistentVolume] = Informer(
            cluster, PERSISTENT_VOLUMES, clock=clock, chance=chance, prune=prune_volume, resync_s=resync_s
        )
        self._nodes: Informer[CSINode] = Informer(cluster, CSI_NODES, clock=clock, chance=chance, prune=node_pruner(info.name))
        back_off = BackOff(options.retry_interval_start_s, options.retry_interval_max_s)
        queue_metrics = metrics.once(QueueMetrics)
        self._queue: WorkQueue[str] = WorkQueue("csi-attacher-va", clock=clock, chance=chance, backoff=back_off, metrics=queue_metrics)
        self._volume_queue: WorkQueue[str] = WorkQueue(
            "csi-attacher-pv", clock=clock, chance=chance, backoff=back_off, metrics=queue_metrics
        )
        self._shift = Shift()
        self._writes = Writes(cluster, self._attachments, self._volumes)
        self._actions = Actions(
            cluster, self._writes, self._volumes, self._nodes, driver, SecretCache(cluster, clock), timeout_s=options.timeout_s
        )
        drift: dict[str, Drift] = {}
        self._turns = Turns(options.worker_threads, self._queue.add, self._goes_later)
        self._view = View(
            driver=self._facts,
            attachments=self._attachments.store,
            volumes=self._volumes.store,
            nodes=self._nodes.store,
            drift=drift,
            calls=self._turns,
            default_fs_type=options.default_fstype,
            maybe_claimed=self._writes.maybe_claimed,
            doubts=self._actions.doubts,
        )
        self._reconciler = Reconciler(driver, self._view, drift, self._attachments.store.values, self._queue.add, options, clock)
        self._wakes = Wakes(self._view, self._queue, self._volume_queue, self._attachment_ended)
        self._actions.on_taken_back = self._wakes.taken_back
        self._attachments.on_change(self._wakes.attachment_changed)
        self._volumes.on_change(self._wakes.volume_changed)
        self._nodes.on_change(self._wakes.node_changed)

    @property
    def has_synced(self) -> bool:
        """True once every cache has been filled."""
        return all(informer.has_synced for informer in self._informers)

    @property
    def obstacle(self) -> str:
        """What keeps a cache from following the API server, "" for nothing that is known."""
        return obstacles(self._informers)

    @property
    def _informers(self) -> tuple[Informer[VolumeAttachment] | Informer[PersistentVolume] | Informer[CSINode], ...]:
        if self._facts.publishes:
            return (self._attachments, self._volumes, self._nodes)
        return (self._attachments, self._volumes)

    # -- life

    async def run(self) -> None:
        """Attaches and detaches until cancelled, or until drained."""
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(i.run(), name=f"attacher/{i.name}") for i in self._informers]
            for informer in self._informers:
                await informer.synced()
            log.info(2, "caches synced", driver=self._facts.name)
            if self._facts.publishes and self._facts.lists_published_nodes:
                helpers.append(group.create_task(self._reconciler.run(), name="attacher/reconcile"))
            await self._work()
            for helper in helpers:
                helper.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new work, lets what runs end and be stored. timeout_s: how long at the most. Returns False when that was too short."""
        self._queue.close()
        self._volume_queue.close()
        return await self._shift.over(timeout_s)

    async def _work(self) -> None:
        async with self._shift.workers() as group:
            for number in range(self._options.worker_threads * WORKERS_PER_CALL):
                group.create_task(self._queue.work(self._attach_or_detach), name=f"attacher/worker/{number}")
            for number in range(self._options.worker_threads):
                group.create_task(self._volume_queue.work(self._release_volume), name=f"attacher/volume-worker/{number}")

    def driver_returned(self) -> None:
        """The driver was away and is back: whatever failed may have failed for that."""
        self._wakes.retry_now(self._attachments.store.values())

    def _goes_later(self, name: str) -> bool:
        """Of those who wait for one volume detaches go first."""
        attachment = self._attachments.store.get(Key("", name))
        return attachment is None or not is_deleting(attachment)

    def _attachment_ended(self, name: str) -> None:
        self._turns.forget(name)
        self._reconciler.forget(name)
        self._writes.forget(name)
        if self._actions.attachment_ended(name):
            self._queue.add(name)

    # -- one key

    async def _attach_or_detach(self, name: str) -> None:
        undo = self._actions.pending_undo(name)
        if undo is not None:
            await self._undo(name, undo)
        else:
            began_s = self._clock.now()
            for _ in range(STEPS_MAX):
                if not await self._decide_and_do(name, began_s):
                    break
            else:
                self._queue.add(name)
        self._turns.looked_at(name)

    async def _decide_and_do(self, name: str, began_s: float) -> bool:
        """Returns True when there is more to decide at once. began_s: when the key's turn began."""
        view = self._view
        decision = decide_attachment(view, name)  # no await between this and the turn
        told = log.bind(VolumeAttachment=name)
        if told.enabled(4):
            told.info(4, "decided", because=str(decision.because))
        if isinstance(decision.because, why.CallInFlight | why.NoFreeCall):
            self._turns.wait(decision.because.volume_handle if isinstance(decision.because, why.CallInFlight) else None, name)
            return False
        target = Target(name, decision.uid)
        try:
            await self._do(view, target, decision)
        except CacheWasBehind:
            return True
        except Failed as failure:
            await self._failed(target, decision, failure)
            return False
        if decision.again:
            return True
        self._queue.forget(name)
        if decision.actions:
            _tell_done(told, decision.because, self._clock.now() - began_s)
        self._reconciler.settled(name)
        return False

    async def _do(self, view: View, target: Target, decision: Decision) -> None:
        """Raises Failed, also for what the decision found wrong."""
        with contextlib.ExitStack() as stack:
            call_over: Callable[[], None] = _nothing
            if decision.volume_handle is not None:
                attachment = target.find(view)
                assert attachment is not None, "decided a moment ago"
                stack.callback(self._wakes.call_ended, attachment)
                call_over = stack.enter_context(self._turns.begin(decision.volume_handle, target.name)).call_over
            stack.enter_context(self._reconciler.moving(target.name))
            await self._actions.perform(view, target, decision, call_over)
        if decision.problem is not None:
            raise Failed(decision.problem.error)

    async def _undo(self, name: str, undo: Undo) -> None:
        volume_taken = undo.volume_handle in self._turns.in_flight
        if volume_taken or self._turns.calls_full:
            self._turns.wait(undo.volume_handle if volume_taken else None, name)
            return
        try:
            with contextlib.ExitStack() as stack:
                stack.callback(self._wakes.call_ended, undo.attachment)
                stack.enter_context(self._turns.begin(undo.volume_handle, name))
                await self._actions.undo(self._view, undo)
        except Failed as failure:
            delay_s = self._queue.retry(name)
            log.error(
                "failed to undo a publish", error=failure, VolumeAttachment=name, volume=undo.volume_handle, retry_in_s=round(delay_s, 3)
            )
            return
        self._queue.add(name)  # and now for what stands under the name

    async def _failed(self, target: Target, decision: Decision, failure: Failed) -> None:
        """Shows the failure to the user and puts the key into its back-off."""
        delay_s = self._queue.retry(target.name)
        field, verb = ("detachError", "detach") if decision.detaching else ("attachError", "attach")
        told, text = log.bind(VolumeAttachment=target.name), shortened(str(failure), ERROR_BYTES_MAX)
        if decision.problem is not None:
            told = told.bind(because=str(decision.problem))
        told.error(f"failed to {verb}: {text}", retry_in_s=round(delay_s, 3))
        view = self._view
        attachment = target.find(view)
        if attachment is None:
            return
        if failure.code == Code.RESOURCE_EXHAUSTED:
            self._wakes.node_is_full(attachment.spec.node_name)
        if not failure.reported:
            return
        code = failure.code if self._options.report_error_codes and not decision.detaching else None
        try:
            await self._writes.save_error(view, target, field, text, rfc3339(self._clock.wall_s()), code)
        except ApiError as error:
            told.error("could not save the error in the status", error=error)

    async def _release_volume(self, name: str) -> None:
        view = self._view
        decision = decide_volume(view, name)
        told = log.bind(PersistentVolume=name)
        if told.enabled(4):
            told.info(4, "decided", because=str(decision.because))
        try:
            await self._actions.perform(view, Target(name, ""), decision, _nothing)
        except Failed as failure:
            told.error(str(failure), retry_in_s=round(self._volume_queue.retry(name), 3))
            return
        self._volume_queue.forget(name)
        if decision.actions:
            told.info(2, "removed the finalizer", because=str(decision.because))


def _tell_done(told: Logger, because: why.Because, seconds: float) -> None:
    """One line for what has been done. seconds: since the key's turn began."""
    if isinstance(because, why.Attaching | why.Detaching):
        told.info(2, "done", result=f"{because.done} in {seconds * 1000:.0f} ms", node_id=because.node_id)
    else:
        told.info(2, "done", result=str(because))


def _nothing() -> None:
    """In place of a turn's end, where no turn was taken."""
