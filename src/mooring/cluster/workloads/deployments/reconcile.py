"""Carries out the decision about a Deployment."""

from __future__ import annotations

import msgspec

from mooring.api.meta import Key
from mooring.api.pods import Pod
from mooring.api.workloads import DEPLOYMENTS, REPLICA_SETS, Deployment, DeploymentStatus, Json, ReplicaSet
from mooring.base.clock import Clock
from mooring.cluster.workloads.deployments import reasons as why
from mooring.cluster.workloads.deployments.decide import Action, Amend, Create, Delete, Resize, SetRevision, decide
from mooring.cluster.workloads.deployments.revisions import REVISION, new_of
from mooring.cluster.workloads.deployments.rollout import Scale
from mooring.cluster.workloads.deployments.status import NOT_MADE, looked_at_again_s, refused, status_of
from mooring.cluster.workloads.ownership import claim
from mooring.cluster.workloads.pods import FINISHED
from mooring.cluster.workloads.view import BY_CONTROLLER, WorkloadCaches, controller_key
from mooring.cluster.workloads.writes import WARNING, Writes
from mooring.control.decision import Decision
from mooring.control.result import Result, Retry, Stale
from mooring.kube.errors import AlreadyExists, ApiError


class Reconciler:
    def __init__(self, caches: WorkloadCaches, writes: Writes, clock: Clock) -> None:
        self._caches, self._writes, self._clock = caches, writes, clock

    async def reconcile(self, key: Key) -> Result:
        """Raises Retry, Stale, ApiError."""
        deployment = self._caches.deployments.store.get(key)
        if deployment is None:
            return Result(why.Gone())
        claimed = claim(
            deployment, deployment.spec.selector, self._caches.candidates(self._caches.replica_sets, DEPLOYMENTS, key)
        )
        if claimed.adopt or claimed.release:
            await self._writes.own(REPLICA_SETS, self._caches.replica_sets, deployment, claimed)
            return Result(why.Scaled(deployment.spec.replicas), again=True)
        running = {
            one.metadata.uid for one in claimed.mine if any(pod.status.phase not in FINISHED for pod in self._pods(one))
        }
        decision = decide(deployment, claimed.mine, running)
        await self._carry_out(deployment, decision)
        now = self._clock.wall_s()
        current = self._caches.deployments.store.get(key) or deployment
        is_made = any(isinstance(action, Create) for action in decision.actions)
        status = status_of(current, self._sets(deployment, key), is_made, now)
        await self._write_status(current, status)
        return Result(decision.because, after_s=looked_at_again_s(deployment, status, now))

    # -- what is so

    def _sets(self, deployment: Deployment, key: Key) -> tuple[ReplicaSet, ...]:
        found = self._caches.candidates(self._caches.replica_sets, DEPLOYMENTS, key)
        return claim(deployment, deployment.spec.selector, found).mine

    def _pods(self, replica_set: ReplicaSet) -> tuple[Pod, ...]:
        key = Key(replica_set.metadata.namespace, replica_set.metadata.name)
        return self._caches.pods.store.by(BY_CONTROLLER, controller_key(REPLICA_SETS.name, key))

    # -- what is done

    async def _carry_out(self, deployment: Deployment, decision: Decision[Action]) -> None:
        for action in decision.actions:
            match action:
                case Create(body):
                    await self._make(deployment, body)
                case Amend(change):
                    new = new_of(
                        deployment, self._sets(deployment, Key(deployment.metadata.namespace, deployment.metadata.name))
                    )
                    if new is not None:
                        await self._amend(new, change)
                case Resize(scale, sized):
                    await self._scale(deployment, scale, sized)
                case Delete(old):
                    await self._writes.delete(REPLICA_SETS, self._caches.replica_sets, old)
                case SetRevision(revision):
                    noted = {"metadata": {"annotations": {REVISION: revision}}}
                    # by way of the status, as upstream: otherwise the generation would count it
                    await self._writes.amend(
                        DEPLOYMENTS, self._caches.deployments, deployment, noted, subresource="status"
                    )

    async def _make(self, deployment: Deployment, body: Json) -> None:
        name = body["metadata"]["name"]
        try:
            made = await self._writes.create(
                REPLICA_SETS, self._caches.replica_sets, body, deployment.metadata.namespace
            )
        except AlreadyExists as error:
            await self._collided(deployment, name)
            raise Retry(f"the ReplicaSet's name is taken: {error}") from error
        except ApiError as error:
            text = f'Failed to create new replica set "{name}": {error}'
            self._writes.tell(deployment, NOT_MADE, text, WARNING)
            await self._write_status(deployment, refused(deployment, text, self._clock.wall_s()))
            raise
        if made.spec.replicas:
            self._tell(deployment, "up", made, 0, made.spec.replicas)

    async def _collided(self, deployment: Deployment, name: str) -> None:
        """Count the collision where another template has the same hash, so that the next name is another. Raises Stale
        where the cache was behind.
        """
        found = await self._writes.cluster.get(REPLICA_SETS, name, deployment.metadata.namespace)
        if new_of(deployment, [found]) is not None and claim(deployment, deployment.spec.selector, [found]).mine:
            self._caches.replica_sets.observed(found)
            raise Stale("the ReplicaSet is there already")
        count = (deployment.status.collision_count or 0) + 1
        await self._write_status(deployment, msgspec.structs.replace(deployment.status, collision_count=count))

    async def _write_status(self, deployment: Deployment, status: DeploymentStatus) -> None:
        await self._writes.write_status(deployment, deployment.status, status)

    async def _scale(self, deployment: Deployment, scale: Scale, sized: dict[str, str]) -> None:
        one = self._caches.replica_sets.store.get(Key(deployment.metadata.namespace, scale.replica_set.metadata.name))
        if one is None or one.metadata.uid != scale.replica_set.metadata.uid:
            raise Stale("a ReplicaSet is gone")
        before = one.spec.replicas
        if before == scale.replicas and sized.items() <= (one.metadata.annotations or {}).items():
            return
        await self._amend(one, {"metadata": {"annotations": sized}, "spec": {"replicas": scale.replicas}})
        if before != scale.replicas:
            self._tell(deployment, "up" if scale.replicas > before else "down", one, before, scale.replicas)

    def _tell(self, deployment: Deployment, way: str, one: ReplicaSet, before: int, after: int) -> None:
        self._writes.tell(
            deployment, "ScalingReplicaSet", f"Scaled {way} replica set {one.metadata.name} from {before} to {after}"
        )

    async def _amend(self, one: ReplicaSet, change: Json) -> None:
        await self._writes.amend(REPLICA_SETS, self._caches.replica_sets, one, change)
