"""One attempt at a claim: carries out what is decided, and tells users and metrics what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram

from mooring.api.core import (
    SECRETS,
    ObjectReference,
    PersistentVolumeClaim,
    SecretReference,
)
from mooring.base.clock import Instant
from mooring.base.log import logger
from mooring.control.decision import Decision
from mooring.control.events import EventRecorder
from mooring.control.result import Because, Result
from mooring.control.secrets import SecretCache, SecretError
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.decide import decide_claim
from mooring.sidecars.provisioner.claims.decision import (
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
)
from mooring.sidecars.provisioner.claims.failures import Attempt, AttemptFailures
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted, placement_doubt
from mooring.sidecars.provisioner.environment import BUCKETS_S, Environment
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model.cached import claim_reference
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, Save

log = logger(__name__)


class ProvisionMetrics:
    """Labels: the StorageClass, and the kind of the claim's data source, "" without.

    Differs from external-provisioner, which counts claims of other provisioners, and claims that have their volume already, as failed.
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


def reference_of(claim: PersistentVolumeClaim | None, intent: Intent | None) -> ObjectReference | None:
    """The claim, or else that of its intent; None when there is neither."""
    if claim is not None:
        return claim_reference(claim)
    return None if intent is None else intent.claim_reference


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
            f"it may have been kept on purpose, so {pv_name} is retained. If nobody needs it, set its reclaim policy to Delete"
        )
        log.warning(text, PVC=f"{claim.namespace}/{claim.name}", PersistentVolume=pv_name)
        self._recorder.event(claim, "Warning", "VolumeRetained", text)


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
        self._cluster, self._clock, self._secrets = env.runtime.cluster, env.runtime.clock, env.secrets
        self._view, self._tracker, self._creation = view, tracker, creation
        self._events = ClaimEvents(env.events, populating)
        self._failures = AttemptFailures(env, view, tracker, creation)
        self._metrics = env.runtime.metrics.once(ProvisionMetrics)
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
        """The decision, once all objects are looked up that it needs. The event that an attempt has begun is sent at once.

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
                self._events.begins(attempt.ref)
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
                case Create():
                    return await self._create(attempt, action, because)
                case CleanUp():
                    return await self._clean_up(attempt, action, because)
                case LeaveToPopulator():
                    self._events.left_to_populator(attempt.ref)
                    return self._ended(uid, because)
                case Fail(failure, class_name, source_kind):
                    return await self.failed(attempt, class_name, source_kind, failure)
                case CountFailure(class_name, source_kind):
                    self._metrics.has_failed(class_name, source_kind)
                case CloseIntent():
                    await self._tracker.store(uid, self._view.stored_handle(self._view.intents[uid].volume_name))
                    if uid in self._tracker:
                        return self._done(uid, because)
                case ReleaseSource() if uid not in self._tracker:
                    self._creation.release(uid)
        if decision.after_s is not None:
            return self._failures.resting(uid, because, decision.after_s)
        if attempt.claim is None and uid not in self._tracker:
            self._creation.forget(uid)
        return self._failures.from_the_start(uid, because)

    async def _create(self, attempt: Attempt, action: Create, because: Because) -> Result:
        order = action.order
        if order.where is not None and (doubt := placement_doubt(self._view, order.intent.node_name, order.where)):
            self._events.placed_in_doubt(attempt.ref, doubt)
        try:
            saved = await self._creation.create(order, _values(order, attempt.looked), attempt.began)
        except AttemptFailed as failed:
            return await self.failed(attempt, action.class_name, action.source_kind, failed.failure, order)
        except Exception as bug:
            if self._view.records.get(attempt.uid).pending is not None:
                self._store_later(attempt.uid, str(bug))
            raise
        match saved:
            case None:
                pass
            case (Save.LATER, error):
                self._store_later(attempt.uid, error)
            case _:
                await self.succeeded(attempt.ref, order, attempt.began)
        return self._done(attempt.uid, because)

    def _done(self, uid: str, because: Because) -> Result:
        """The claim has its volume, or needs none. There may be a second one."""
        return msgspec.structs.replace(self._ended(uid, because), again=self._view.records.get(uid).is_unresolved)

    async def _clean_up(self, attempt: Attempt, action: CleanUp, because: Because) -> Result:
        order = action.order
        try:
            await self._creation.rejection.clean_up(order, _values(order, attempt.looked))
        except AttemptFailed as failed:
            return await self.failed(attempt, action.class_name, action.source_kind, failed.failure, order)
        await self._creation.close(order.intent)
        return self._done(attempt.uid, because)

    # -- the result of an attempt

    def _ended(self, uid: str, because: Because) -> Result:
        """There is nothing left to do for the claim."""
        self._creation.forget(uid)
        return Result(because)

    async def succeeded(self, ref: ObjectReference, order: Order, began: Instant) -> None:
        """Reports success, closes the intent, releases the source."""
        intent = order.intent
        self._metrics.succeeded(intent.class_name, intent.source_kind, self._clock.now() - began)
        log.info(2, "provisioned", PVC=f"{ref.namespace}/{ref.name}", PersistentVolume=intent.volume_name)
        if self._view.claim(intent.uid) is not None:
            self._events.succeeded(ref, intent.volume_name)
        if order.is_retained:
            self._events.retained(ref, intent.volume_name)
        await self._creation.close(intent)

    async def failed(
        self, attempt: Attempt, class_name: str, kind: str, failure: Failure, order: Order | None = None
    ) -> Result:
        """Counts the failure, reports it, and says when the claim comes again. As of AttemptFailures. Raises Retry."""
        self._metrics.has_failed(class_name, kind)
        return await self._failures.failed(attempt, class_name, failure, order)


def _values(order: Order, looked: Looked) -> Mapping[str, str]:
    """The secret's values, which were looked up for the decision."""
    ref = order.intent.secret
    if ref is None or order.secret_is_lost:
        return {}
    values: Mapping[str, str] = looked.get(Wanted(SECRETS, ref.name, ref.namespace))
    return values


async def look_up(cluster: Cluster, secrets: SecretCache, wanted: Wanted, looked: Looked) -> None:
    """Puts the object into `looked`, or the error: that is an answer, too."""
    try:
        if wanted.kind is SECRETS:
            looked.found[wanted] = await secrets.get(SecretReference(name=wanted.name, namespace=wanted.namespace))
        else:
            looked.found[wanted] = await cluster.get(wanted.kind, wanted.name, wanted.namespace)
    except (ApiError, SecretError) as error:
        looked.found[wanted] = error
