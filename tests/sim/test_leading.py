"""Programs behind a real Lease: a leader that stood still does nothing beside the next one, and the law sees it where
the fence is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from mooring.api.core import SECRETS
from mooring.control.lease.elector import LeaderElector
from mooring.kube.cluster import Patch, PatchType
from mooring.kube.errors import ApiError
from tests.sim.course import BoundedLoop
from tests.sim.habits import ServerHabits, Stops
from tests.sim.keeper import Keeper, Made
from tests.sim.leading import Leases, behind_lease
from tests.sim.mortal import Mortal
from tests.sim.plan import ApiFaults, plan_of
from tests.sim.provisioning.line import WritingLine
from tests.sim.standing import WorldGroup, outside
from tests.sim.world import SimWorld
from tests.support.builders import a_secret

NO_FAULTS = ApiFaults(refused=0.0, lost=0.0, slow=0.0, stale=0.0, stale_s=1.0, cut=0.0, gone=0.0)
STEP_S = 0.3


class CountingLine(WritingLine):
    watched = ()


class Counter:
    """Writes what it has counted, again and again."""

    def __init__(self, cluster: Any, clock: Any) -> None:
        self._cluster, self._clock = cluster, clock

    async def run(self) -> None:
        for count in itertools.count():
            with contextlib.suppress(ApiError):
                body = {"metadata": {"labels": {"count": str(count)}}}
                await self._cluster.patch(SECRETS.whole(), "counted", Patch(PatchType.MERGE, body), "default")
            await self._clock.sleep(STEP_S)

    async def drain(self, timeout_s: float) -> bool:
        return True


def counter(world: SimWorld, mortal: Mortal) -> Made:
    line = CountingLine(world, mortal)
    return Counter(outside(line), mortal.clock), line


def stands_still(keeper: Keeper, seconds: float) -> None:
    keeper.freeze(seconds)


def lived(
    still_s: float, *, stop_at_s: float = 10.0, happens: Callable[[Keeper, float], None] = stands_still, **stops: Any
) -> SimWorld:
    """Two counters. happens: to the one that leads at that time; by default it stands still for so long."""
    plan = dataclasses.replace(
        plan_of(1),
        api=NO_FAULTS,
        crash=0.0,
        server=ServerHabits(set_back=True),
        stops=Stops(replicas=2, skew_s=100.0, **stops),
    )
    worlds: list[SimWorld] = []

    async def live(world: SimWorld) -> None:
        leases, numbers = Leases(world), itertools.count(1)
        await world.cluster.create(SECRETS.whole(), a_secret("counted"), "default")
        keepers = [
            Keeper(world, "counter", behind_lease(leases, "counting", counter, numbers), numbers) for _ in range(2)
        ]
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run()) for keeper in keepers]
            await world.clock.sleep(stop_at_s)
            leader = next(keeper for keeper in keepers if keeper.leads)
            happens(leader, still_s)
            await world.clock.sleep(still_s + 20.0)
            for task in running:
                task.cancel()
        world.faulty = False

    async def main() -> None:
        async with WorldGroup() as group:
            world = SimWorld(plan, group)
            worlds.append(world)
            await live(world)

    with asyncio.Runner(loop_factory=lambda: BoundedLoop(1)) as runner:
        runner.run(main())
    return worlds[0]


def terms_of(world: SimWorld) -> list[str]:
    return [step.who for step in world.story.steps if step.what.startswith("leads")]


@pytest.mark.parametrize("still_s", [3.0, 7.0, 60.0])
def test_a_leader_that_stood_still_sends_nothing_beside_the_next_one(still_s: float) -> None:
    world = lived(still_s)
    assert not world.verdict.done(), world.verdict.result()
    assert (1 if still_s < 4.0 else 2) <= len(terms_of(world))


def test_without_the_fence_it_does_and_the_law_tells() -> None:
    with mock.patch.object(LeaderElector, "_fence_of_term", return_value=lambda: ""):
        world = lived(60.0)
    assert "no-lease" == world.verdict.result().invariant
