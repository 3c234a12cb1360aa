"""Deletion: the changes that wake a PersistentVolume, and the reports of failures.

A deletion that is blocked (by an attachment, above all) waits for that to change, however long it takes: it is reported
once and costs nothing meanwhile. A volume whose deletion failed comes again after its back-off.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.api.core import ObjectReference, PersistentVolume
from mooring.api.storage import VolumeAttachment
from mooring.base.log import logger
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision, Failed, Read, rests
from mooring.control.events import EventOnce
from mooring.control.result import Problem, Result
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Change, FreshCache
from mooring.sidecars.provisioner.deletion.decide import (
    Action,
    Progress,
    TellObstacle,
    View,
    class_changed,
    decide_deletion,
    detached,
    handle_stored,
    intent_closed,
    object_changed,
)
from mooring.sidecars.provisioner.deletion.reconcile import DeletionMetrics, Reconciler
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import is_provisioned_by
from mooring.sidecars.provisioner.model.intent import IntentEnds

log = logger(__name__)

FAILED_DELETE: Final = "VolumeFailedDelete"


class VolumeDeletion:
    """Deletes volumes of released PersistentVolumes, and keeps their finalizer.

    ends: of the intents of volumes.
    """

    def __init__(self, env: Environment, ends: IntentEnds) -> None:
        runtime, caches, options = env.runtime, env.caches, env.options
        self._events, self._metrics = env.events, runtime.metrics.once(DeletionMetrics)
        self._progress: dict[str, Progress] = {}
        self._waiting: dict[str, str] = {}  # uids by name, of those that can't be deleted yet
        self._at_work: dict[str, PersistentVolume] = {}  # as they were decided on
        self._obstacles = EventOnce(None, runtime.clock)
        self.controller: Controller[str] = Controller(
            runtime,
            "volumes",
            Deciding(self._decide, self._perform, self._show, work="delete", ended=self._ended, reads=self._reads),
            workers=options.worker_threads,
            backoff=options.backoff,
            label="PersistentVolume",
            log=log,
        )
        self._volumes, self._attachments = caches.volumes, caches.attachments
        if self._attachments is not None:
            self.controller.watch(self._attachments, tells=_of_attachment)
        self._view = View(
            driver=env.capabilities,
            claims=caches.claims.store,
            volumes=caches.volumes.store,
            classes=caches.classes.store,
            nodes=caches.nodes.store,
            attachments=None if self._attachments is None else self._attachments.store,
            node_name="" if options.node is None else options.node.node_name,
            progress=self._progress,
            storing=env.storing,
        )
        attachments = (
            None if self._attachments is None else FreshCache(runtime.cluster, runtime.clock, self._attachments)
        )
        self._reconciler = Reconciler(env, self._view, self._progress, attachments, ends)
        env.bus.subscribe(topics.HANDLE_STORED, lambda handle: self.controller.tell(handle_stored(handle)))
        env.bus.subscribe(topics.INTENT_CLOSED, lambda pv_name: self.controller.tell(intent_closed(pv_name)))
        self.controller.watch(
            caches.volumes, self._volume_changed, tells=lambda change: (object_changed(change.key.name),)
        )
        self.controller.watch(caches.classes, tells=lambda change: (class_changed(change.key.name),))

    async def run(self) -> None:
        """Works until cancelled, or until drained. The shared caches have been filled; that of attachments may be
        late.
        """
        if self._attachments is not None:
            await self._attachments.synced()
        await self.controller.run()

    async def drain(self, timeout_s: float) -> bool:
        """Drain the controller: `Controller.drain`."""
        return await self.controller.drain(timeout_s)

    def driver_returned(self) -> None:
        """The driver was away and is back."""
        self.controller.driver_returned()

    async def look_at_all(self) -> None:
        """A term begins."""
        at_rest = rests(functools.partial(decide_deletion, self._view))
        self.controller.add_later(self.controller.newest_due(self._volumes.store, lambda pv: pv.metadata.name, at_rest))

    # -- waking volumes

    def _volume_changed(self, change: Change[PersistentVolume]) -> Iterator[str]:
        """Our own writes wake it too: their answer may be the only sign of a change by others."""
        if change.new is None:
            self._forget(change.key.name)
        elif is_provisioned_by(self._view.driver, change.new):
            yield change.key.name

    def _forget(self, name: str) -> None:
        self.controller.forget(name)
        self._progress.pop(name, None)
        self._waits_no_more(name)

    def _waits_no_more(self, name: str) -> None:
        if name in self._waiting:
            self._obstacles.forget(self._waiting.pop(name))

    # -- one volume

    def _decide(self, name: str) -> Decision[Action]:
        pv = self._view.volume(name)
        if pv is not None:
            self._at_work[name] = pv
        return decide_deletion(self._view, name)

    def _reads(self, name: str, decision: Decision[Action]) -> Sequence[Read]:
        """The reads before a volume goes: it may be retained by now, or another claim's, and a node may have it."""
        pv = self._at_work.get(name)
        return () if pv is None else self._reconciler.reads(pv, decision)

    async def _perform(self, name: str, decision: Decision[Action]) -> Result | None:
        """Raises Failed, Stale."""
        pv = self._at_work.get(name)
        if pv is None:
            self._forget(name)
            return None
        match decision.actions:
            case (TellObstacle(obstacle),) if decision.problem is not None:
                told_again_s = self._tell_obstacle(pv, decision.problem, obstacle.value)
                return Result(decision.because, waits_for=decision.waits_for, after_s=told_again_s, keeps_backoff=True)
        self._waits_no_more(name)
        if decision.actions:
            await self._reconciler.perform(pv, decision)
        if self._view.volume(name) is None:  # the watch was quicker than the answer
            self._forget(name)
        return Result(decision.because, done="done" if decision.actions else "")

    async def _show(self, name: str, decision: Decision[Action], failure: Failed) -> None:
        self._tell(self._at_work[name], str(failure))

    def _ended(self, name: str) -> None:
        self._at_work.pop(name, None)

    def _tell_obstacle(self, pv: PersistentVolume, problem: Problem, obstacle: str) -> float:
        """Now and then: the volume comes again when the obstacle has changed. Seconds until it is told again."""
        uid = pv.metadata.uid
        self._waiting[pv.metadata.name] = uid
        if self._obstacles.note(uid, obstacle):
            log.info(2, "not deleted yet", PersistentVolume=pv.metadata.name, because=str(problem))
            self._tell(pv, problem.error)
        return self._obstacles.left_s(uid, obstacle)

    def _tell(self, pv: PersistentVolume, text: str) -> None:
        self._metrics.failed.labels(pv.spec.storage_class_name).inc()
        meta = pv.metadata
        about = ObjectReference(
            api_version="v1",
            kind="PersistentVolume",
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        self._events.event(about, "Warning", FAILED_DELETE, text)


def _of_attachment(change: Change[VolumeAttachment]) -> tuple[Topic, ...]:
    return (detached(change.object.spec.source.persistent_volume_name or ""),) if change.new is None else ()
