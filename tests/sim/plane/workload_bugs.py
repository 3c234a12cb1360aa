"""Bugs of workloads to plant in the plane; the first three were once there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final
from unittest import mock

import msgspec

from mooring.api.meta import Object
from mooring.api.pods import PODS, Pod
from mooring.api.workloads import Job, StatefulSet
from mooring.cluster.workloads import pods as pods_of
from mooring.cluster.workloads.jobs import decide as jobs
from mooring.cluster.workloads.jobs import reconcile as job_reconcile
from mooring.cluster.workloads.jobs.tally import Tally
from mooring.cluster.workloads.pods import first_to_go, ready_since
from mooring.cluster.workloads.replicasets import decide as replicasets
from mooring.cluster.workloads.statefulsets import identity
from mooring.cluster.workloads.writes import Writes
from mooring.kube.errors import ApiError, Conflict, NotFound
from mooring.node.volumes.pods import controller as node_pods
from tests.sim.planting import Bug

Planted = contextlib.AbstractContextManager[Any]
Json = dict[str, Any]


def _conflicts_are_ends() -> Planted:
    """A pod whose deletion met a conflict counts as going."""

    async def delete_pod(self: Writes, pod: Pod) -> None:
        meta = pod.metadata
        self.caches.going.add(meta.uid)
        try:
            await self.cluster.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            pass
        except ApiError:
            self.caches.going.discard(meta.uid)
            raise

    return mock.patch.object(Writes, "delete_pod", delete_pod)


def _clocks_are_never_set_right() -> Planted:
    """Who waits for time waits for as long as the clock is behind."""

    def available_in_s(pod: Pod, min_ready_s: int, now: float) -> float | None:
        return max(0.0, ready_since(pod) + min_ready_s - now) if pods_of.is_ready(pod) else None

    return mock.patch.object(pods_of, "available_in_s", available_in_s)


def _agents_leave_it_at_that() -> Planted:
    """What node health says of a pod's readiness is the last word."""
    return mock.patch.object(node_pods, "is_said_unready", return_value=False)


def _all_claims_are_owned() -> Planted:
    """A set takes its claims with it, whatever its retention policy says."""

    def owner(stateful_set: StatefulSet, pod: Pod) -> Json:
        return identity.reference(identity.STATEFUL_SETS, stateful_set)

    return mock.patch.object(identity, "_owner", owner)


def _claims_are_of_the_first() -> Planted:
    """All pods of a set get the claims of the first one."""

    def names(stateful_set: StatefulSet, pod_name: str) -> dict[str, str]:
        first = f"{stateful_set.metadata.name}-0"
        return {
            one["metadata"]["name"]: f"{one['metadata']['name']}-{first}"
            for one in stateful_set.spec.volume_claim_templates or ()
        }

    return mock.patch.object(identity, "claim_names", names)


def _pods_go_at_once() -> Planted:
    """Pods are deleted without grace."""

    async def delete_pod(self: Writes, pod: Pod) -> None:
        with contextlib.suppress(NotFound, Conflict):
            await self.cluster.delete(
                PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_s=0
            )

    return mock.patch.object(Writes, "delete_pod", delete_pod)


def _one_more_goes() -> Planted:
    """Of pods that are too many, one more goes."""

    def chosen(pods: Iterable[Pod], count: int, beside: Iterable[Pod] = ()) -> tuple[Pod, ...]:
        return first_to_go(pods, count + 1, beside)

    return mock.patch.object(replicasets, "first_to_go", chosen)


def _successes_do_not_count() -> Planted:
    """A Job runs as many pods side by side as it may, whatever has succeeded."""

    def wanted(job: Job, active: Collection[Object], tally: Tally) -> int:
        return job.spec.parallelism

    return mock.patch.object(jobs, "_wanted", wanted)


def _failures_are_successes() -> Planted:
    """A Job counts each pod that has ended."""
    count: Callable[..., Tally] = job_reconcile.count

    def counted(job: Job, pods: Collection[Pod], going: Collection[str]) -> Tally:
        tally = count(job, pods, going)
        both = (*(tally.uncounted.succeeded or ()), *(tally.uncounted.failed or ()))
        return msgspec.structs.replace(tally, uncounted=type(tally.uncounted)(both or None, None))

    return mock.patch.object(job_reconcile, "count", counted)


def _one_less_will_do() -> Planted:
    """A Job is complete one success early."""

    def is_reached(job: Job, active: Collection[Object], tally: Tally) -> bool:
        return tally.all_succeeded >= (job.spec.completions or 1) - 1

    return mock.patch.object(jobs, "_is_reached", is_reached)


WORKLOAD_BUGS: Final[Mapping[str, Bug]] = {
    "conflicts-are-ends": Bug(_conflicts_are_ends, {"replicas-wrong", "outdated", "I7", "surge"}),
    "agents-leave-unready": Bug(_agents_leave_it_at_that, {"status-wrong", "replicas-wrong"}),
    "clocks-stay-behind": Bug(_clocks_are_never_set_right, {"status-wrong"}),
    "claims-all-owned": Bug(_all_claims_are_owned, {"owner-astray", "claim-lost"}),
    "claims-of-the-first": Bug(_claims_are_of_the_first, {"claim-astray"}),
    "pods-go-at-once": Bug(_pods_go_at_once, {"two-of-ordinal"}),
    "one-more-goes": Bug(_one_more_goes, {"too-few-left"}),
    "successes-uncounted": Bug(_successes_do_not_count, {"too-many-made"}),
    "failures-are-successes": Bug(_failures_are_successes, {"counted-wrong", "job-lies"}),
    "one-less-will-do": Bug(_one_less_will_do, {"job-lies"}),
}
