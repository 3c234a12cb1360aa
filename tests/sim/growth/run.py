"""One life of growing claims from its seed to its verdict."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.sim.course import CALM_STEP_S, REST_S, Course, Outcome, failures_of, lived
from tests.sim.growth.acts import Acts
from tests.sim.growth.bugs import BUGS
from tests.sim.growth.checkers import complaints, fingerprint, silent
from tests.sim.growth.life import resizer
from tests.sim.growth.plan import Plan, plan_of
from tests.sim.growth.world import GrowthWorld
from tests.sim.keeper import Keeper
from tests.sim.planting import planted_of
from tests.sim.shrinking import cut

STAND_STEPS: Final = 20
CALM_S_MAX: Final = 300.0
"""The longest way to rest: a call hangs, and keys are in their longest back-off, one after the other; a secret that is looked at seldom."""


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life. cuts: as in `shrinking.py`."""
    with planted_of(BUGS, bug):
        return lived(_Life(cut(plan_of(seed), cuts)), seed, bug, "resizer", cuts)


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


class _Life(Course[GrowthWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: GrowthWorld(plan, group))
        self._plan = plan

    async def live(self, world: GrowthWorld) -> None:
        keeper = Keeper(world, "resizer", resizer)
        acts = Acts(world, keeper)
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(keeper.run(), name="sim/keeper")
            while world.clock.now() < self._plan.chaos_s:
                await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
                await acts.disturb()
                await acts.tend()
            world.heal()
            await self._stand(world, acts)
            await acts.make_peace()
            if self._plan.habits.dies:
                keeper.kill()
            await self._calm(world, acts, keeper)
            await self._rest(world)
            self.lives_count = keeper.started_count
            running.cancel()

    async def _stand(self, world: GrowthWorld, acts: Acts) -> None:
        """What stands in the way for good stays for a while: whoever waits has been told."""
        end = world.clock.now() + self._plan.habits.obstacle_s
        while world.clock.now() < end:
            await acts.tend()
            await world.clock.sleep(self._plan.habits.obstacle_s / STAND_STEPS)
        if self._plan.habits.obstacle_s:
            for law, text in silent(world):
                world.fail(law, text)
        world.backend.relent()

    async def _calm(self, world: GrowthWorld, acts: Acts, keeper: Keeper) -> None:
        deadline = world.clock.now() + CALM_S_MAX
        while found := [*complaints(world), *(("unsettled", what) for what in keeper.unsettled())]:
            if world.clock.now() > deadline:
                world.fail(
                    found[0][0],
                    f"not well {CALM_S_MAX:g} s after the last fault: {'; '.join(text for _, text in found)}",
                )
                return
            await acts.tend()
            await world.clock.sleep(CALM_STEP_S)
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")

    async def _rest(self, world: GrowthWorld) -> None:
        """A world that is well stays as it is. Events may still be on their way, so they get a while first."""
        await world.clock.sleep(REST_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in complaints(world):
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")
