"""What a seed chooses for the workloads' controllers, and for the users who have workloads, from a randomness of its
own.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random

REPLICAS_MAX: Final = 3
SHARE: Final = 0.5
"""Of the seeds with the real scheduler, those with the real workloads' controllers."""
_OWN: Final = 1 << 44
"""So that seeds without workloads live as if there were none."""
_STAGED: Final = 1 << 58

ALWAYS: Final = {"restore_workloads": 6, "kill_workloads": 2, "roll_workloads": 1, "relabel_pod": 1}
DEPLOYMENT_ACTS: Final = {
    "scale_deployment": 8,
    "roll_deployment": 8,
    "pause_deployment": 3,
    "delete_deployment": 2,
    "change_surge": 2,
}
JOB_ACTS: Final = {"remake_job": 6, "suspend_job": 3, "change_parallelism": 3, "fail_job_pod": 2}
SET_ACTS: Final = {"scale_set": 8, "roll_set": 5, "delete_set": 3, "change_retention": 3, "drop_set_claim": 2}


@dataclasses.dataclass(frozen=True, slots=True)
class SetPlan:
    """A StatefulSet. when_deleted, when_scaled: what becomes of its claims, at first. templates: of claims."""

    replicas: int
    templates: tuple[str, ...]
    parallel: bool
    on_delete: bool
    when_deleted: str
    when_scaled: str
    min_ready_s: int
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """recreates: its strategy, else it rolls with this surge and so many unavailable. single: its volume is for one
    node, and it has one pod at the most.
    """

    replicas: int
    recreates: bool
    surge: int | str
    unavailable: int | str
    single: bool
    min_ready_s: int

    @property
    def replicas_max(self) -> int:
        return 1 if self.single else REPLICAS_MAX


@dataclasses.dataclass(frozen=True, slots=True)
class JobPlan:
    """completions: None for a queue that its pods share. fails: the share of its pods that fail."""

    completions: int | None
    parallelism: int
    backoff_limit: int
    replacement: str
    ttl_s: int | None
    deadline_s: int | None
    fails: float


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """runs: the controllers of workloads run. acts: beside those of every life."""

    runs: bool = False
    acts: tuple[str, ...] = ()
    stateful_set: SetPlan | None = None
    deployment: DeploymentPlan | None = None
    job: JobPlan | None = None


def workloads_of(seed: int, *, placing: bool) -> WorkloadPlan:
    """placing: the scheduler places pods; nobody else does so for those of workloads."""
    randomness = Random(_OWN + seed)
    if not placing or not randomness.happens(SHARE):
        return WorkloadPlan()
    stateful_set = _set(randomness) if randomness.happens(0.7) else None
    deployment = _deployment(randomness) if randomness.happens(0.5) else None
    job = _job(randomness) if randomness.happens(0.5) or not (stateful_set or deployment) else None
    owned = ((stateful_set, SET_ACTS), (deployment, DEPLOYMENT_ACTS), (job, JOB_ACTS))
    tables = (ALWAYS, *(table for plan, table in owned if plan is not None))
    acts = tuple(
        act for table in tables for act, weight in table.items() if randomness.happens(0.8) for _ in range(weight)
    )
    if stateful_set is not None and Random(_STAGED + seed).happens(0.25):
        acts += ("stage_set",) * 3
    return WorkloadPlan(True, acts, stateful_set, deployment, job)


def _set(randomness: Random) -> SetPlan:
    return SetPlan(
        replicas=1 + randomness.below(3),
        templates=("data", "logs") if randomness.happens(0.3) else ("data",),
        parallel=randomness.happens(0.4),
        on_delete=randomness.happens(0.2),
        when_deleted="Delete" if randomness.happens(0.5) else "Retain",
        when_scaled="Delete" if randomness.happens(0.5) else "Retain",
        min_ready_s=5 if randomness.happens(0.2) else 0,
        start=2 if randomness.happens(0.2) else 0,
    )


def _deployment(randomness: Random) -> DeploymentPlan:
    single = randomness.happens(0.3)
    shares: tuple[int | str, ...] = (0, 1, 2, "25%", "50%")
    return DeploymentPlan(
        replicas=1 if single else 1 + randomness.below(REPLICAS_MAX),
        recreates=single or randomness.happens(0.3),
        surge=shares[randomness.below(len(shares))],
        unavailable=shares[1 + randomness.below(len(shares) - 1)],
        single=single,
        min_ready_s=5 if randomness.happens(0.2) else 0,
    )


def _job(randomness: Random) -> JobPlan:
    return JobPlan(
        completions=1 + randomness.below(4) if randomness.happens(0.8) else None,
        parallelism=1 + randomness.below(3),
        backoff_limit=randomness.below(5),
        replacement="Failed" if randomness.happens(0.4) else "TerminatingOrFailed",
        ttl_s=20 * randomness.below(5) if randomness.happens(0.2) else None,
        deadline_s=30 * (1 + randomness.below(10)) if randomness.happens(0.2) else None,
        fails=randomness.uniform(0.0, 0.5) if randomness.happens(0.5) else 0.0,
    )
