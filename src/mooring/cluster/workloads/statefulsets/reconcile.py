"""Carries out the decision about a StatefulSet."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Key, is_deleting
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import CONTROLLER_REVISIONS, STATEFUL_SETS, ControllerRevision, StatefulSet
from mooring.base.clock import Clock
from mooring.cluster.workloads.decision import DeletePod
from mooring.cluster.workloads.ownership import Claimed, claim
from mooring.cluster.workloads.pods import is_going, soonest_s
from mooring.cluster.workloads.statefulsets import reasons as why
from mooring.cluster.workloads.statefulsets.decide import (
    Action,
    CreateClaims,
    CreatePod,
    Label,
    Own,
    TellDisputed,
    TellHeld,
    TellUpdated,
    Template,
    View,
    decide,
)
from mooring.cluster.workloads.statefulsets.identity import ordinal_of, revision_of
from mooring.cluster.workloads.statefulsets.revisions import Revisions, revisions_of, template_of
from mooring.cluster.workloads.statefulsets.status import status_of
from mooring.cluster.workloads.view import BY_SET, WorkloadCaches
from mooring.cluster.workloads.writes import WARNING, Writes
from mooring.control.decision import Decision
from mooring.control.result import Result, Retry, Stale
from mooring.kube.errors import AlreadyExists, ApiError

Json = dict[str, Any]


class Reconciler:
    def __init__(self, caches: WorkloadCaches, writes: Writes, clock: Clock) -> None:
        self._caches, self._writes, self._clock = caches, writes, clock

    async def reconcile(self, key: Key) -> Result:
        """Raises Retry, Stale, ApiError."""
        stateful_set = self._caches.stateful_sets.store.get(key)
        if stateful_set is None:
            return Result(why.Gone())
        claimed = claim(stateful_set, stateful_set.spec.selector, self._named(stateful_set, key))
        if claimed.adopt or claimed.release:
            await self._writes.own(PODS, self._caches.pods, stateful_set, claimed)
        if is_deleting(stateful_set):
            return await self._count_down(stateful_set, key)
        found = self._revisions(stateful_set, key)
        await self._writes.own(
            CONTROLLER_REVISIONS, self._caches.revisions, stateful_set, msgspec.structs.replace(found, release=())
        )
        revisions = revisions_of(
            stateful_set, self._revisions(stateful_set, key).mine, {revision_of(pod) for pod in claimed.mine}
        )
        if revisions.update is None:
            await self._make_revision(stateful_set, revisions)
            return Result(why.NewTemplate(), again=True)
        await self._keep_revisions(revisions)
        return await self._work(stateful_set, key, revisions)

    async def _count_down(self, stateful_set: StatefulSet, key: Key) -> Result:
        """Count the pods that are left of a deleted set; its revisions may be gone already."""
        status = stateful_set.status
        view = self._view_with(
            stateful_set, key, Template(status.current_revision, {}), Template(status.update_revision, {})
        )
        await self._writes.write_status(stateful_set, status, status_of(view))
        return Result(why.Deleting())

    async def _work(self, stateful_set: StatefulSet, key: Key, revisions: Revisions) -> Result:
        decision = decide(self._view(stateful_set, key, revisions))
        trouble: Exception | None = None
        try:
            await self._carry_out(stateful_set, decision)
        except (Retry, ApiError) as error:  # the status follows all the same
            trouble = error
        view = self._view(stateful_set, key, revisions)
        await self._writes.write_status(stateful_set, stateful_set.status, status_of(view))
        if trouble is not None:
            raise trouble
        return Result(decision.because, after_s=soonest_s(view.pods, stateful_set.spec.min_ready_seconds, view.now))

    # -- what is so

    def _named(self, stateful_set: StatefulSet, key: Key) -> list[Pod]:
        """The pods with a name of the set's; others are not its own, whatever their labels say."""
        found = self._caches.candidates(self._caches.pods, STATEFUL_SETS, key)
        return [pod for pod in found if ordinal_of(stateful_set, pod) is not None]

    def _revisions(self, stateful_set: StatefulSet, key: Key) -> Claimed[ControllerRevision]:
        found = self._caches.candidates(self._caches.revisions, STATEFUL_SETS, key)
        return claim(stateful_set, stateful_set.spec.selector, found)

    def _view(self, stateful_set: StatefulSet, key: Key, revisions: Revisions) -> View:
        assert revisions.update is not None, "it has been made"
        assert revisions.current is not None, "there is always one beside it"
        update = Template(revisions.update.metadata.name, template_of(revisions.update))
        current = Template(revisions.current.metadata.name, template_of(revisions.current))
        return self._view_with(stateful_set, key, current, update)

    def _view_with(self, stateful_set: StatefulSet, key: Key, current: Template, update: Template) -> View:
        pods = claim(stateful_set, stateful_set.spec.selector, self._named(stateful_set, key)).mine
        claims = self._caches.claims.store
        owned = tuple(claims.by(BY_SET, stateful_set.metadata.uid))
        return View(stateful_set, pods, claims.get, owned, self._caches.going, current, update, self._clock.wall_s())

    # -- what is done

    async def _make_revision(self, stateful_set: StatefulSet, revisions: Revisions) -> None:
        """Raises Stale, and Retry when the name is another template's: the next try counts the collision."""
        assert revisions.make is not None, "a missing revision has a body"
        body, namespace = revisions.make, stateful_set.metadata.namespace
        await self._writes.check_alive(
            stateful_set
        )  # else the garbage collector takes the revision at once, and it would be made again
        try:
            await self._writes.create(CONTROLLER_REVISIONS, self._caches.revisions, body, namespace)
        except AlreadyExists as error:
            found = await self._writes.cluster.get(CONTROLLER_REVISIONS, body["metadata"]["name"], namespace)
            if found.data == body["data"] and claim(stateful_set, stateful_set.spec.selector, [found]) != Claimed(()):
                self._caches.revisions.observed(found)
                raise Stale("the revision is there already") from error
            count = (stateful_set.status.collision_count or 0) + 1
            status = msgspec.structs.replace(stateful_set.status, collision_count=count)
            await self._writes.write_status(stateful_set, stateful_set.status, status)
            raise Retry(f"the revision's name is taken: {error}") from error

    async def _keep_revisions(self, revisions: Revisions) -> None:
        if revisions.number and revisions.update is not None:
            change = {"revision": revisions.number}
            await self._writes.amend(CONTROLLER_REVISIONS, self._caches.revisions, revisions.update, change)
        for one in revisions.outdated:
            await self._writes.delete(CONTROLLER_REVISIONS, self._caches.revisions, one)

    async def _carry_out(self, stateful_set: StatefulSet, decision: Decision[Action]) -> None:
        for action in decision.actions:
            match action:
                case TellHeld(pod_name, claim_name):
                    self._tell_failed(stateful_set, pod_name, f"pvc {claim_name} is being deleted")
                case TellDisputed(claim_name):
                    self._tell_disputed(stateful_set, claim_name)
                case Label():
                    await self._label(stateful_set, action)
                case Own(owned, owners):
                    change = {"metadata": {"ownerReferences": owners}}
                    await self._writes.amend(PERSISTENT_VOLUME_CLAIMS, self._caches.claims, owned, change)
                case TellUpdated(pod_name):
                    self._tell_updated(stateful_set, pod_name)
                case CreateClaims(pod_name, claims):
                    for body in claims:
                        await self._create_claim(stateful_set, body, pod_name)
                case CreatePod():
                    await self._create(stateful_set, action)
                case DeletePod(pod):
                    await self._writes.delete_pod(pod)
                    text = f"Delete Pod {pod.metadata.name} in StatefulSet {stateful_set.metadata.name} successful"
                    self._writes.tell(stateful_set, "SuccessfulDelete", text)

    def _tell_disputed(self, stateful_set: StatefulSet, claim_name: str) -> None:
        text = (
            "has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored "
            "for this claim"
        )
        self._writes.tell(stateful_set, "ConflictingController", f"PersistentVolumeClaim {claim_name} {text}", WARNING)

    async def _label(self, stateful_set: StatefulSet, label: Label) -> None:
        await self._writes.amend(PODS, self._caches.pods, label.pod, {"metadata": {"labels": label.labels}})
        self._tell_updated(stateful_set, label.pod.metadata.name)

    def _tell_updated(self, stateful_set: StatefulSet, pod_name: str) -> None:
        text = f"Update Pod {pod_name} in StatefulSet {stateful_set.metadata.name} successful"
        self._writes.tell(stateful_set, "SuccessfulUpdate", text)

    async def _create(self, stateful_set: StatefulSet, create: CreatePod) -> None:
        """Create the claims, then the pod. Raises Retry, ApiError."""
        name, pod_name = stateful_set.metadata.name, create.pod["metadata"]["name"]
        for body in create.claims:
            try:
                await self._create_claim(stateful_set, body, pod_name)
            except ApiError as error:
                self._tell_failed(stateful_set, pod_name, f"failed to create PVC {body['metadata']['name']}: {error}")
                raise
        try:
            await self._writes.create_pod(stateful_set, create.pod)
        except Retry as error:
            if not (isinstance(error.__cause__, AlreadyExists) and self._is_passing(stateful_set, pod_name)):
                self._tell_failed(stateful_set, pod_name, str(error.__cause__))
            raise
        self._writes.tell(stateful_set, "SuccessfulCreate", f"Create Pod {pod_name} in StatefulSet {name} successful")

    def _is_passing(self, stateful_set: StatefulSet, pod_name: str) -> bool:
        """True unless a pod of the name is there to stay: the former one is not quite gone, or the cache is behind."""
        pod = self._caches.pods.store.get(Key(stateful_set.metadata.namespace, pod_name))
        return pod is None or is_going(pod, self._caches.going)

    def _tell_failed(self, stateful_set: StatefulSet, pod_name: str, error: str) -> None:
        text = f"Create Pod {pod_name} in StatefulSet {stateful_set.metadata.name} failed error: {error}"
        self._writes.tell(stateful_set, "FailedCreate", text, WARNING)

    async def _create_claim(self, stateful_set: StatefulSet, body: Json, pod_name: str) -> None:
        claim_name, name = body["metadata"]["name"], stateful_set.metadata.name
        try:
            await self._writes.create(
                PERSISTENT_VOLUME_CLAIMS, self._caches.claims, body, stateful_set.metadata.namespace
            )
        except AlreadyExists:
            return  # the cache was behind: it is the pod's claim all the same
        except ApiError as error:
            self._writes.tell(
                stateful_set,
                "FailedCreate",
                f"Create Claim {claim_name} for Pod {pod_name} in StatefulSet {name} failed error: {error}",
                WARNING,
            )
            raise
        self._writes.tell(
            stateful_set, "SuccessfulCreate", f"Create Claim {claim_name} Pod {pod_name} in StatefulSet {name} success"
        )
