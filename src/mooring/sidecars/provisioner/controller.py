"""The provisioner: controllers of claims, volumes, sources and capacity on common caches, as one manager.

Claims are known by their uid: one made anew under an old name is another claim. One worker has a claim at a time, so no two calls are
made for one volume; `--worker-threads` of them run side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.sidecars.provisioner.claims.claim_events import ClaimEvents
from mooring.sidecars.provisioner.claims.controller import ClaimController
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.pv_store import PvStore
from mooring.sidecars.provisioner.claims.results import AttemptResults
from mooring.sidecars.provisioner.claims.view import ClusterTopology, View
from mooring.sidecars.provisioner.environment import Environment, ProvisionerCaches
from mooring.sidecars.provisioner.intents.journal import Intents
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentMetrics, IntentTracker
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.topology import unlike_nodes
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.provisioner.subcontrollers import Subcontrollers

log = logger(__name__)

POPULATING: Final = "external-provisioner"
"""The source of the event that leaves a claim to a populator."""

SECRET_S_MAX: Final = 60.0
"""How long the volume of a deleted claim, if it may exist, waits for its secret; then it is requested without."""


class Provisioner(Manager):
    """The controllers for one driver, as a program starts them.

    events: of the driver's source; sent here. caches: a share of the program's, None for their own.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        info: DriverInfo,
        options: ProvisionerOptions,
        events: EventRecorder,
        *,
        intents: Intents | None = None,
        caches: Caches | None = None,
    ) -> None:
        cluster, clock, capabilities = runtime.cluster, runtime.clock, capabilities_of(info)
        populating = EventRecorder(cluster, POPULATING, clock=clock, randomness=runtime.randomness)
        own, secrets = ProvisionerCaches(runtime, capabilities, options, caches), SecretCache(cluster, clock)
        env = Environment(runtime, driver, capabilities, options, own, events, secrets)
        self._clock, self._provisioner_caches = clock, own
        self._intents = _IntentsRunner(intents or Intents())
        intents, places = self._intents.intents, ClusterTopology(own.csi_nodes.store, own.nodes.store)
        self._records = ClaimRecords()
        self._tracker = IntentTracker(intents, self._records, clock, self._intent_ended)
        self._intent_metrics = runtime.metrics.once(IntentMetrics)
        self._view = View(
            driver=capabilities,
            rules=options.rules,
            claims=own.claims.store,
            volumes=own.volumes.store,
            classes=own.classes.store,
            csi_nodes=own.csi_nodes.store,
            nodes=own.nodes.store,
            grants=own.grants.store,
            places=places,
            intents=intents.open(),
            records=self._records,
            node_name=options.node.node_name if options.node else "",
        )
        self._others = Subcontrollers(env, self._view, self._tracker)
        protection = self._others.protection
        pv_store = PvStore(runtime, own.volumes, self._view)
        identity = identity_of(capabilities.name, options, clock, runtime.randomness)
        self._creation = VolumeCreation(env, self._view, self._records, self._tracker, protection, pv_store, identity)
        claim_events = ClaimEvents(events, populating)
        self._results = AttemptResults(
            env,
            self._view,
            self._records,
            self._tracker,
            self._creation,
            claim_events,
            creation_failed=self._others.creation_failed,
            forgotten=protection.abandon,
        )
        self._claims = ClaimController(
            env,
            self._view,
            self._tracker,
            self._creation,
            pv_store,
            claim_events,
            self._results,
            places,
            protection.snapshots,
            self._claim_ended,
        )
        intents.on_found(self._intents_found)
        super().__init__(own.shared, *self._others.workers, self._claims.controller, self._claims.pending, prepare=self._ready)
        for name, one in {**own.beside, **self._others.beside}.items():
            self.beside(name, one)
        self.beside("provisioner/events", events)
        self.beside("provisioner/populator-events", populating)
        self.beside("provisioner/intents", self._intents)

    async def run(self) -> None:
        """Provisions until cancelled, or until drained. Raises ConfigError, and DriverError where a driver does not report its node."""
        await self._others.learn_place()
        with self._intent_metrics.shown(self._tracker):
            await super().run()

    async def _ready(self) -> None:
        """Before the first claim: the intents that a former process left open are read."""
        await self._intents.started()
        await self._provisioner_caches.grants_synced()
        if self._view.uses_topology and not self._view.node_name:
            await self._provisioner_caches.csi_nodes.synced()
            self._tell_of_upgrade()

    def _tell_of_upgrade(self) -> None:
        """That the controller was upgraded before the nodes, or while they are, is seen where volumes have places."""
        if unlike := unlike_nodes(self._view.driver.name, self._provisioner_caches.csi_nodes.store.values()):
            log.warning(
                "Nodes report different topology keys, or none: upgrade a driver on the nodes first, then its controller",
                driver=self._view.driver.name,
                reported=unlike,
            )

    def driver_returned(self) -> None:
        """The driver was away and is back: everything that failed for that is tried at once."""
        self._claims.driver_returned()
        self._others.driver_returned()

    # -- events

    def _claim_ended(self, uid: str) -> None:
        """Its volume, if there may be one, is still requested, in its present back-off."""
        if uid not in self._view.intents:
            self._results.forget(uid)
            self._claims.controller.forget(uid)
            if self._creation.holds(uid):
                self._claims.controller.add(uid)
            return
        record = self._records.of(uid)
        record.orphaned_at = self._clock.now() + SECRET_S_MAX
        if record.is_unresolved:
            self._claims.controller.add(uid)

    def _intents_found(self, found: Mapping[str, Intent]) -> None:
        self._tracker.found(found)
        self._creation.found(found)
        for uid in found:
            self._records.of(uid).orphaned_at = self._clock.now()
            self._claims.controller.add(uid)

    def _intent_ended(self, intent: Intent) -> None:
        self._others.intent_closed(intent.volume_name)


class _IntentsRunner:
    """Runs the intents beside the controllers: they are read first, then kept, and in the end all ends are stored."""

    def __init__(self, intents: Intents) -> None:
        self.intents = intents
        self._started = asyncio.Event()

    async def started(self) -> None:
        await self._started.wait()

    async def run(self) -> None:
        await self.intents.start()
        self._started.set()
        await self.intents.run()

    async def drain(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.intents.tidy()


def identity_of(driver_name: str, options: ProvisionerOptions, clock: Clock, randomness: Random) -> str:
    """Another one at each start; the volumes of this process carry it."""
    node = f"-{options.node.node_name}" if options.node else ""
    return f"{int(clock.wall_s() * 1000)}-{randomness.below(10_000)}-{driver_name}{node}"
