"""One attempt at a claim: what is decided is carried out, and what it came to is told, counted and remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from mooring.api.core import SECRETS, ObjectReference, PersistentVolumeClaim, SecretReference
from mooring.base.clock import Instant
from mooring.base.log import Logger, logger
from mooring.control.controller import Controller
from mooring.control.queue import retry_backoff
from mooring.control.result import Because, Result, Retry
from mooring.control.runtime import Runtime
from mooring.control.secrets import SecretCache, SecretError
from mooring.controllers.provisioner.calls import look_up
from mooring.controllers.provisioner.claims import reasons as why
from mooring.controllers.provisioner.claims.claim import selected_node
from mooring.controllers.provisioner.claims.claim_events import ClaimEvents, claim_reference, intent_reference
from mooring.controllers.provisioner.claims.create_volume import VolumeCreation
from mooring.controllers.provisioner.claims.decide import decide_claim
from mooring.controllers.provisioner.claims.decide_after import RESCHEDULES_MAX, After, Attempted, Then, decide_after, told_failure
from mooring.controllers.provisioner.claims.decision import Create, Decision, LeaveToPopulator, LookUp
from mooring.controllers.provisioner.claims.outcomes import Failed, Failure, Save, State
from mooring.controllers.provisioner.claims.pv_store import PvStore
from mooring.controllers.provisioner.claims.record import ClaimRecords, PendingVolume, Rest
from mooring.controllers.provisioner.claims.requests import Order
from mooring.controllers.provisioner.claims.view import Looked, View, Wanted
from mooring.controllers.provisioner.intents.states import IntentEvent
from mooring.controllers.provisioner.intents.tracker import IntentTracker
from mooring.controllers.provisioner.metrics import ProvisionMetrics
from mooring.controllers.provisioner.options import ProvisionerOptions
from mooring.controllers.provisioner.writes import deselect_node
from mooring.kube.cache.informer import Informer
from mooring.kube.errors import ApiError

log = logger(__name__)

INFEASIBLE_S: Final = 300.0
"""How long an infeasible claim rests at the least, unless it changes."""

STORE_WORKERS: Final = 4
STORE_BACK_OFF: Final = retry_backoff(0.05, 60.0)
TOLD_AT: Final = 6
"""Failures to store before users are told: a short outage is not their business."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """claim: as it was when it began; None when gone. began: on the clock."""

    uid: str
    ref: ObjectReference
    claim: PersistentVolumeClaim | None
    began: Instant
    looked: Looked = dataclasses.field(default_factory=Looked, repr=False)


class ClaimReconciler:
    """controller: of claims, by uid. storing: of volumes that exist and whose object could not be stored at once, by the claim's uid.

    making_failed: called with the class of a volume that was not made. forgotten: called with the uid of a claim that is forgotten.
    """

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        records: ClaimRecords,
        tracker: IntentTracker,
        claims: Informer[PersistentVolumeClaim],
        secrets: SecretCache,
        creation: VolumeCreation,
        pv_store: PvStore,
        events: ClaimEvents,
        options: ProvisionerOptions,
        *,
        making_failed: Callable[[str], None],
        forgotten: Callable[[str], None],
    ) -> None:
        self._runtime, self._clock = runtime, runtime.clock
        self._view, self._records, self._tracker = view, records, tracker
        self._claims, self._secrets = claims, secrets
        self._creation, self._pv_store, self._events = creation, pv_store, events
        self._metrics = runtime.metrics.once(ProvisionMetrics)
        self._rest_s = max(options.retry_interval_max_s, INFEASIBLE_S)
        self._backoff = options.backoff
        self._making_failed, self._forgotten = making_failed, forgotten
        self.controller: Controller[str] = Controller(
            runtime, "claims", self._reconcile, workers=options.worker_threads, backoff=options.backoff, log=log, about=self._about
        )
        self.storing: Controller[str] = Controller(
            runtime, "unsavedpvs", self._store, workers=STORE_WORKERS, backoff=STORE_BACK_OFF, log=log, about=self._about_volume
        )

    def forget(self, uid: str) -> None:
        """The claim is no more, or has its volume."""
        self._records.forget(uid)
        self._forgotten(uid)

    def _reference(self, uid: str) -> ObjectReference | None:
        claim, intent = self._view.claim(uid), self._view.intents.get(uid)
        if claim is not None:
            return claim_reference(claim)
        return None if intent is None else intent_reference(intent)

    def _about(self, uid: str) -> Mapping[str, str]:
        ref = self._reference(uid)
        return {"uid": uid} if ref is None else {"PVC": f"{ref.namespace}/{ref.name}"}

    def _about_volume(self, uid: str) -> Mapping[str, str]:
        volume = self._records.get(uid).pending
        return self._about(uid) if volume is None else {"PersistentVolume": volume.name}

    # -- one attempt

    async def _reconcile(self, uid: str) -> Result:
        """Does for the claim what is to be done now."""
        claim, intent = self._view.claim(uid), self._view.intents.get(uid)
        if claim is not None:
            attempt = Attempt(uid, claim_reference(claim), claim, self._clock.now())
        elif intent is not None:
            attempt = Attempt(uid, intent_reference(intent), None, self._clock.now())
        else:
            self._creation.release(uid)
            return self._done(uid, why.Gone(uid))
        decision = await self._decided(attempt)
        match decision.action:
            case Create(order):
                return await self._create(attempt, order, decision)
            case LeaveToPopulator():
                self._events.left_to_populator(attempt.ref)
                return self._done(uid, decision.because)
            case _ if decision.failure is not None:
                return await self._failed(attempt, decision.class_name, decision.source_kind, decision.failure)
        return await self._nothing_to_try(attempt, decision)

    async def _decided(self, attempt: Attempt) -> Decision:
        """The decision, once all is looked up that it needs. The user is told at once that an attempt has begun."""
        announced = False
        while True:
            decision = decide_claim(self._view, attempt.uid, self._clock.now(), attempt.looked)  # no await between this and the action
            self.controller.explain(attempt.uid, decision.because)
            if decision.attempting and not announced:
                announced = True
                self._events.begins(attempt.ref)
            if not isinstance(decision.action, LookUp):
                return decision
            await look_up(self._runtime.cluster, self._secrets, decision.action.wanted, attempt.looked)

    async def _create(self, attempt: Attempt, order: Order, decision: Decision) -> Result:
        try:
            saved = await self._creation.create(order, _values(order, attempt.looked), attempt.began)
        except Failed as failed:
            return await self._failed(attempt, decision.class_name, decision.source_kind, failed.failure, order)
        except Exception as bug:
            if self._records.get(attempt.uid).pending is not None:
                self.storing.settle(attempt.uid, _not_stored(str(bug)))
            raise
        match saved:
            case (Save.LATER, error):
                self.storing.settle(attempt.uid, _not_stored(error))
            case (_, _):
                await self._succeeded(attempt.ref, order, attempt.began)
        return self._done(attempt.uid, decision.because)

    async def _nothing_to_try(self, attempt: Attempt, decision: Decision) -> Result:
        uid = attempt.uid
        if decision.counts_failure:
            self._metrics.has_failed(decision.class_name, decision.source_kind)
        if decision.wait_s is not None:
            return self._resting(uid, decision.because, decision.wait_s)
        if decision.settled:
            await self._tracker.close(uid, IntentEvent.STORED)
        if decision.has_volume and uid not in self._tracker:
            self._creation.release(uid)
        if attempt.claim is None and uid not in self._tracker:
            self.forget(uid)
        return self._from_the_start(uid, decision.because)

    def _done(self, uid: str, because: Because) -> Result:
        self.forget(uid)
        return Result(because)

    # -- a volume that could not be stored at once

    async def _store(self, uid: str) -> Result:
        """Tries again, by workers of its own, so that no worker for claims waits; the driver is not asked again for that."""
        volume = self._records.get(uid).pending
        assert volume is not None, "it is pending until it is stored or refused"
        saved, error = await self._pv_store.store(volume)
        if saved is Save.LATER:
            if self.storing.failures(uid) + 1 == TOLD_AT:
                error = f"the volume exists, its PersistentVolume could not be stored yet: {error}"
                self._events.failed(self._reference(uid) or intent_reference(volume.order.intent), error)
            raise _not_stored(error)
        await self._settled(volume, saved, error)
        self._records.of(uid).pending = None
        self._records.tidy(uid)
        return Result(why.Saving(volume.name))

    async def _settled(self, volume: PendingVolume, saved: Save, error: str) -> None:
        """It has been stored, or never will be: then the claim comes again as after any failure."""
        order, intent, uid = volume.order, volume.order.intent, volume.uid
        claim = self._view.claim(uid)
        ref = intent_reference(intent) if claim is None else claim_reference(claim)
        if saved is Save.STORED:
            await self._succeeded(ref, order, volume.began)
            return
        failure = await self._creation.refused(order, await self._read_again(intent.secret), saved, error, volume.volume_id)
        attempt = Attempt(uid, ref, claim, volume.began)
        try:
            self.controller.settle(uid, await self._failed(attempt, intent.class_name, intent.source_kind, failure, order))
        except Retry as retry:
            self.controller.settle(uid, retry)

    async def _read_again(self, ref: SecretReference | None) -> Mapping[str, str]:
        """The secret for a deletion, {} when it can't be had, as deletions do it."""
        if ref is None:
            return {}
        try:
            return await self._secrets.get(ref)
        except (ApiError, SecretError) as error:
            log.error("could not read a secret, going on without", error=error, secret=f"{ref.namespace}/{ref.name}")
            return {}

    # -- what it came to

    async def _succeeded(self, ref: ObjectReference, order: Order, began: Instant) -> None:
        intent = order.intent
        self._metrics.succeeded(intent.class_name, intent.source_kind, self._clock.now() - began)
        log.info(2, "provisioned", PVC=f"{ref.namespace}/{ref.name}", PersistentVolume=intent.volume_name)
        if self._view.claim(intent.uid) is not None:
            self._events.succeeded(ref, intent.volume_name)
        if order.is_retained:
            self._events.retained(ref, intent.volume_name)
        await self._creation.settle(order)

    async def _failed(self, attempt: Attempt, class_name: str, kind: str, failure: Failure, order: Order | None = None) -> Result:
        """Tells the user, and says when the claim comes again. order: what failed, None when it did not get that far. Raises Retry."""
        uid = attempt.uid
        failure = told_failure(failure, order)
        self._metrics.has_failed(class_name, kind)
        self._events.failed(attempt.ref, failure.error, infeasible=failure.infeasible)
        if failure.state is not State.NO_CHANGE:
            self._making_failed(class_name)
        await self._mark(uid, failure, order)
        claim = self._view.claim(uid)  # perhaps it has gone meanwhile
        node_tried, is_open = _node_tried(attempt, order), uid in self._tracker
        after = decide_after(Attempted(failure, order, claim, node_tried, is_open, self._records.get(uid).reschedules))
        if after.releases_source:
            self._creation.release(uid)
        if after.then is Then.FORGET:
            _told(attempt).error(f"failed to provision a volume that nobody waits for any more: {failure.error}")
            return self._done(uid, why.Hindered(failure))
        if after.node_unsuitable and claim is not None and await self._rescheduled(attempt, claim, failure, asks=after.other_node):
            return self._from_the_start(uid, why.Hindered(failure))
        return self._comes_again(attempt, failure, after)

    def _comes_again(self, attempt: Attempt, failure: Failure, after: After) -> Result:
        """Raises Retry."""
        uid, because = attempt.uid, why.Hindered(failure)
        match after.then:
            case Then.AT_ONCE:
                _told(attempt).error(f"what was asked for before can't be had, asking for what is wanted now: {failure.error}")
                return Result(because, again=True)
            case Then.REST:
                record = self._records.of(uid)
                record.rest = Rest(self._clock.now() + self._rest_s, after.fingerprint, failure.error, failure.topics)
                record.looks = 0
                _told(attempt).error(f"failed to provision: {failure.error}", state=failure.state.value, retry_in_s=self._rest_s)
                return dataclasses.replace(self._resting(uid, because, self._rest_s), keeps_backoff=False)
        raise Retry(f"failed to provision: {failure.error}", heals=failure.topics, because=why.Ended(failure.state.value))

    async def _mark(self, uid: str, failure: Failure, order: Order | None) -> None:
        """What the failure means for the intent."""
        if failure.is_over:
            await self._tracker.refuse(uid, failure.rules_out)
        elif failure.state is State.BACKGROUND and order is not None:
            self._tracker.mark_unknown(order.intent)

    def _resting(self, uid: str, because: Because, rest_s: float) -> Result:
        """Nobody watches attributes classes: a claim that has one is looked at in the back-off, too."""
        record, claim = self._records.of(uid), self._view.claim(uid)
        heals = frozenset() if record.rest is None else record.rest.heals
        if claim is not None and claim.spec.volume_attributes_class_name:
            record.looks += 1
            rest_s = min(rest_s, self._backoff.jittered_s(record.looks, self._runtime.chance))
        return Result(because, waits_for=heals, after_s=rest_s, keeps_backoff=True)

    async def _rescheduled(self, attempt: Attempt, claim: PersistentVolumeClaim, failure: Failure, *, asks: bool) -> bool:
        """True when the scheduler has been asked for another node than the claim's: then the claim waits for that."""
        record = self._records.of(attempt.uid)
        record.reschedules += 1
        if not asks:
            times = record.reschedules
            _told(attempt).error("several nodes in a row did not suit, the last one stays until the next try", times=times)
            return False
        try:
            await deselect_node(self._runtime.cluster, self._claims, claim)
        except ApiError as error:
            _told(attempt).error("could not ask for another node", error=error)
            return False
        _told(attempt).info(2, "asked for another node", node=selected_node(claim), because=failure.error)
        return True

    def _from_the_start(self, uid: str, because: Because) -> Result:
        """The back-off begins anew, unless one node after the other does not suit."""
        return Result(because, keeps_backoff=self._records.get(uid).reschedules > RESCHEDULES_MAX)


def _not_stored(error: str) -> Retry:
    return Retry(f"the volume exists, its object could not be stored yet: {error}")


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
