"""One attempt at a claim: carries out what is decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from mooring.api.core import (
    SECRETS,
    SecretReference,
)
from mooring.control.result import Because, Result
from mooring.control.secrets import SecretCache, SecretError
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError
from mooring.sidecars.provisioner.claims import node_topology
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.claim_events import ClaimEvents, reference_of
from mooring.sidecars.provisioner.claims.create_volume import VolumeCreation
from mooring.sidecars.provisioner.claims.decide import decide_claim
from mooring.sidecars.provisioner.claims.decision import CleanUp, Create, Decision, LeaveToPopulator, LookUp
from mooring.sidecars.provisioner.claims.results import Attempt, AttemptResults
from mooring.sidecars.provisioner.claims.store_pending import PendingVolumes
from mooring.sidecars.provisioner.claims.view import Looked, View, Wanted
from mooring.sidecars.provisioner.environment import Environment
from mooring.sidecars.provisioner.intents.tracker import IntentTracker
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failed, Save


class ClaimReconciler:
    """pending: takes a volume that exists and whose object could not be stored. explain: called with a claim's uid and each reason."""

    def __init__(
        self,
        env: Environment,
        view: View,
        tracker: IntentTracker,
        creation: VolumeCreation,
        events: ClaimEvents,
        results: AttemptResults,
        pending: PendingVolumes,
        explain: Callable[[str, Because], None],
    ) -> None:
        self._cluster, self._clock, self._secrets = env.runtime.cluster, env.runtime.clock, env.secrets
        self._view, self._tracker, self._creation = view, tracker, creation
        self._events, self._results, self._pending, self._explain = events, results, pending, explain

    async def reconcile(self, uid: str) -> Result:
        """One attempt, or nothing where there is nothing to try. Raises Retry."""
        claim = self._view.claim(uid)
        ref = reference_of(claim, self._view.intents.get(uid))
        if ref is None:
            self._creation.release(uid)
            return self._results.done(uid, why.Gone(uid))
        attempt = Attempt(uid, ref, claim, self._clock.now())
        decision = await self._decided(attempt)
        match decision.action:
            case Create(order):
                return await self._create(attempt, order, decision)
            case CleanUp(order):
                return await self._clean_up(attempt, order, decision)
            case LeaveToPopulator():
                self._events.left_to_populator(attempt.ref)
                return self._results.done(uid, decision.because)
            case _ if decision.failure is not None:
                return await self._results.failed(attempt, decision.class_name, decision.source_kind, decision.failure)
        return await self._nothing_to_try(attempt, decision)

    async def _decided(self, attempt: Attempt) -> Decision:
        """The decision, once all objects are looked up that it needs. The event that an attempt has begun is sent at once."""
        announced = False
        while True:
            decision = decide_claim(self._view, attempt.uid, self._clock.now(), attempt.looked)  # no await between this and the action
            self._explain(attempt.uid, decision.because)
            if decision.attempting and not announced:
                announced = True
                self._events.begins(attempt.ref)
            if not isinstance(decision.action, LookUp):
                return decision
            await look_up(self._cluster, self._secrets, decision.action.wanted, attempt.looked)

    async def _create(self, attempt: Attempt, order: Order, decision: Decision) -> Result:
        if doubt := node_topology.doubt(self._view, order.intent.node_name, order.where):
            self._events.placed_in_doubt(attempt.ref, doubt)
        try:
            saved = await self._creation.create(order, _values(order, attempt.looked), attempt.began)
        except Failed as failed:
            return await self._results.failed(attempt, decision.class_name, decision.source_kind, failed.failure, order)
        except Exception as bug:
            if self._view.records.get(attempt.uid).pending is not None:
                self._pending.add(attempt.uid, str(bug))
            raise
        match saved:
            case None:
                pass
            case (Save.LATER, error):
                self._pending.add(attempt.uid, error)
            case _:
                await self._results.succeeded(attempt.ref, order, attempt.began)
        return self._done(attempt.uid, decision)

    def _done(self, uid: str, decision: Decision) -> Result:
        """The claim has its volume, or needs none. There may be a second one."""
        return dataclasses.replace(self._results.done(uid, decision.because), again=self._view.records.get(uid).is_unresolved)

    async def _clean_up(self, attempt: Attempt, order: Order, decision: Decision) -> Result:
        try:
            await self._creation.clean_up(order, _values(order, attempt.looked))
        except Failed as failed:
            return await self._results.failed(attempt, decision.class_name, decision.source_kind, failed.failure, order)
        await self._creation.close(order.intent)
        return self._done(attempt.uid, decision)

    async def _nothing_to_try(self, attempt: Attempt, decision: Decision) -> Result:
        uid = attempt.uid
        if decision.counts_failure:
            self._results.metrics.has_failed(decision.class_name, decision.source_kind)
        if decision.wait_s is not None:
            return self._results.resting(uid, decision.because, decision.wait_s)
        if decision.closes_intent:
            await self._tracker.store(uid, self._view.stored_handle(self._view.intents[uid].volume_name))
            if uid in self._tracker:
                return self._done(uid, decision)
        if decision.has_volume and uid not in self._tracker:
            self._creation.release(uid)
        if attempt.claim is None and uid not in self._tracker:
            self._results.forget(uid)
        return self._results.from_the_start(uid, decision.because)


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
