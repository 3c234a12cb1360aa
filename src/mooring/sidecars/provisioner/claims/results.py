"""The result of an attempt at a claim: users and metrics learn of it, and it says when the claim comes again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import ObjectReference, PersistentVolumeClaim
from mooring.base.clock import Instant
from mooring.base.log import Logger, logger
from mooring.control.result import Because, Result, Retry
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.claim_events import ClaimEvents
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
from mooring.sidecars.provisioner.environment import BUCKETS_S, Environment, deselect_node
from mooring.sidecars.provisioner.intents.tracker import ClaimRecords, IntentTracker, Rest
from mooring.sidecars.provisioner.model.cached import selected_node
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, State

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

    @property
    def log(self) -> Logger:
        return log.bind(PVC=f"{self.ref.namespace}/{self.ref.name}")


class AttemptResults:
    """creation_failed: called with the class of a volume that was not made. forgotten: called with the uid of a claim that is forgotten."""

    def __init__(
        self,
        env: Environment,
        view: View,
        records: ClaimRecords,
        tracker: IntentTracker,
        creation: VolumeCreation,
        events: ClaimEvents,
        *,
        creation_failed: Callable[[str], None],
        forgotten: Callable[[str], None],
    ) -> None:
        self._runtime, self._clock, self._claims = env.runtime, env.runtime.clock, env.caches.claims
        self._view, self._records, self._tracker, self._creation, self._events = view, records, tracker, creation, events
        self._rest_s, self._backoff = max(env.options.retry_interval_max_s, INFEASIBLE_S), env.options.backoff
        self._creation_failed, self._forgotten = creation_failed, forgotten
        self.metrics = env.runtime.metrics.once(ProvisionMetrics)

    def forget(self, uid: str) -> None:
        """The claim is no more, or has its volume."""
        self._records.forget(uid)
        self._forgotten(uid)

    def done(self, uid: str, because: Because) -> Result:
        """There is nothing left to do for the claim."""
        self.forget(uid)
        return Result(because)

    async def succeeded(self, ref: ObjectReference, order: Order, began: Instant) -> None:
        """Reports success, closes the intent, releases the source."""
        intent = order.intent
        self.metrics.succeeded(intent.class_name, intent.source_kind, self._clock.now() - began)
        log.info(2, "provisioned", PVC=f"{ref.namespace}/{ref.name}", PersistentVolume=intent.volume_name)
        if self._view.claim(intent.uid) is not None:
            self._events.succeeded(ref, intent.volume_name)
        if order.is_retained:
            self._events.retained(ref, intent.volume_name)
        await self._creation.close(intent)

    async def failed(self, attempt: Attempt, class_name: str, kind: str, failure: Failure, order: Order | None = None) -> Result:
        """Reports the failure, and says when the claim comes again. order: None when the attempt did not get that far. Raises Retry."""
        uid = attempt.uid
        failure = reported_failure(failure, order)
        self.metrics.has_failed(class_name, kind)
        if failure.state is not State.NO_CHANGE:
            self._creation_failed(class_name)
        if failure.is_over:
            await self._tracker.refuse(uid, proves_absent=failure.proves_absent)
        elif failure.state is State.BACKGROUND and order is not None:
            self._tracker.mark_unknown(order.intent)
        claim = self._view.claim(uid)  # perhaps it has gone meanwhile
        stored = claim is not None and has_object(self._view, claim)
        node_tried, reschedules = _node_tried(attempt, order), self._records.get(uid).reschedules
        attempted = Attempted(failure, order, claim, node_tried, uid in self._tracker, reschedules, stored)
        after = decide_claim_after_failure(attempted)
        self._events.failed(attempt.ref, told(attempted), infeasible=failure.infeasible)
        if after.releases_source:
            self._creation.release(uid)
        if after.then is Then.FORGET:
            attempt.log.error(f"failed to provision a volume that nobody waits for any more: {failure.error}")
            return self.done(uid, why.Hindered(failure))
        if after.node_unsuitable and claim is not None and await self._rescheduled(attempt, claim, failure, asks=after.other_node):
            return self.from_the_start(uid, why.Hindered(failure))
        return self._comes_again(attempt, failure, after)

    def _comes_again(self, attempt: Attempt, failure: Failure, after: After) -> Result:
        """Raises Retry."""
        uid, because = attempt.uid, why.Hindered(failure)
        match after.then:
            case Then.AT_ONCE:
                attempt.log.error(f"what was asked for before can't be had, asking for what is wanted now: {failure.error}")
                return Result(because, again=True)
            case Then.REST:
                record = self._records.of(uid)
                record.rest = Rest(self._clock.now() + self._rest_s, after.fingerprint, failure.error, failure.topics)
                record.looks = 0
                attempt.log.error(f"failed to provision: {failure.error}", state=failure.state.value, retry_in_s=self._rest_s)
                return dataclasses.replace(self.resting(uid, because, self._rest_s), keeps_backoff=False)
        raise Retry(f"failed to provision: {failure.error}", heals=failure.topics, because=why.Ended(failure.state.value))

    def resting(self, uid: str, because: Because, rest_s: float) -> Result:
        """Nobody watches attributes classes: a claim that has one is reconciled in the back-off, too."""
        record, claim = self._records.of(uid), self._view.claim(uid)
        heals = frozenset() if record.rest is None else record.rest.heals
        if claim is not None and claim.spec.volume_attributes_class_name:
            record.looks += 1
            rest_s = min(rest_s, self._backoff.jittered_s(record.looks, self._runtime.randomness))
        return Result(because, waits_for=heals, after_s=rest_s, keeps_backoff=True)

    async def _rescheduled(self, attempt: Attempt, claim: PersistentVolumeClaim, failure: Failure, *, asks: bool) -> bool:
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


class ProvisionMetrics:
    """Labels: the StorageClass, and the kind of the claim's data source, "" without.

    Differs from external-provisioner, which counts claims of other provisioners, and claims that have their volume already, as failed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels, name = ["class", "source"], "controller_persistentvolumeclaim_provision"
        self.total = Counter(f"{name}_total", "Volumes provisioned.", labels, registry=registry)
        self.failed = Counter(f"{name}_failed_total", "Attempts that failed.", labels, registry=registry)
        self.duration = Histogram(
            f"{name}_duration_seconds", "How long provisioning a volume took.", labels, buckets=BUCKETS_S, registry=registry
        )

    def succeeded(self, class_name: str, source_kind: str, seconds: float) -> None:
        self.total.labels(class_name, source_kind).inc()
        self.duration.labels(class_name, source_kind).observe(seconds)

    def has_failed(self, class_name: str, source_kind: str) -> None:
        self.failed.labels(class_name, source_kind).inc()
