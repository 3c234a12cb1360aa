"""The provisioner: controllers of claims, volumes, sources and capacity on common caches, as one manager.

Claims are known by their uid: one made anew under an old name is another claim. One worker has a claim at a time, so no
two calls are made for one volume; `--worker-threads` of them run side by side.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final

from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.randomness import Random
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.manager import Manager, Worker
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache
from mooring.csi.driver import Driver
from mooring.csi.driver_capabilities import capabilities_of
from mooring.csi.session import DriverInfo
from mooring.sidecars.provisioner.capacity.controller import CapacityPublisher
from mooring.sidecars.provisioner.claims.controller import ClaimController
from mooring.sidecars.provisioner.claims.decide import is_due
from mooring.sidecars.provisioner.claims.view import View
from mooring.sidecars.provisioner.deletion.controller import VolumeDeletion
from mooring.sidecars.provisioner.environment import Environment, ProvisionerCaches, learn_place
from mooring.sidecars.provisioner.intents.journal import Intents, IntentsRunner
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentMetrics, IntentTracker
from mooring.sidecars.provisioner.local_node.controller import ClaimOwnership
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.model.topology import ClusterTopology, unlike_nodes
from mooring.sidecars.provisioner.options import ProvisionerOptions
from mooring.sidecars.provisioner.source_protection.controller import SourceProtection

log = logger(__name__)

POPULATING: Final = "external-provisioner"
"""The source of the event that leaves a claim to a populator."""


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
        clock, capabilities = runtime.clock, capabilities_of(info)
        populating = EventRecorder(runtime.cluster, POPULATING, clock=clock, randomness=runtime.randomness)
        own, secrets = ProvisionerCaches(runtime, capabilities, options, caches), SecretCache(runtime.cluster, clock)
        env = self._env = Environment(runtime, driver, capabilities, options, own, events, secrets)
        self._intents, records = IntentsRunner(intents or Intents()), ClaimRecords()
        self._tracker = IntentTracker(self._intents.intents, records, clock, env.bus)
        self._intent_metrics = runtime.metrics.once(IntentMetrics)
        view = self._view = view_of(env, self._tracker.open, records)
        self._place: dict[str, str] = {}
        self._protection = SourceProtection(env, lambda claim: is_due(view, claim), self._intents.intents.ready)
        self._ownership = (
            ClaimOwnership(env, view) if options.node is not None and options.node.immediate_binding else None
        )
        self._capacity = (
            CapacityPublisher(env, None if options.node is None else self._place)
            if options.capacity is not None
            else None
        )
        self._deletion = VolumeDeletion(env, self._tracker)
        identity = identity_of(capabilities.name, options, clock, runtime.randomness)
        self._claims = ClaimController(env, view, self._tracker, self._protection, populating, identity)
        self._intents.intents.on_found(self._claims.intents_found)
        super().__init__(own.shared, *self._controllers(), prepare=self._ready, first_looks=tuple(self._looks()))
        for name, one in {**own.beside, **self._protection.beside}.items():
            self.beside(name, one)
        self.beside("provisioner/events", events)
        self.beside("provisioner/populator-events", populating)
        self.beside("provisioner/intents", self._intents)

    def _controllers(self) -> Iterator[Worker]:
        """The controllers that work on the filled caches."""
        yield self._deletion
        yield self._protection.controller
        if self._capacity is not None:
            yield self._capacity
        if self._ownership is not None:
            yield self._ownership.controller
        yield self._claims.controller
        yield self._claims.pending

    def _looks(self) -> Iterator[Callable[[], Awaitable[None]]]:
        yield self._deletion.look_at_all
        yield self._protection.look_at_all
        if self._capacity is not None:
            yield self._capacity.look_at_all
        if self._ownership is not None:
            yield self._ownership.look_at_all
        yield self._claims.look_at_all

    async def run(self) -> None:
        """Provisions until cancelled, or until drained. Raises ConfigError, and DriverError where a driver does not
        report its node.
        """
        env, node = self._env, self._env.options.node
        if node is not None:
            self._place.update(await learn_place(env.driver, env.options.timeout_s))
            env.caches.pretend_node(env.capabilities.name, node.node_name, self._place)
        with self._intent_metrics.shown(self._tracker):
            await super().run()

    async def _ready(self) -> None:
        """Wait until claims may be worked on: the intents that a former process left open have to be read first."""
        await self._intents.started()
        await self._env.caches.grants_synced()
        if self._view.uses_topology and not self._view.node_name:
            await self._env.caches.csi_nodes.synced()
            self._tell_of_upgrade()

    def _tell_of_upgrade(self) -> None:
        """Sees that the controller was upgraded before the nodes, or while they are, where volumes have places."""
        if unlike := unlike_nodes(self._view.driver.name, self._view.csi_nodes.values()):
            log.warning(
                "Nodes report different topology keys, or none: upgrade a driver on the nodes first, then its "
                "controller",
                driver=self._view.driver.name,
                reported=unlike,
            )

    def driver_returned(self) -> None:
        """The driver was away and is back: everything that failed for that is tried at once."""
        self._claims.driver_returned()
        self._deletion.driver_returned()
        if self._capacity is not None:
            self._capacity.driver_returned()


def view_of(env: Environment, intents: Mapping[str, ClaimIntents], records: ClaimRecords) -> View:
    caches, node = env.caches, env.options.node
    return View(
        driver=env.capabilities,
        rules=env.options.rules,
        claims=caches.claims.store,
        volumes=caches.volumes.store,
        classes=caches.classes.store,
        csi_nodes=caches.csi_nodes.store,
        nodes=caches.nodes.store,
        grants=caches.grants.store,
        places=ClusterTopology(caches.csi_nodes.store, caches.nodes.store),
        intents=intents,
        records=records,
        node_name=node.node_name if node else "",
    )


def identity_of(driver_name: str, options: ProvisionerOptions, clock: Clock, randomness: Random) -> str:
    """Another one at each start; the volumes of this process carry it."""
    node = f"-{options.node.node_name}" if options.node else ""
    return f"{int(clock.wall_s() * 1000)}-{randomness.below(10_000)}-{driver_name}{node}"
