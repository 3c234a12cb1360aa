"""One attempt at a claim: the decision is carried out, and users, metrics and the intent are told what it came to.

`decide.py` says what is to be done, `provision.py` does it; `decide_after.py` says what follows from a failure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import SECRETS, ObjectReference, PersistentVolumeClaim, SecretReference
from mooring.base.clock import Instant
from mooring.base.log import Logger, logger
from mooring.control.decision import Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Because, Result, Retry
from mooring.control.secrets import SecretCache, SecretError
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.decide import (
    Action,
    Begin,
    CleanUp,
    CloseIntent,
    CountFailure,
    Create,
    Fail,
    LeaveToPopulator,
    LookUp,
    ReleaseSource,
    decide_claim,
    has_object,
)
from mooring.sidecars.provisioner.claims.decide_after import (
    RESCHEDULES_MAX,
    After,
    Attempted,
    Then,
    decide_claim_after_failure,
    reported_failure,
    told,
)
from mooring.sidecars.provisioner.claims.prepare import secret_values
from mooring.sidecars.provisioner.claims.provision import End, Pending, VolumeCreation
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted, placement_doubt
from mooring.sidecars.provisioner.environment import BUCKETS_S, Environment, deselect_node
from mooring.sidecars.provisioner.intents.tracker import IntentTracker, Rest
from mooring.sidecars.provisioner.model import topics
from mooring.sidecars.provisioner.model.cached import claim_reference, selected_node
from mooring.sidecars.provisioner.model.intent import ClaimIntents
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, State

log = logger(__name__)

INFEASIBLE_S: Final = 300.0
"""How long an infeasible claim rests at the least, unless it changes."""


class ProvisionMetrics:
    """Labels: the StorageClass, and the kind of the claim's data source, "" without.

    Differs from external-provisioner, which counts claims of other provisioners, and claims that have their volume
    already, as failed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels, name = ["class", "source"], "controller_persistentvolumeclaim_provision"
        self.total = Counter(f"{name}_total", "Volumes provisioned.", labels, registry=registry)
        self.failed = Counter(f"{name}_failed_total", "Attempts that failed.", labels, registry=registry)
        self.duration = Histogram(
            f"{name}_duration_seconds",
            "How long provisioning a volume took.",
            labels,
            buckets=BUCKETS_S,
            registry=registry,
        )

    def succeeded(self, class_name: str, source_kind: str, seconds: float) -> None:
        self.total.labels(class_name, source_kind).inc()
        self.duration.labels(class_name, source_kind).observe(seconds)

    def has_failed(self, class_name: str, source_kind: str) -> None:
        self.failed.labels(class_name, source_kind).inc()


def reference_of(claim: PersistentVolumeClaim | None, entry: ClaimIntents | None) -> ObjectReference | None:
    """The claim, or else that of its intents; None when there is neither."""
    if claim is not None:
        return claim_reference(claim)
    return None if entry is None else entry.last.claim_reference


class ClaimEvents:
    """recorder: of the driver's events. populating: of the one that leaves a claim to a populator."""

    def __init__(self, recorder: EventRecorder, populating: EventRecorder) -> None:
        self._recorder, self._populating = recorder, populating

    def begins(self, claim: ObjectReference) -> None:
        text = f'External provisioner is provisioning volume for claim "{claim.namespace}/{claim.name}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)

    def placed_in_doubt(self, claim: ObjectReference, doubt: str) -> None:
        self._recorder.event(claim, "Warning", "NodeNotReady", f"A volume is provisioned although {doubt}")

    def left_to_populator(self, claim: ObjectReference) -> None:
        self._populating.event(
            claim, "Normal", "Provisioning", "Assuming an external populator will provision the volume"
        )

    def succeeded(self, claim: ObjectReference, pv_name: str) -> None:
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {pv_name}")

    def retained(self, claim: ObjectReference, pv_name: str) -> None:
        text = (
            "The claim is gone, and nobody looked after its volume for a while: "
            f"it may have been kept on purpose, so {pv_name} is retained. If nobody needs it, set its reclaim "
            "policy to Delete"
        )
        log.warning(text, PVC=f"{claim.namespace}/{claim.name}", PersistentVolume=pv_name)
        self._recorder.event(claim, "Warning", "VolumeRetained", text)

    def failed(self, claim: ObjectReference, error: str, *, infeasible: bool = False) -> None:
        """error: as external-provisioner words it, for people and for those who grep."""
        delayed = "Volume provisioning failed with infeasible error. Retries will be delayed. "
        self._recorder.event(claim, "Warning", "ProvisioningFailed", f"{delayed * infeasible}{error}")


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a claim."""

    uid: str
    ref: ObjectReference
    #: The claim as it was when the attempt began; None when gone.
    claim: PersistentVolumeClaim | None
    began: Instant
    looked: Looked = dataclasses.field(default_factory=Looked, repr=False)

    @property
    def log(self) -> Logger:
        return log.bind(PVC=f"{self.ref.namespace}/{self.ref.name}")


class ClaimReconciler:
    """populating: of the event that leaves a claim to a populator. explain: called with a claim's uid and each reason.

    store_later: takes a claim's uid and an error, where the volume exists and its object could not be stored.
    """

    def __init__(
        self,
        env: Environment,
        view: View,
        tracker: IntentTracker,
        creation: VolumeCreation,
        populating: EventRecorder,
        explain: Callable[[str, Because], None],
        store_later: Callable[[str, str], None],
    ) -> None:
        self._runtime, self._cluster, self._clock = env.runtime, env.runtime.cluster, env.runtime.clock
        self._secrets, self._claims, self._bus = env.secrets, env.caches.claims, env.bus
        self._view, self._records, self._tracker, self._creation = view, view.records, tracker, creation
        self.events = ClaimEvents(env.events, populating)
        self._metrics = env.runtime.metrics.once(ProvisionMetrics)
        self._rest_s, self._backoff = max(env.options.retry_interval_max_s, INFEASIBLE_S), env.options.backoff
        self._explain, self._store_later = explain, store_later

    async def reconcile(self, uid: str) -> Result:
        """One attempt, or nothing where there is nothing to try. Raises Retry."""
        claim = self._view.claim(uid)
        ref = reference_of(claim, self._view.intents.get(uid))
        if ref is None:
            self._creation.release(uid)
            return self._ended(uid, why.Gone(uid))
        attempt = Attempt(uid, ref, claim, self._clock.now())
        return await self._perform(attempt, await self._decided(attempt))

    async def _decided(self, attempt: Attempt) -> Decision[Action]:
        """The decision, once all objects are looked up that it needs. The event that an attempt has begun is sent at
        once.

        `Deciding` would begin each step anew; what an attempt has looked up lasts until its end.
        """
        announced = False
        while True:
            decision = decide_claim(
                self._view, attempt.uid, self._clock.now(), attempt.looked
            )  # no await between this and the action
            self._explain(attempt.uid, decision.because)
            if Begin() in decision.actions and not announced:
                announced = True
                self.events.begins(attempt.ref)
            for action in decision.actions:
                if isinstance(action, LookUp):
                    await look_up(self._cluster, self._secrets, action.wanted, attempt.looked)
            if not decision.again:
                return decision

    async def _perform(self, attempt: Attempt, decision: Decision[Action]) -> Result:
        """Raises Retry."""
        uid, because = attempt.uid, decision.because
        for action in decision.actions:
            match action:
                case Create(order) | CleanUp(order):
                    return await self._carry_out(attempt, order, because, cleans_up=isinstance(action, CleanUp))
                case LeaveToPopulator():
                    self.events.left_to_populator(attempt.ref)
                    return self._ended(uid, because)
                case Fail(failure, class_name, source_kind):
                    return await self.failed(attempt, class_name, source_kind, failure)
                case CountFailure(class_name, source_kind):
                    self._metrics.has_failed(class_name, source_kind)
                case CloseIntent():
                    await self._tracker.mark_stored(self._view.intents[uid].last)
                    if uid in self._tracker:
                        return self._done(uid, because)
                case ReleaseSource() if uid not in self._tracker:
                    self._creation.release(uid)
        if decision.after_s is not None:
            return self._resting(uid, because, decision.after_s)
        if uid not in self._tracker:
            if attempt.claim is None:
                self._creation.forget(uid)
            else:
                self._creation.free_source(uid)  # it waits for something else, such as a node
        return self._from_the_start(uid, because)

    async def _carry_out(self, attempt: Attempt, order: Order, because: Because, *, cleans_up: bool) -> Result:
        """Raises Retry."""
        uid, intent = attempt.uid, order.intent
        secrets = {} if order.secret_is_lost else secret_values(intent.secret, attempt.looked)
        try:
            if cleans_up:
                outcome = await self._creation.clean_up(order, secrets)
            else:
                if order.where is not None and (doubt := placement_doubt(self._view, intent.node_name, order.where)):
                    self.events.placed_in_doubt(attempt.ref, doubt)
                outcome = await self._creation.create(order, secrets, attempt.began)
        except Exception as bug:
            if self._records.get(uid).pending is not None:
                self._store_later(uid, str(bug))
            raise
        match outcome:
            case Failure():
                return await self.failed(attempt, intent.class_name, intent.source_kind, outcome, order)
            case Pending(error):
                self._store_later(uid, error)
            case End.STORED:
                await self.succeeded(attempt.ref, order, attempt.began)
        return self._done(uid, because)

    # -- the end of an attempt

    async def succeeded(self, ref: ObjectReference, order: Order, began: Instant) -> None:
        """Reports success, closes the intent, releases the source. Raises Retry."""
        intent = order.intent
        self._metrics.succeeded(intent.class_name, intent.source_kind, self._clock.now() - began)
        log.info(2, "provisioned", PVC=f"{ref.namespace}/{ref.name}", PersistentVolume=intent.volume_name)
        if self._view.claim(intent.uid) is not None:
            self.events.succeeded(ref, intent.volume_name)
        if order.is_retained:
            self.events.retained(ref, intent.volume_name)
        await self._creation.close(intent)

    def _done(self, uid: str, because: Because) -> Result:
        """The claim has its volume, or needs none. Other requests may have made one, too."""
        entry = self._view.intents.get(uid)
        again = entry is not None and entry.current is None
        return msgspec.structs.replace(self._ended(uid, because), again=again)

    def _ended(self, uid: str, because: Because) -> Result:
        """There is nothing left to do for the claim."""
        self._creation.forget(uid)
        return Result(because)

    async def failed(
        self, attempt: Attempt, class_name: str, kind: str, failure: Failure, order: Order | None = None
    ) -> Result:
        """Tells metrics, users and the intent, and says when the claim comes again. order: None when the attempt did
        not get that far. Raises Retry.
        """
        uid = attempt.uid
        self._metrics.has_failed(class_name, kind)
        failure = reported_failure(failure, order)
        if failure.state is not State.NO_CHANGE:
            self._bus.tell(topics.ROOM_LACKING, class_name)
            if order is None:
                pass  # no call was made
            elif failure.is_over:
                await self._tracker.refuse(order.intent, proves_absent=failure.proves_absent)
            else:
                self._tracker.mark_unknown(order.intent)
        claim = self._view.claim(uid)  # perhaps it has gone meanwhile
        stored = claim is not None and has_object(self._view, claim)
        node_tried, reschedules = _node_tried(attempt, order), self._records.get(uid).reschedules
        attempted = Attempted(failure, order, claim, node_tried, uid in self._tracker, reschedules, stored)
        after = decide_claim_after_failure(attempted)
        self.events.failed(attempt.ref, told(attempted), infeasible=failure.infeasible)
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
            return self._from_the_start(uid, why.Hindered(failure))
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
                return msgspec.structs.replace(self._resting(uid, because, self._rest_s), keeps_backoff=False)
        raise Retry(
            f"failed to provision: {failure.error}", heals=failure.topics, because=why.Ended(failure.state.value)
        )

    def _resting(self, uid: str, because: Because, rest_s: float) -> Result:
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

    def _from_the_start(self, uid: str, because: Because) -> Result:
        """The back-off begins anew, unless one node after the other does not suit."""
        return Result(because, keeps_backoff=self._records.get(uid).reschedules > RESCHEDULES_MAX)


def _node_tried(attempt: Attempt, order: Order | None) -> str:
    if order is not None:
        return order.intent.node_name
    return "" if attempt.claim is None else selected_node(attempt.claim)


async def look_up(cluster: Cluster, secrets: SecretCache, wanted: Wanted, looked: Looked) -> None:
    """Puts the object into `looked`, or the error: that is an answer, too."""
    try:
        if wanted.kind is SECRETS:
            looked.found[wanted] = await secrets.get(SecretReference(name=wanted.name, namespace=wanted.namespace))
        else:
            looked.found[wanted] = await cluster.get(wanted.kind, wanted.name, wanted.namespace)
    except (ApiError, SecretError) as error:
        looked.found[wanted] = error
