"""Bidding for claims with immediate binding: no scheduler chooses their node, so the nodes agree by writing to the claim.

Each node waits for a while of its own, then asks its driver for room, then writes its name into the claim; the API server lets one of
them be the first. Waiting costs a timer, not a worker. external-provisioner sleeps in a worker and looks at the claim meanwhile.
"""

from __future__ import annotations

from typing import Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim
from mooring.api.meta import key_of
from mooring.api.storage import StorageClass
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.draining import Shift
from mooring.control.events import EventRecorder
from mooring.control.queue import BackOff, QueueMetrics, WorkQueue
from mooring.control.secrets import SecretCache
from mooring.controllers.provisioner import names
from mooring.controllers.provisioner.caches import Caches
from mooring.controllers.provisioner.claims.claim_events import WARNING, claim_reference
from mooring.controllers.provisioner.claims.view import BY_CLASS, Looked, View, same_but_for_version
from mooring.controllers.provisioner.fetch import look_up
from mooring.controllers.provisioner.local_node import reasons as why
from mooring.controllers.provisioner.local_node.decide import Bid, LookUp, decide_bid, obstacle
from mooring.controllers.provisioner.options import NodeOptions, ProvisionerOptions
from mooring.csi.codes import DriverError
from mooring.csi.driver import Call, Driver
from mooring.kube.cache.informer import Cause, Change, Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, NotFound

log = logger(__name__)

WORKERS_MAX: Final = 10
_WHOLE: Final = PERSISTENT_VOLUME_CLAIMS.whole()


class Bidding:
    """caches: run by whoever made them; has to be made before they run. view: the provisioner's own."""

    def __init__(
        self,
        cluster: Cluster,
        driver: Driver,
        options: ProvisionerOptions,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        events: EventRecorder,
        caches: Caches,
        secrets: SecretCache,
        view: View,
    ) -> None:
        assert options.node is not None
        self._node: NodeOptions = options.node
        self._cluster, self._driver, self._timeout_s = cluster, driver, options.timeout_s
        self._worker_count = min(WORKERS_MAX, options.worker_threads)
        self._chance, self._events = chance, events
        self._claims: Informer[PersistentVolumeClaim] = caches.claims
        self._secrets, self._view = secrets, view
        self._tries: dict[str, int] = {}
        self._without_room: set[str] = set()
        self._queue: WorkQueue[str] = WorkQueue(
            "bids",
            clock=clock,
            chance=chance,
            backoff=BackOff(options.retry_interval_start_s, options.retry_interval_max_s),
            metrics=metrics.once(QueueMetrics),
        )
        self._shift = Shift()
        if options.node.immediate_binding:
            caches.claims.on_change(self._claim_changed)
            caches.classes.on_change(self._class_changed)

    # -- life

    async def run(self) -> None:
        """Bids until cancelled, or until drained. The shared caches have been filled."""
        async with self._shift.workers() as workers:
            for number in range(self._worker_count):
                workers.create_task(self._queue.work(self._turn), name=f"provisioner/bid-worker/{number}")

    async def drain(self, timeout_s: float) -> bool:
        """Begins no bid, lets what runs end. timeout_s: how long at the most. Returns False when that was too short."""
        self._queue.close()
        return await self._shift.over(timeout_s)

    def driver_returned(self) -> None:
        """Bids go ahead without the driver: nothing has waited for it."""

    def room_freed(self) -> None:
        """A volume of this node was deleted: claims for which there was no room are worth a bid."""
        for uid in tuple(self._without_room):
            self._wait_for_turn(uid)

    # -- when it is a claim's turn

    def _claim_changed(self, change: Change[PersistentVolumeClaim]) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            self._forget(old.metadata.uid)
        elif obstacle(self._view, new) is not None:
            self._forget(new.metadata.uid)
        elif change.cause is Cause.RESYNC or old is None or not same_but_for_version(old, new):
            self._wait_for_turn(new.metadata.uid)

    def _class_changed(self, change: Change[StorageClass]) -> None:
        """Its claims were waiting for it."""
        if change.old is None and change.new is not None:
            for claim in self._claims.store.by(BY_CLASS, change.new.metadata.name):
                if obstacle(self._view, claim) is None:
                    self._wait_for_turn(claim.metadata.uid)

    def _forget(self, uid: str) -> None:
        self._tries.pop(uid, None)
        self._without_room.discard(uid)

    def _wait_for_turn(self, uid: str) -> None:
        """The more nodes were quicker so far, the longer the wait; between two nodes chance decides."""
        node = self._node
        longest_s = min(node.base_delay_s * 2.0 ** min(self._tries.get(uid, 0), 30), node.max_delay_s)
        self._queue.add_after(uid, max(0.0, longest_s - self._chance.uniform(0.0, node.base_delay_s)))

    # -- one turn

    async def _turn(self, uid: str) -> None:
        looked = Looked()
        while True:
            decision = decide_bid(self._view, uid, looked)  # no await between this and the first question
            if log.enabled(4):
                log.info(4, "decided", uid=uid, because=str(decision.because))
            if not isinstance(decision.action, LookUp):
                break
            await look_up(self._cluster, self._secrets, decision.action.wanted, looked)
        self._without_room.discard(uid)
        if not isinstance(decision.action, Bid):
            return
        if not await self._has_room(decision.action):
            log.info(2, "no bid", uid=uid, because=str(why.NoRoom(decision.action.needed_bytes)))
            self._without_room.add(uid)
            return
        claim = self._view.claim(uid)
        if claim is not None and obstacle(self._view, claim) is None:
            await self._bid(claim)

    async def _has_room(self, bid: Bid) -> bool:
        """True also when the driver can't say: then provisioning is going to tell the user why."""
        for question in bid.questions:
            try:
                answer = await self._driver.get_capacity(question, Call(self._timeout_s))
            except DriverError as error:
                log.error("could not ask for room, bidding all the same", error=error)
                return True
            if answer.available_capacity >= bid.needed_bytes:
                return True
        return not bid.questions

    async def _bid(self, claim: PersistentVolumeClaim) -> None:
        """By PUT, which external-provisioner's rights on claims allow and a patch would not."""
        uid, told = claim.metadata.uid, log.bind(PVC=str(key_of(claim)))
        try:
            if await self._wrote(claim):
                told.info(2, "bid", node=self._node.node_name)
                self._tries.pop(uid, None)
        except (Conflict, NotFound) as error:
            self._tries[uid] = self._tries.get(uid, 0) + 1
            told.info(2, "somebody else was quicker to write to the claim", why=str(error))
            self._wait_for_turn(uid)
        except ApiError as error:
            self._tries[uid] = self._tries.get(uid, 0) + 1
            told.error("could not bid", error=error)
            self._events.event(
                claim_reference(claim), WARNING, "ProvisioningFailed", f"could not select node {self._node.node_name}: {error}"
            )
            self._wait_for_turn(uid)

    async def _wrote(self, claim: PersistentVolumeClaim) -> bool:
        """False when the claim is not free any more. Raises ApiError."""
        meta = claim.metadata
        body = await self._cluster.get(_WHOLE, meta.name, meta.namespace)
        notes = body["metadata"].setdefault("annotations", {})
        if body["metadata"]["uid"] != meta.uid or notes.get(names.SELECTED_NODE) or body["spec"].get("volumeName"):
            return False
        notes[names.SELECTED_NODE] = self._node.node_name
        await self._claims.write(key_of(claim), self._cluster.replace(PERSISTENT_VOLUME_CLAIMS, body, meta.namespace))
        return True
