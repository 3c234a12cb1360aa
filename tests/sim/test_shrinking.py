"""How a failing life is made smaller, on a life that says at once how it ends."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sim.habits import ServerHabits, Stops
from tests.sim.plan import ApiFaults
from tests.sim.plan import Plan as AttacherPlan
from tests.sim.plan import plan_of as attacher_plan_of
from tests.sim.plane.bugs import BUGS
from tests.sim.plane.plan import Plan, plan_of
from tests.sim.plane.run import PART
from tests.sim.shrinking import cut, shrunk

CULPRITS = {5, 9}


class FakePart:
    """Its lives fail when both culprits among the acts happen, and answers are lost."""

    def __init__(self) -> None:
        self.runs_count = 0

    def plan_of(self, seed: int) -> Plan:
        faults = ApiFaults(refused=0.1, lost=0.2, slow=0.3, stale=0.1, stale_s=1.0, cut=0.1, gone=0.1)
        return dataclasses.replace(plan_of(seed), api=faults, chaos_s=20.0, pause_s=1.0, health=True, controllers=2)

    def run_seed(self, seed: int, *, bug: str | None, cuts: tuple[str, ...]) -> Any:
        self.runs_count += 1
        plan = cut(self.plan_of(seed), cuts)
        fails = plan.api.lost > 0 and not CULPRITS & set(plan.skipped)
        return SimpleNamespace(broken=SimpleNamespace(invariant="I3") if fails else None)


def test_what_is_left_is_what_the_failure_needs() -> None:
    part = FakePart()
    plan = cut(part.plan_of(1), shrunk(part, 1, None))
    assert 0.2 == plan.api.lost
    assert 0.0 == plan.api.refused == plan.api.slow == plan.driver.failed == plan.crash
    assert 1 == plan.controllers
    assert not plan.health
    assert CULPRITS == set(range(1, 41)) - set(plan.skipped)


def test_a_cut_of_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^api\.lots=0 cuts nothing out of this plan$"):
        cut(plan_of(1), ["api.lots=0"])


def test_a_kind_of_act_is_never_drawn_again() -> None:
    plan = plan_of(1)
    assert "move_pod" in plan.acts
    assert "move_pod" not in cut(plan, ["act=move_pod"]).acts


def test_the_habits_of_the_server_and_of_stopped_processes_are_cut_one_by_one() -> None:
    habits = ServerHabits(late=0.1, held=0.2, folded=0.5, set_back=True)
    plan = dataclasses.replace(
        attacher_plan_of(1), server=habits, stops=Stops(still=0.1, still_s=3.0, stills_max=2, replicas=2)
    )

    class Part:
        """Its lives fail where a leader stands still."""

        def plan_of(self, seed: int) -> AttacherPlan:
            return plan

        def run_seed(self, seed: int, *, bug: str | None, cuts: tuple[str, ...]) -> Any:
            stops = cut(plan, cuts).stops
            return SimpleNamespace(
                broken=SimpleNamespace(invariant="no-lease") if stops.still and stops.replicas > 1 else None
            )

    left = cut(plan, shrunk(Part(), 1, None))
    assert (0.0, 0.0, 0.0, False) == (left.server.late, left.server.held, left.server.folded, left.server.set_back)
    assert plan.stops == left.stops


@pytest.mark.slow
def test_a_smaller_life_of_a_planted_bug_breaks_the_same_invariant_and_says_how_to_see_it() -> None:
    name = "mounts-unchecked"
    outcome = PART.run_seed(2, bug=name, cuts=("skip=1",))
    assert outcome.broken is not None
    assert outcome.broken.invariant in BUGS[name].found_by
    assert (
        f"replay: .venv/bin/python -m tests.sim --part plane --seed 2 --bug {name} --cut skip=1"
        == outcome.report().splitlines()[-1]
    )
