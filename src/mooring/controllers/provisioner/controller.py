"""The provisioner's shell: caches, queue, workers, and the parts that work beside the claims.

Claims are known by their uid: one made anew under an old name is another claim. One worker has a claim at a time, so no two calls are
made for one volume; `--worker-threads` of them run side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Mapping
from typing import Final

from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.draining import Shift
from mooring.control.events import EventRecorder
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.claims.claim_events import ClaimEvents
from mooring.controllers.provisioner.claims.create_volume import VolumeCreation
from mooring.controllers.provisioner.claims.event_handlers import ClaimEventHandlers
from mooring.controllers.provisioner.claims.node_topology import NodePlaces
from mooring.controllers.provisioner.claims.outcomes import Save
from mooring.controllers.provisioner.claims.pv_store import WORKERS, PvStore
from mooring.controllers.provisioner.claims.reconcile import ClaimReconciler
from mooring.controllers.provisioner.claims.record import ClaimRecords, PendingVolume
from mooring.controllers.provisioner.claims.retry_triggers import Waits
from mooring.controllers.provisioner.claims.view import View
from mooring.controllers.provisioner.driver_capabilities import facts_of
from mooring.controllers.provisioner.intents.intent import Intent, Intents, MemoryIntents
from mooring.controllers.provisioner.intents.tracker import IntentTracker
from mooring.controllers.provisioner.metrics import IntentMetrics, ProvisionMetrics
from mooring.controllers.provisioner.options import JITTER, ProvisionerOptions
from mooring.controllers.provisioner.subcontrollers import Subcontrollers
from mooring.csi.driver import Driver
from mooring.csi.session import DriverInfo
from mooring.kube.cache.informer import obstacles
from mooring.kube.cluster import Cluster

log = logger(__name__)

POPULATING: Final = "external-provisioner"
"""The source of the event that leaves a claim to a populator."""

SECRET_S_MAX: Final = 60.0
"""How long a claim's volume that may exist waits for its secret once the claim is gone; then it is asked for without."""

INTENTS_S_MAX: Final = 2.0
"""How long the end waits until the journal says that nothing is open."""

EVENTS_S_MAX: Final = 2.0
"""How long the end waits for the events that tell of it."""


class Provisioner:
    """The controller for one driver. events: of the driver's source; run and drained here."""

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        info: DriverInfo,
        options: ProvisionerOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        events: EventRecorder,
        *,
        intents: Intents | None = None,
    ) -> None:
        facts = facts_of(info)
        self._facts, self._options, self._clock = facts, options, clock
        self._events = events
        self._populating = EventRecorder(cluster, POPULATING, clock=clock, chance=chance)
        self._intents: Intents = intents or MemoryIntents()
        self._records = records = ClaimRecords()
        self._tracker = tracker = IntentTracker(self._intents, records, clock, self._intent_ended)
        self._intent_metrics = metrics.once(IntentMetrics)
        self.caches = caches = Caches(cluster, facts, options, clock, chance)
        places = NodePlaces(caches.csi_nodes.store, caches.nodes.store)
        secrets = SecretCache(cluster, clock)
        self._pv_store = PvStore(
            cluster,
            caches.volumes,
            clock,
            chance,
            metrics,
            self._settled,
            self._save_delayed,
            records=records,
            tracker=tracker,
            driver_name=facts.name,
            per_node=options.node is not None,
        )
        self._view = view = View(
            driver=facts,
            rules=options.rules,
            claims=caches.claims.store,
            volumes=caches.volumes.store,
            classes=caches.classes.store,
            csi_nodes=caches.csi_nodes.store,
            nodes=caches.nodes.store,
            grants=caches.grants.store,
            places=places,
            intents=self._intents.open(),
            records=records,
            node_name=options.node.node_name if options.node else "",
        )
        self._queue: WorkQueue[str] = WorkQueue(
            "claims",
            clock=clock,
            chance=chance,
            backoff=BackOff(options.retry_interval_start_s, options.retry_interval_max_s, jitter=JITTER),
            metrics=metrics.once(QueueMetrics),
        )
        runtime = Runtime(cluster, clock, chance, metrics)
        self._beside = Subcontrollers(runtime, driver, facts, options, events, caches, secrets, view, self._intents)
        self._creation = creation = VolumeCreation(
            driver,
            tracker,
            records,
            self._beside.protection,
            self._pv_store,
            secrets,
            clock,
            identity=identity_of(facts.name, options, clock, chance),
            timeout_s=options.timeout_s,
            uses_topology=view.uses_topology,
            is_there=lambda uid: view.claim(uid) is not None,
        )
        waits = Waits()
        self._reconciler = ClaimReconciler(
            cluster,
            caches.claims,
            secrets,
            creation,
            tracker,
            waits,
            self._queue,
            ClaimEvents(events, self._populating),
            metrics.once(ProvisionMetrics),
            clock,
            records,
            slow_s=options.retry_interval_max_s,
            making_failed=self._beside.making_failed,
            ended=self._beside.protection.abandon,
        )
        self._handlers = ClaimEventHandlers(view, caches, waits, places, self._queue, self._claim_ended)
        self._beside.protection.on_snapshot(lambda name: self._handlers.happened(VOLUME_SNAPSHOTS.plural, name))
        self._intents.on_found(self._intents_found)
        self._parts = self._beside.workers
        self._shift = Shift()

    @property
    def has_synced(self) -> bool:
        """True once every cache has been filled."""
        return self.caches.have_synced

    @property
    def obstacle(self) -> str:
        """What keeps a cache from following the API server, "" for nothing that is known."""
        return obstacles((*self.caches.needed, *self._beside.caches))

    # -- life

    async def run(self) -> None:
        """Provisions until cancelled, or until drained. Raises ConfigError; DriverError where the driver does not tell its node's place."""
        await self._beside.learn_place()
        with self._intent_metrics.shown(self._tracker):
            await self._run()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(informer.run(), name=f"provisioner/{informer.name}") for informer in self.caches.running]
            helpers += [
                group.create_task(self._events.run(), name="provisioner/events"),
                group.create_task(self._populating.run(), name="provisioner/populator-events"),
            ]
            helpers += [group.create_task(one.run(), name=name) for name, one in self._beside.beside.items()]
            await self._intents.start()
            helpers.append(group.create_task(self._intents.run(), name="provisioner/intents"))
            await self.caches.synced()
            log.info(2, "caches synced", driver=self._facts.name)
            await self._work()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTENTS_S_MAX):
                    await self._intents.tidy()
            await asyncio.gather(self._events.drain(EVENTS_S_MAX), self._populating.drain(EVENTS_S_MAX))
            for helper in helpers:
                helper.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new work, lets what runs end and be stored. timeout_s: how long at the most. Returns False when that was too short."""
        self._queue.close()
        self._pv_store.close()
        *_, is_over = await asyncio.gather(*(part.drain(timeout_s) for part in self._parts), self._shift.over(timeout_s))
        return is_over

    def driver_returned(self) -> None:
        """The driver was away and is back: whatever failed for that is tried at once."""
        self._handlers.driver_returned()
        self._beside.driver_returned()

    async def _work(self) -> None:
        attempt = functools.partial(self._reconciler.reconcile, self._view)
        async with self._shift.workers() as group:
            for part in self._parts:
                group.create_task(part.run(), name=f"provisioner/{type(part).__name__}")
            for number in range(self._options.worker_threads):
                group.create_task(self._queue.work(attempt), name=f"provisioner/claim-worker/{number}")
            for number in range(WORKERS):
                group.create_task(self._pv_store.work(), name=f"provisioner/saving-worker/{number}")

    # -- what happens

    def _claim_ended(self, uid: str) -> None:
        """Its volume, if there may be one, is still asked for, in the back-off it is in."""
        if uid not in self._view.intents:
            self._reconciler.forget(uid)
            if self._creation.holds(uid):
                self._queue.add(uid)
            return
        record = self._records.of(uid)
        record.orphaned_at = self._clock.now() + SECRET_S_MAX
        if record.is_unresolved:
            self._queue.add(uid)

    def _intents_found(self, found: Mapping[str, Intent]) -> None:
        self._tracker.found(found)
        self._creation.found(found)
        for uid in found:
            self._records.of(uid).orphaned_at = self._clock.now()
            self._queue.add(uid)

    def _intent_ended(self, intent: Intent) -> None:
        self._beside.intent_closed(intent.volume_name)

    def _save_delayed(self, volume: PendingVolume, error: str) -> None:
        self._reconciler.save_delayed(self._view, volume, error)

    async def _settled(self, volume: PendingVolume, saved: Save, error: str) -> None:
        await self._reconciler.settled(self._view, volume, saved, error)


def identity_of(driver_name: str, options: ProvisionerOptions, clock: Clock, chance: Chance) -> str:
    """Another one at each start; the volumes of this process carry it."""
    node = f"-{options.node.node_name}" if options.node else ""
    return f"{int(clock.wall_s() * 1000)}-{chance.below(10_000)}-{driver_name}{node}"
