"""What users do with their workloads, and what happens to the workloads' controllers: acts, as in `acts.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.workloads import DEPLOYMENTS, JOBS, STATEFUL_SETS
from mooring.base.randomness import Random
from tests.sim.acting import Acting
from tests.sim.keeper import Keeper
from tests.sim.plane.hands import CLASS
from tests.sim.plane.line import WORKLOADS
from tests.sim.plane.plan import NAMESPACE
from tests.sim.plane.stands import Json, is_alive
from tests.sim.plane.workload_hands import DEPLOYMENT, JOB, NOTE, RELEASED, SET, bodies
from tests.sim.plane.workload_plan import REPLICAS_MAX
from tests.sim.plane.workload_stands import controller_of

NOTICED_S: Final = 60.0
ROUNDS_MAX: Final = 4
"""Of templates: an old one comes back."""


class WorkloadActs(Acting):
    """A part of `Acts`."""

    _world: Any
    _hands: Any
    _laws: Any
    _keepers: Mapping[str, Sequence[Keeper]]
    _randomness: Random
    _ends_of_jobs: Random

    def __init__(self) -> None:
        self._seen_going: dict[
            str, float
        ] = {}  # claims of StatefulSets, by uid: since when a user sees in peace that they stay
        self._dropped: set[str] = set()  # those of them whose pods were deleted once more

    # -- the controllers

    async def kill_workloads(self) -> None:
        self._one_of(self._keepers[WORKLOADS]).kill()

    async def roll_workloads(self) -> None:
        if not self._keepers[WORKLOADS]:
            return  # (a life that was cut has none)
        self._hands.tell("rolls the controllers of workloads")
        await self._one_of(self._keepers[WORKLOADS]).roll()

    # -- all workloads

    async def restore_workloads(self) -> None:
        """What is missing is made, as it was at first. In peace a Job that is gone has been there."""
        for kind, body in bodies(self._world.plan, CLASS):
            name = body["metadata"]["name"]
            if self._found(kind, name) is None and (kind is not JOBS or self._world.faulty):
                await self._hands.do(
                    f"create {kind.name} {name}", self._world.cluster.create(kind.whole(), body, NAMESPACE)
                )

    async def relabel_pod(self) -> None:
        """A pod is taken from its workload."""
        if pods := [pod for pod in self._laws.pods.values() if is_alive(pod) and controller_of(pod) is not None]:
            pod = self._one_of(pods)
            labels = {"app": None, RELEASED: "yes"}
            await self._hands.merge(PODS, pod["metadata"]["name"], {"metadata": {"labels": labels}}, NAMESPACE)

    async def settle_workloads(self) -> None:
        """Pods that were taken from them go, and those that others have made with their claims."""
        volumes = {volume.name for volume in self._world.plan.volumes}
        for pod in list(self._laws.pods.values()) if self._world.plan.workloads.runs else ():
            meta, claims = (
                pod["metadata"],
                {volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"].get("volumes") or ()},
            )
            is_strange = NOTE not in (meta.get("annotations") or {}) and not claims <= volumes
            if is_strange or RELEASED in (meta.get("labels") or {}):
                await self._hands.delete(PODS, meta["name"], meta["namespace"])
        own = self._world.plan.workloads.stateful_set
        if own is not None and not own.on_delete:
            await self._stage(0)
        if self._world.plan.workloads.deployment is not None:
            await self._hands.merge(DEPLOYMENTS, DEPLOYMENT, {"spec": {"paused": None}}, NAMESPACE)
        if self._world.plan.workloads.job is not None:
            await self._hands.merge(JOBS, JOB, {"spec": {"suspend": False, "parallelism": 1}}, NAMESPACE)

    async def end_job_pods(self) -> None:
        """What ran in them is done, or has failed."""
        plan = self._world.plan.workloads.job
        for pod in list(self._laws.pods.values()) if plan is not None else ():
            owner = controller_of(pod)
            if owner is None or owner["kind"] != "Job" or pod["status"].get("phase") != "Running" or not is_alive(pod):
                continue
            if not self._world.faulty or self._ends_of_jobs.happens(0.3):
                await self._end_pod(
                    pod, "Failed" if self._world.faulty and self._ends_of_jobs.happens(plan.fails) else "Succeeded"
                )

    async def _end_pod(self, pod: Json, phase: str) -> None:
        status = {"status": {"phase": phase, "containerStatuses": None}}
        await self._hands.merge(
            PODS, pod["metadata"]["name"], status, pod["metadata"]["namespace"], subresource="status"
        )

    async def delete_workloads(self) -> None:
        for kind, body in bodies(self._world.plan, CLASS):
            await self._hands.delete(kind, body["metadata"]["name"], NAMESPACE, propagation="Background")

    async def sweep_workloads(self) -> None:
        """What was made for a workload that had gone goes, too."""
        for pod in [pod for pod in self._laws.pods.values() if is_alive(pod)]:
            await self._hands.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])
        for namespace, name in [
            key for key, claim in self._laws.claims.items() if "deletionTimestamp" not in claim["metadata"]
        ]:
            await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, name, namespace)

    # -- StatefulSets

    async def scale_set(self) -> None:
        await self._hands.merge(
            STATEFUL_SETS, SET, {"spec": {"replicas": self._randomness.below(REPLICAS_MAX + 1)}}, NAMESPACE
        )

    async def roll_set(self) -> None:
        await self._new_round(STATEFUL_SETS, SET)

    async def delete_set(self) -> None:
        await self._delete_workload(STATEFUL_SETS, SET)

    async def change_retention(self) -> None:
        policy = {"whenDeleted": self._one_of(("Retain", "Delete")), "whenScaled": self._one_of(("Retain", "Delete"))}
        await self._hands.merge(
            STATEFUL_SETS, SET, {"spec": {"persistentVolumeClaimRetentionPolicy": policy}}, NAMESPACE
        )

    async def stage_set(self) -> None:
        """A new template is for some of the pods only, at first."""
        if not self._world.plan.workloads.stateful_set.on_delete:
            await self._stage(self._randomness.below(REPLICAS_MAX))

    async def _stage(self, partition: int) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        await self._hands.merge(STATEFUL_SETS, SET, {"spec": {"updateStrategy": strategy}}, NAMESPACE)

    async def drop_set_pods(self) -> None:
        """A user who has thrown the data of a pod away sees a minute later that the pod has come back on it, since its
        controller had not been shown that. The pod is deleted once more; a controller that makes it on that claim again
        has been shown all by now.
        """
        now, claims = self._world.clock.now(), self._laws.claims
        for key in [
            key for key, claim in claims.items() if _is_of_set(key[1]) and "deletionTimestamp" in claim["metadata"]
        ]:
            uid = claims[key]["metadata"]["uid"]
            if now >= self._seen_going.setdefault(uid, now) + NOTICED_S and uid not in self._dropped:
                self._dropped.add(uid)
                await self._hands.delete(PODS, key[1].partition("-")[2], NAMESPACE)

    async def drop_set_claim(self) -> None:
        """A user throws the data of one pod away, mostly with the pod."""
        if keys := [key for key in self._laws.claims if _is_of_set(key[1])]:
            key = self._one_of(keys)
            await self._hands.delete(PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
            if self._randomness.happens(0.7):
                await self._hands.delete(PODS, key[1].partition("-")[2], NAMESPACE)

    # -- Deployments

    async def scale_deployment(self) -> None:
        most = self._world.plan.workloads.deployment.replicas_max
        await self._hands.merge(
            DEPLOYMENTS, DEPLOYMENT, {"spec": {"replicas": self._randomness.below(most + 1)}}, NAMESPACE
        )

    async def roll_deployment(self) -> None:
        await self._new_round(DEPLOYMENTS, DEPLOYMENT)

    async def pause_deployment(self) -> None:
        await self._hands.merge(DEPLOYMENTS, DEPLOYMENT, {"spec": {"paused": self._randomness.happens(0.5)}}, NAMESPACE)

    async def change_surge(self) -> None:
        if not self._world.plan.workloads.deployment.recreates:
            rolling = {"maxSurge": self._randomness.below(3), "maxUnavailable": 1 + self._randomness.below(2)}
            await self._hands.merge(
                DEPLOYMENTS, DEPLOYMENT, {"spec": {"strategy": {"rollingUpdate": rolling}}}, NAMESPACE
            )

    async def delete_deployment(self) -> None:
        await self._delete_workload(DEPLOYMENTS, DEPLOYMENT)

    # -- Jobs

    async def remake_job(self) -> None:
        """It is deleted, and made anew, at once or later."""
        await self._delete_workload(JOBS, JOB)
        if self._randomness.happens(0.7):
            await self.restore_workloads()

    async def suspend_job(self) -> None:
        await self._hands.merge(JOBS, JOB, {"spec": {"suspend": self._randomness.happens(0.5)}}, NAMESPACE)

    async def change_parallelism(self) -> None:
        await self._hands.merge(
            JOBS, JOB, {"spec": {"parallelism": self._randomness.below(REPLICAS_MAX + 1)}}, NAMESPACE
        )

    async def fail_job_pod(self) -> None:
        pods = [
            pod for pod in self._laws.pods.values() if is_alive(pod) and (controller_of(pod) or {}).get("kind") == "Job"
        ]
        if pods:
            await self._end_pod(self._one_of(pods), "Failed")

    # -- parts of acts

    async def _new_round(self, kind: Kind[Any], name: str) -> None:
        notes = {NOTE: str(self._randomness.below(ROUNDS_MAX))}
        await self._hands.merge(kind, name, {"spec": {"template": {"metadata": {"annotations": notes}}}}, NAMESPACE)

    async def _delete_workload(self, kind: Kind[Any], name: str) -> None:
        propagation = self._one_of(("Background", "Foreground", "Orphan"))
        await self._hands.delete(kind, name, NAMESPACE, propagation=propagation)

    def _found(self, kind: Kind[Any], name: str) -> Json | None:
        found: Json | None = self._world.truth.get(kind.whole(), name, NAMESPACE)
        return found


def _is_of_set(claim: str) -> bool:
    return claim.rpartition("-")[0].endswith(f"-{SET}")
