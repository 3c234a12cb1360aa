"""One attempt at a claim: what is decided is carried out, and what it came to is told, counted and remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mooring.api.core import SECRETS, ObjectReference, PersistentVolumeClaim, SecretReference
from mooring.base.clock import Clock, Instant
from mooring.base.log import Logger, logger
from mooring.control.queue import WorkQueue
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.provisioner.claims.claim import selected_node
from mooring.controllers.provisioner.claims.claim_events import ClaimEvents, claim_reference, intent_reference
from mooring.controllers.provisioner.claims.create_volume import VolumeCreation
from mooring.controllers.provisioner.claims.decide import decide_claim
from mooring.controllers.provisioner.claims.decide_after import RESCHEDULES_MAX, After, Attempted, Then, decide_after, told_failure
from mooring.controllers.provisioner.claims.decision import Create, Decision, LeaveToPopulator, LookUp
from mooring.controllers.provisioner.claims.outcomes import Failed, Failure, Save, State
from mooring.controllers.provisioner.claims.record import ClaimRecords, PendingVolume, Rest
from mooring.controllers.provisioner.claims.requests import Order
from mooring.controllers.provisioner.claims.retry_triggers import Waits
from mooring.controllers.provisioner.claims.view import BY_UID, Looked, View, Wanted
from mooring.controllers.provisioner.fetch import look_up
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.controllers.provisioner.intents.states import IntentEvent
from mooring.controllers.provisioner.intents.tracker import IntentTracker
from mooring.controllers.provisioner.metrics import ProvisionMetrics
from mooring.controllers.provisioner.writes import deselect_node
from mooring.kube.cache.informer import Informer
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

log = logger(__name__)

INFEASIBLE_S: Final = 300.0
"""How long an infeasible claim rests at the least, unless it changes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """claim: as it was when it began; None when gone. began: on the clock."""

    uid: str
    ref: ObjectReference
    claim: PersistentVolumeClaim | None
    began: Instant
    looked: Looked = dataclasses.field(default_factory=Looked, repr=False)


class ClaimReconciler:
    """slow_s: how long an infeasible claim rests, and one that is gone and refused.

    making_failed: called with the class of a volume that was not made. ended: called with the uid of a claim that is forgotten.
    """

    def __init__(
        self,
        cluster: Cluster,
        claims: Informer[PersistentVolumeClaim],
        secrets: SecretCache,
        creation: VolumeCreation,
        tracker: IntentTracker,
        waits: Waits,
        queue: WorkQueue[str],
        events: ClaimEvents,
        metrics: ProvisionMetrics,
        clock: Clock,
        records: ClaimRecords,
        *,
        slow_s: float,
        making_failed: Callable[[str], None] = lambda class_name: None,
        ended: Callable[[str], None] = lambda uid: None,
    ) -> None:
        self._cluster = cluster
        self._claims = claims
        self._secrets = secrets
        self._creation = creation
        self._tracker = tracker
        self._waits = waits
        self._queue = queue
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._records = records
        self._slow_s = max(slow_s, INFEASIBLE_S)
        self._making_failed = making_failed
        self._ended = ended

    def forget(self, uid: str) -> None:
        """The claim is no more, or has its volume."""
        self._waits.drop(uid)
        self._records.forget(uid)
        self._ended(uid)

    # -- one attempt

    async def reconcile(self, view: View, uid: str) -> None:
        """Does for the claim what is to be done now."""
        attempt = self._attempt(view, uid)
        if attempt is None:
            await self._creation.let_go(uid)
            self._done(uid)
            return
        decision = await self._decided(view, attempt)
        match decision.action:
            case Create(order):
                await self._create(attempt, order, decision)
            case LeaveToPopulator():
                self._events.left_to_populator(attempt.ref)
                self._done(uid)
            case _ if decision.failure is not None:
                await self._failed(attempt, decision.class_name, decision.source_kind, decision.failure)
            case _:
                await self._nothing_to_try(attempt, decision)

    def _attempt(self, view: View, uid: str) -> Attempt | None:
        claim, intent = view.claim(uid), view.intents.get(uid)
        if claim is not None:
            return Attempt(uid, claim_reference(claim), claim, self._clock.now())
        return None if intent is None else Attempt(uid, intent_reference(intent), None, self._clock.now())

    async def _decided(self, view: View, attempt: Attempt) -> Decision:
        """The decision, once all is looked up that it needs. The user is told at once that an attempt has begun."""
        told, announced = _told(attempt), False
        while True:
            decision = decide_claim(view, attempt.uid, self._clock.now(), attempt.looked)  # no await between this and the action
            if told.enabled(4):
                told.info(4, "decided", because=str(decision.because))
            if decision.attempting and not announced:
                announced = True
                self._events.begins(attempt.ref)
            if not isinstance(decision.action, LookUp):
                return decision
            await look_up(self._cluster, self._secrets, decision.action.wanted, attempt.looked)

    async def _create(self, attempt: Attempt, order: Order, decision: Decision) -> None:
        try:
            stored = await self._creation.create(order, _values(order, attempt.looked), attempt.began)
        except Failed as failed:
            await self._failed(attempt, decision.class_name, decision.source_kind, failed.failure, order)
            return
        if stored:
            await self._succeeded(attempt.ref, order, attempt.began)
        self._done(attempt.uid)

    async def _nothing_to_try(self, attempt: Attempt, decision: Decision) -> None:
        if decision.counts_failure:
            self._metrics.has_failed(decision.class_name, decision.source_kind)
        if decision.wait_s is not None:
            self._wait(attempt.uid, decision.wait_s)
            return
        if decision.settled:
            await self._tracker.close(attempt.uid, IntentEvent.STORED)
        if decision.has_volume and attempt.uid not in self._tracker:
            await self._creation.let_go(attempt.uid)
        if attempt.claim is None and attempt.uid not in self._tracker:
            self._done(attempt.uid)
            return
        self._waits.drop(attempt.uid)
        self._begin_anew(attempt.uid)

    def _done(self, uid: str) -> None:
        self._queue.forget(uid)
        self.forget(uid)

    # -- what it came to

    async def _succeeded(self, ref: ObjectReference, order: Order, began: Instant) -> None:
        intent = order.intent
        self._metrics.succeeded(intent.class_name, intent.source_kind, self._clock.now() - began)
        log.info(2, "provisioned", PVC=f"{ref.namespace}/{ref.name}", PersistentVolume=intent.volume_name)
        if self._claims.store.by(BY_UID, intent.uid):
            self._events.succeeded(ref, intent.volume_name)
        if order.is_retained:
            self._events.retained(ref, intent.volume_name)
        await self._creation.settle(order)

    def save_delayed(self, view: View, volume: PendingVolume, error: str) -> None:
        """A volume can't be stored for a while."""
        intent = volume.order.intent
        self._events.failed(_reference(view, intent), error)

    async def settled(self, view: View, volume: PendingVolume, saved: Save, error: str) -> None:
        """A volume that could not be stored at once has been stored, or never will be."""
        order = volume.order
        intent, uid = order.intent, order.intent.uid
        claim, ref = view.claim(uid), _reference(view, intent)
        if saved is Save.STORED:
            await self._succeeded(ref, order, volume.began)
            return
        failure = await self._creation.refused(order, await self._read_again(intent.secret), saved, error, volume.volume_id)
        await self._failed(Attempt(uid, ref, claim, volume.began), intent.class_name, intent.source_kind, failure, order)

    async def _read_again(self, ref: SecretReference | None) -> Mapping[str, str]:
        """The secret for a deletion, {} when it can't be had, as deletions do it."""
        if ref is None:
            return {}
        try:
            return await self._secrets.get(ref)
        except (ApiError, SecretError) as error:
            log.error("could not read a secret, going on without", error=error, secret=f"{ref.namespace}/{ref.name}")
            return {}

    async def _failed(self, attempt: Attempt, class_name: str, kind: str, failure: Failure, order: Order | None = None) -> None:
        """Tells the user, and says when the claim comes again. order: what failed, None when it did not get that far."""
        uid = attempt.uid
        failure = told_failure(failure, order)
        self._metrics.has_failed(class_name, kind)
        self._events.failed(attempt.ref, failure.error, infeasible=failure.infeasible)
        if failure.state is not State.NO_CHANGE:
            self._making_failed(class_name)
        await self._written_down(uid, failure, order)
        claim = next(iter(self._claims.store.by(BY_UID, uid)), None)  # perhaps it has gone meanwhile
        node_tried, is_open = _node_tried(attempt, order), uid in self._tracker
        after = decide_after(Attempted(failure, order, claim, node_tried, is_open, self._records.get(uid).reschedules))
        if after.releases_source:
            await self._creation.let_go(uid)
        if after.then is Then.FORGET:
            _told(attempt).error(f"failed to provision a volume that nobody waits for any more: {failure.error}")
            self._done(uid)
        elif not (after.node_unsuitable and claim is not None and await self._rescheduled(attempt, claim, failure, asks=after.other_node)):
            self._comes_again(attempt, failure, after)

    def _comes_again(self, attempt: Attempt, failure: Failure, after: After) -> None:
        uid = attempt.uid
        if after.then is Then.AT_ONCE:
            _told(attempt).error(f"what was asked for before can't be had, asking for what is wanted now: {failure.error}")
            self._waits.drop(uid)
            self._queue.add(uid)
            return
        self._waits.put(uid, failure)
        delay_s = self._rest(uid, after.fingerprint, failure.error) if after.then is Then.REST else self._queue.retry(uid)
        _told(attempt).error(f"failed to provision: {failure.error}", state=failure.state.value, retry_in_s=round(delay_s, 3))

    async def _written_down(self, uid: str, failure: Failure, order: Order | None) -> None:
        """What the failure means for the intent."""
        if failure.is_over:
            await self._tracker.refuse(uid, failure.rules_out)
        elif failure.state is State.BACKGROUND and order is not None:
            self._tracker.mark_unknown(order.intent)

    def _rest(self, uid: str, fingerprint: object, error: str) -> float:
        self._records.of(uid).rest = Rest(self._clock.now() + self._slow_s, fingerprint, error)
        self._queue.forget(uid)
        self._wait(uid, self._slow_s)
        return self._slow_s

    def _wait(self, uid: str, seconds: float) -> None:
        """Nobody watches attributes classes: a claim that has one is looked at in the back-off, too."""
        self._queue.add_after(uid, seconds)
        claim = next(iter(self._claims.store.by(BY_UID, uid)), None)
        if claim is not None and claim.spec.volume_attributes_class_name:
            self._queue.retry(uid)

    async def _rescheduled(self, attempt: Attempt, claim: PersistentVolumeClaim, failure: Failure, *, asks: bool) -> bool:
        """True when the scheduler has been asked for another node than the claim's: then the claim waits for that."""
        uid = attempt.uid
        record = self._records.of(uid)
        times = record.reschedules = record.reschedules + 1
        if not asks:
            _told(attempt).error("several nodes in a row did not suit, the last one stays until the next try", times=times)
            return False
        try:
            await deselect_node(self._cluster, self._claims, claim)
        except ApiError as error:
            _told(attempt).error("could not ask for another node", error=error)
            return False
        _told(attempt).info(2, "asked for another node", node=selected_node(claim), because=failure.error)
        self._waits.drop(uid)
        self._begin_anew(uid)
        return True

    def _begin_anew(self, uid: str) -> None:
        """The back-off does, unless one node after the other does not suit."""
        if self._records.get(uid).reschedules <= RESCHEDULES_MAX:
            self._queue.forget(uid)


def _reference(view: View, intent: Intent) -> ObjectReference:
    claim = view.claim(intent.uid)
    return intent_reference(intent) if claim is None else claim_reference(claim)


def _node_tried(attempt: Attempt, order: Order | None) -> str:
    if order is not None:
        return order.intent.node_name
    return "" if attempt.claim is None else selected_node(attempt.claim)


def _told(attempt: Attempt) -> Logger:
    return log.bind(PVC=f"{attempt.ref.namespace}/{attempt.ref.name}")


def _values(order: Order, looked: Looked) -> Mapping[str, str]:
    """The secret's values, which were looked up for the decision."""
    ref = order.intent.secret
    if ref is None or order.secret_is_lost:
        return {}
    values: Mapping[str, str] = looked.get(Wanted(SECRETS, ref.name, ref.namespace))
    return values
