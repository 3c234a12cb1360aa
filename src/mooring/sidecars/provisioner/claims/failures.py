"""Failed attempts: tells users why, and decides when the claim comes again."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec

from mooring.api.core import ObjectReference, PersistentVolumeClaim
from mooring.base.clock import Instant
from mooring.base.log import Logger, logger
from mooring.control.events import EventRecorder
from mooring.control.result import Because, Result, Retry
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.decide import has_object
from mooring.sidecars.provisioner.claims.decide_after import (
    RESCHEDULES_MAX,
    After,
    Attempted,
    Then,
    decide_claim_after_failure,
    reported_failure,
    told,
)
from mooring.sidecars.provisioner.claims.view import Looked, View
from mooring.sidecars.provisioner.environment import Environment, deselect_node
from mooring.sidecars.provisioner.intents.tracker import IntentTracker, Rest
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import selected_node
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, State

log = logger(__name__)

INFEASIBLE_S: Final = 300.0
"""How long an infeasible claim rests at the least, unless it changes."""


def report_failure(events: EventRecorder, claim: ObjectReference, error: str, *, infeasible: bool = False) -> None:
    """error: as external-provisioner words it, for people and for those who grep."""
    text = (
        f"Volume provisioning failed with infeasible error. Retries will be delayed. {error}" if infeasible else error
    )
    events.event(claim, "Warning", "ProvisioningFailed", text)


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """claim: as it was when it began; None when gone. began: on the clock."""

    uid: str
    ref: ObjectReference
    claim: PersistentVolumeClaim | None
    began: Instant
    looked: Looked = dataclasses.field(default_factory=Looked, repr=False)

    @property
    def log(self) -> Logger:
        return log.bind(PVC=f"{self.ref.namespace}/{self.ref.name}")


class AttemptFailures:
    """Failed attempts: what becomes of their claims."""

    def __init__(self, env: Environment, view: View, tracker: IntentTracker, creation: VolumeCreation) -> None:
        self._runtime, self._clock, self._claims = env.runtime, env.runtime.clock, env.caches.claims
        self._view, self._records, self._tracker, self._creation = view, view.records, tracker, creation
        self._rest_s, self._backoff = max(env.options.retry_interval_max_s, INFEASIBLE_S), env.options.backoff
        self._events, self._bus = env.events, env.bus

    async def failed(self, attempt: Attempt, class_name: str, failure: Failure, order: Order | None = None) -> Result:
        """Tells users, and says when the claim comes again. order: None when the attempt did not get that far. Raises Retry."""
        uid = attempt.uid
        failure = reported_failure(failure, order)
        if failure.state is not State.NO_CHANGE:
            self._bus.tell(topics.ROOM_LACKING, class_name)
        if failure.is_over:
            await self._tracker.refuse(uid, proves_absent=failure.proves_absent)
        elif failure.state is State.BACKGROUND and order is not None:
            self._tracker.mark_unknown(order.intent)
        claim = self._view.claim(uid)  # perhaps it has gone meanwhile
        stored = claim is not None and has_object(self._view, claim)
        node_tried, reschedules = _node_tried(attempt, order), self._records.get(uid).reschedules
        attempted = Attempted(failure, order, claim, node_tried, uid in self._tracker, reschedules, stored)
        after = decide_claim_after_failure(attempted)
        report_failure(self._events, attempt.ref, told(attempted), infeasible=failure.infeasible)
        if after.releases_source:
            self._creation.release(uid)
        if after.then is Then.FORGET:
            attempt.log.error(f"failed to provision a volume that nobody waits for any more: {failure.error}")
            self._creation.forget(uid)
            return Result(why.Hindered(failure))
        if (
            after.node_unsuitable
            and claim is not None
            and await self._rescheduled(attempt, claim, failure, asks=after.other_node)
        ):
            return self.from_the_start(uid, why.Hindered(failure))
        return self._comes_again(attempt, failure, after)

    def _comes_again(self, attempt: Attempt, failure: Failure, after: After) -> Result:
        """Raises Retry."""
        uid, because = attempt.uid, why.Hindered(failure)
        match after.then:
            case Then.AT_ONCE:
                attempt.log.error(
                    f"what was asked for before can't be had, asking for what is wanted now: {failure.error}"
                )
                return Result(because, again=True)
            case Then.REST:
                record = self._records.of(uid)
                record.rest = Rest(self._clock.now() + self._rest_s, after.fingerprint, failure.error, failure.topics)
                record.looks = 0
                attempt.log.error(
                    f"failed to provision: {failure.error}", state=failure.state.value, retry_in_s=self._rest_s
                )
                return msgspec.structs.replace(self.resting(uid, because, self._rest_s), keeps_backoff=False)
        raise Retry(
            f"failed to provision: {failure.error}", heals=failure.topics, because=why.Ended(failure.state.value)
        )

    def resting(self, uid: str, because: Because, rest_s: float) -> Result:
        """Nobody watches attributes classes: a claim that has one is reconciled in the back-off, too."""
        record, claim = self._records.of(uid), self._view.claim(uid)
        heals = frozenset() if record.rest is None else record.rest.heals
        if claim is not None and claim.spec.volume_attributes_class_name:
            record.looks += 1
            rest_s = min(rest_s, self._backoff.jittered_s(record.looks, self._runtime.randomness))
        return Result(because, waits_for=heals, after_s=rest_s, keeps_backoff=True)

    async def _rescheduled(
        self, attempt: Attempt, claim: PersistentVolumeClaim, failure: Failure, *, asks: bool
    ) -> bool:
        """True when the scheduler has been asked for another node than the claim's: then the claim waits for that."""
        record = self._records.of(attempt.uid)
        record.reschedules += 1
        if not asks:
            times = record.reschedules
            attempt.log.error("several nodes in a row did not suit, the last one stays until the next try", times=times)
            return False
        try:
            await deselect_node(self._runtime.cluster, self._claims, claim)
        except ApiError as error:
            attempt.log.error("could not ask for another node", error=error)
            return False
        attempt.log.info(2, "asked for another node", node=selected_node(claim), because=failure.error)
        return True

    def from_the_start(self, uid: str, because: Because) -> Result:
        """The back-off begins anew, unless one node after the other does not suit."""
        return Result(because, keeps_backoff=self._records.get(uid).reschedules > RESCHEDULES_MAX)


def _node_tried(attempt: Attempt, order: Order | None) -> str:
    if order is not None:
        return order.intent.node_name
    return "" if attempt.claim is None else selected_node(attempt.claim)
