"""Carries out the decision about a ReplicaSet."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mooring.api.meta import Condition, Key, key_of
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import REPLICA_SETS, ReplicaSet
from mooring.base.clock import Clock
from mooring.cluster.workloads.decision import CreatePods, DeletePod
from mooring.cluster.workloads.ownership import Claimed, claim, controller_of, reference
from mooring.cluster.workloads.pods import from_template, is_active, soonest_s
from mooring.cluster.workloads.replicasets import reasons as why
from mooring.cluster.workloads.replicasets.decide import Action, decide, failed, status_of
from mooring.cluster.workloads.view import BY_CONTROLLER, WorkloadCaches, controller_key
from mooring.cluster.workloads.writes import WARNING, Writes
from mooring.control.decision import Decision
from mooring.control.result import Result, Retry


class Reconciler:
    def __init__(self, caches: WorkloadCaches, writes: Writes, clock: Clock) -> None:
        self._caches, self._writes, self._clock = caches, writes, clock

    async def reconcile(self, key: Key) -> Result:
        """Raises Retry, Stale, ApiError."""
        replica_set = self._caches.replica_sets.store.get(key)
        if replica_set is None:
            return Result(why.Gone())
        claimed = self._claim(replica_set, key)
        if claimed.adopt or claimed.release:
            await self._writes.own(PODS, self._caches.pods, replica_set, claimed)
        decision = decide(replica_set, (*claimed.mine, *claimed.adopt), self._caches.going, self._siblings(replica_set))
        trouble = await self._carry_out(replica_set, decision)
        pods = self._pods(replica_set, key)
        now = self._clock.wall_s()
        status = status_of(replica_set, pods, self._caches.going, None if trouble is None else trouble[0], now)
        await self._writes.write_status(replica_set, replica_set.status, status)
        if trouble is not None:
            raise trouble[1]
        return Result(decision.because, after_s=soonest_s(pods, replica_set.spec.min_ready_seconds, now))

    def _claim(self, replica_set: ReplicaSet, key: Key) -> Claimed[Pod]:
        """The ReplicaSet's pods. Those that have ended are not adopted: they would go with the ReplicaSet."""
        found = claim(
            replica_set, replica_set.spec.selector, self._caches.candidates(self._caches.pods, REPLICA_SETS, key)
        )
        return msgspec.structs.replace(
            found, adopt=tuple(pod for pod in found.adopt if is_active(pod, self._caches.going))
        )

    def _siblings(self, replica_set: ReplicaSet) -> Iterator[Pod]:
        """The pods of the other ReplicaSets of its owner, of a Deployment mostly."""
        owner = controller_of(replica_set)
        if owner is None:
            return
        owned = controller_key(owner.kind, Key(replica_set.metadata.namespace, owner.name))
        for one in self._caches.replica_sets.store.by(BY_CONTROLLER, owned):
            if one.metadata.uid != replica_set.metadata.uid:
                yield from self._caches.pods.store.by(BY_CONTROLLER, controller_key(REPLICA_SETS.name, key_of(one)))

    def _pods(self, replica_set: ReplicaSet, key: Key) -> tuple[Pod, ...]:
        found = self._caches.candidates(self._caches.pods, REPLICA_SETS, key)
        return claim(replica_set, replica_set.spec.selector, found).mine

    async def _carry_out(
        self, replica_set: ReplicaSet, decision: Decision[Action]
    ) -> tuple[Condition, Exception] | None:
        """The condition and the error of the first refused request, None when all went well."""
        for action in decision.actions:
            try:
                match action:
                    case CreatePods(count):
                        for _ in range(count):
                            await self._create(replica_set)
                    case DeletePod(pod):
                        await self._writes.delete_pod(pod)
                        self._writes.tell(replica_set, "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
            except Retry as error:
                reason, work = (
                    ("FailedCreate", "creating") if isinstance(action, CreatePods) else ("FailedDelete", "deleting")
                )
                text = str(error.__cause__)
                self._writes.tell(replica_set, reason, f"Error {work}: {text}", WARNING)
                return failed(reason, text, self._clock.wall_s()), error
        return None

    async def _create(self, replica_set: ReplicaSet) -> None:
        owner = reference(REPLICA_SETS, replica_set)
        prefix = f"{replica_set.metadata.name}-"
        made = await self._writes.create_pod(
            replica_set, from_template(replica_set.spec.template, owner, generate_name=prefix)
        )
        self._writes.tell(replica_set, "SuccessfulCreate", f"Created pod: {made.metadata.name}")
