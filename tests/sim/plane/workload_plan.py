"""What a seed chooses for the workloads' controllers, and for the users who have workloads, from a randomness of its own."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.randomness import Random

SHARE: Final = 0.5
"""Of the seeds with the real scheduler, those with the real workloads' controllers."""
_OWN: Final = 1 << 44
"""So that seeds without workloads live as if there were none."""

ALWAYS: Final = {"restore_workloads": 6, "kill_workloads": 2, "roll_workloads": 1, "relabel_pod": 1}
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
class WorkloadPlan:
    """runs: the controllers of workloads run. acts: beside those of every life."""

    runs: bool = False
    acts: tuple[str, ...] = ()
    stateful_set: SetPlan | None = None


def workloads_of(seed: int, *, placing: bool) -> WorkloadPlan:
    """placing: the scheduler places pods; nobody else does so for those of workloads."""
    randomness = Random(_OWN + seed)
    if not placing or not randomness.happens(SHARE):
        return WorkloadPlan()
    stateful_set = _set(randomness)
    tables = (ALWAYS, SET_ACTS)
    acts = tuple(act for table in tables for act, weight in table.items() if randomness.happens(0.8) for _ in range(weight))
    return WorkloadPlan(True, acts, stateful_set)


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
