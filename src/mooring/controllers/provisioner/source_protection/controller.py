"""Source protection's shell: holds sources while volumes are made from them, lets them go when the last one is done.

Users are counted: claims that wait for a volume from the source, and volumes that are being made, whatever has become of their claims.
A finalizer that this process put on goes at once. One that was found, left by a process that died, goes after it was of no use for a
whole sweep interval: another instance may have put it there for a claim that has not been seen here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from weakref import WeakValueDictionary

from mooring.api.core import PersistentVolumeClaim
from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.draining import Shift
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.claims.claim import CLAIM_KIND, SNAPSHOT_KIND, Source
from mooring.controllers.provisioner.claims.view import BY_UID
from mooring.controllers.provisioner.driver_capabilities import DriverFacts
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.controllers.provisioner.source_protection import reasons as why
from mooring.controllers.provisioner.source_protection.decide import LetGoIfOurDrivers, decide_origin
from mooring.controllers.provisioner.source_protection.view import Origin, View, origin_of, origins_of, prune_snapshot, same_for_claims
from mooring.controllers.provisioner.source_protection.writes import Writes
from mooring.kube.cache.informer import Change, Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Forbidden, NotFound, NotServed

log = logger(__name__)

ASK_AGAIN_S: Final = 10.0


class SourceProtection:
    """The provisioner's `SourceGuard`. caches: run by whoever made them; has to be made before they run."""

    def __init__(
        self,
        cluster: Cluster,
        facts: DriverFacts,
        options: ProvisionerOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        caches: Caches,
    ) -> None:
        self._cluster = cluster
        self._facts = facts
        self._clock = clock
        self._worker_count = options.cloning_protection_threads
        interval_s = options.snapshot_orphan_sweep_interval_s
        self._sweeps = facts.snapshots and interval_s > 0
        self._snapshots: Informer[VolumeSnapshot] = Informer(
            cluster, VOLUME_SNAPSHOTS, clock=clock, chance=chance, prune=prune_snapshot, resync_s=interval_s
        )
        self._holders: dict[Origin, set[str]] = {}
        self._held_for: dict[str, Origin] = {}
        self._done: set[str] = set()
        self._ours: set[Origin] = set()
        self._unused_since: dict[Origin, Instant] = {}
        self._view = View(
            driver=facts,
            claims=caches.claims.store,
            volumes=caches.volumes.store,
            snapshots=self._snapshots.store,
            holders=self._holders,
            done=self._done,
            ours=self._ours,
            unused_since=self._unused_since,
            grace_s=interval_s,
        )
        self._writes = Writes(cluster, caches.claims, self._snapshots)
        self._locks: WeakValueDictionary[Origin, asyncio.Lock] = WeakValueDictionary()
        back_off = BackOff(options.retry_interval_start_s, options.retry_interval_max_s)
        self._queue: WorkQueue[Origin] = WorkQueue(
            "sources", clock=clock, chance=chance, backoff=back_off, metrics=metrics.once(QueueMetrics)
        )
        self._shift = Shift()
        caches.claims.on_change(self._claim_changed)
        self._snapshots.on_change(self._snapshot_changed)

    def on_snapshot(self, handler: Callable[[str], None]) -> None:
        """Calls the handler with namespace/name of each snapshot that changes for claims of it, as long as snapshots are watched."""

        def changed(change: Change[VolumeSnapshot]) -> None:
            if change.old is None or change.new is None or not same_for_claims(change.old, change.new):
                handler(str(change.key))

        self._snapshots.on_change(changed)

    # -- the guard

    async def hold(self, source: Source, uid: str) -> None:
        """Keeps the source from being deleted. uid: of the claim that needs it. Raises ApiError."""
        self.keep(source, uid)
        origin = origin_of(source)
        async with self._lock(origin):
            claim = None if origin.is_snapshot else self._view.claims.get(origin.key)
            if claim is not None and names.CLONE_FINALIZER in finalizers_of(claim):
                return
            if origin.is_snapshot:
                self._ours.add(origin)
            try:
                await self._writes.put_on(origin)
            except Forbidden as error:
                if not origin.is_snapshot:
                    raise
                log.error("not allowed to protect the snapshot, going on without", error=error, VolumeSnapshot=str(origin.key))

    def keep(self, source: Source, uid: str) -> None:
        """From here on nobody takes the finalizer off."""
        origin = origin_of(source)
        self._holders.setdefault(origin, set()).add(uid)
        self._held_for[uid] = origin
        self._done.discard(uid)

    async def let_go(self, source: Source, uid: str) -> None:
        """The claim's volume is made, or never will be."""
        origin = origin_of(source)
        if origin.is_snapshot and any(origins_of(claim) for claim in self._view.claims.by(BY_UID, uid)):
            self._done.add(uid)
        self.abandon(uid)
        self._queue.add(origin)

    def abandon(self, uid: str) -> None:
        """The claim needs nothing any more, or waits as all others do: no volume is being made for it."""
        origin = self._held_for.pop(uid, None)
        if origin is not None:
            self._holders[origin].discard(uid)
            if not self._holders[origin]:
                del self._holders[origin]
            self._queue.add(origin)

    def _lock(self, origin: Origin) -> asyncio.Lock:
        return self._locks.setdefault(origin, asyncio.Lock())

    # -- life

    async def run(self) -> None:
        """Lets go until cancelled, or until drained. The shared caches have been filled."""
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch_snapshots(), name="provisioner/volumesnapshots") if self._sweeps else None
            async with self._shift.workers() as workers:
                for number in range(self._worker_count):
                    workers.create_task(self._queue.work(self._look), name=f"provisioner/source-worker/{number}")
            if watching is not None:
                watching.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new work, lets what runs end. timeout_s: how long at the most. Returns False when that was too short."""
        self._queue.close()
        return await self._shift.over(timeout_s)

    def driver_returned(self) -> None:
        """Nothing waits for the driver here."""

    async def _watch_snapshots(self) -> None:
        """For strays. Without the right to list them there is nothing to sweep; a kind that is not served the cache waits for."""
        while True:
            try:
                await self._cluster.list(VOLUME_SNAPSHOTS, limit=1)
                break
            except NotServed:
                break
            except Forbidden as error:
                log.error("not allowed to list snapshots, finalizers that others left stay", error=error)
                return
            except ApiError as error:
                log.info(2, "could not list snapshots, trying again", why=str(error))
                await self._clock.sleep(ASK_AGAIN_S)
        await self._snapshots.run()

    # -- what wakes a source

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        old, new = change.old, change.new
        if new is not None and is_deleting(new) and names.CLONE_FINALIZER in finalizers_of(new):
            self._queue.add(Origin(CLAIM_KIND, new.metadata.namespace, new.metadata.name))
        waits_for = () if new is None else origins_of(new)
        for origin in waits_for:
            self._unused_since.pop(origin, None)
        if old is not None and not waits_for:
            self._done.discard(old.metadata.uid)
            for origin in origins_of(old):
                self._queue.add(origin)

    def _snapshot_changed(self, change: Change[VolumeSnapshot]) -> None:
        origin = Origin(SNAPSHOT_KIND, change.key.namespace, change.key.name)
        if change.new is None:
            self._unused_since.pop(origin, None)
            self._queue.forget(origin)
        elif names.SNAPSHOT_FINALIZER in finalizers_of(change.new):
            self._queue.add(origin)

    # -- one source

    async def _look(self, origin: Origin) -> None:
        async with self._lock(origin):
            now = self._clock.now()
            decision = decide_origin(self._view, origin, now)  # no await between this and the action
            if log.enabled(4):
                log.info(4, "decided", source=str(origin), because=str(decision.because))
            if isinstance(decision.because, why.Stray):
                self._unused_since.setdefault(origin, now)
            elif not decision.actions:
                self._unused_since.pop(origin, None)
            if decision.wake_at is not None:
                self._queue.add_after(origin, decision.wake_at - now)
            try:
                for action in decision.actions:
                    if not isinstance(action, LetGoIfOurDrivers) or await self._is_our_drivers(action.content_name):
                        await self._writes.take_off(origin)
                        log.info(2, "let go", source=str(origin), because=str(decision.because))
            except (NotFound, NotServed):  # a definition that is deleted takes all snapshots with it
                pass
            except ApiError as error:
                log.error("could not take the finalizer off", error=error, source=str(origin), retry_in_s=self._queue.retry(origin))
                return
            if decision.actions:
                self._ours.discard(origin)
        self._queue.forget(origin)

    async def _is_our_drivers(self, content_name: str) -> bool:
        """True also when nobody can tell: then no provisioner can have used it. Raises ApiError."""
        if not content_name:
            return True
        try:
            content = await self._cluster.get(VOLUME_SNAPSHOT_CONTENTS, content_name)
        except NotFound:
            return True
        return content.spec.driver == self._facts.name
