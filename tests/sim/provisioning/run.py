"""One life of claims from its seed to its verdict."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tests.sim.provisioning.acts import Acts
from tests.sim.provisioning.bugs import planted
from tests.sim.provisioning.checkers import complaints, fingerprint
from tests.sim.provisioning.life import Keeper, binder, provisioner
from tests.sim.provisioning.plan import Plan, plan_of
from tests.sim.provisioning.world import ClaimWorld
from tests.sim.run import CALM_STEP_S, REST_S, BoundedLoop, Outcome, RunsHot, watched_log
from tests.sim.story import Broken, Story
from tests.support.virtual_loop import Deadlock

CALM_S_MAX: Final = 1200.0
"""The longest way to rest: a claim that the driver called infeasible, twice; a secret that is waited for; a key in its back-off."""


def run_seed(seed: int, *, bug: str | None = None) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life."""
    life = _Life(plan_of(seed))
    with planted(bug), watched_log(life):  # type: ignore[arg-type]
        loop = BoundedLoop(seed)
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(life.run())
        except (Deadlock, RunsHot) as error:
            life.broken = Broken("hot-loop" if isinstance(error, RunsHot) else "standstill", str(error), loop.time())
        except BaseException as error:
            error.add_note(f"in the simulation of the provisioner, seed {seed}")
            raise
    return Outcome(seed, bug, life.broken, life.story, life.provisioners, life.rested_s, part="provisioner")


def failures(seeds: range, bug: str | None) -> list[tuple[str, str]]:
    """Of each failing seed, its report and the invariant that was broken."""
    outcomes = (run_seed(seed, bug=bug) for seed in seeds)
    return [(outcome.report(), outcome.broken.invariant) for outcome in outcomes if outcome.broken]


class _Life:
    """Chaos, peace, rest."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.world: ClaimWorld | None = None
        self.broken: Broken | None = None
        self.story = Story(lambda: 0.0)
        self.provisioners = 0
        self.rested_s = 0.0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self.world = world = ClaimWorld(self._plan, group)
            self.story = world.story
            life = group.create_task(self._live(world), name="sim/life")
            either: list[asyncio.Future[Any]] = [life, world.verdict]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if world.verdict.done():
                self.broken = world.verdict.result()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def _live(self, world: ClaimWorld) -> None:
        keepers = Keeper(world, "provisioner", provisioner), Keeper(world, "binder", binder)
        acts = Acts(world, *keepers)
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run(), name="sim/keeper") for keeper in keepers]
            while world.clock.now() < self._plan.chaos_s:
                await world.clock.sleep(world.chances["actor"].uniform(0.0, 2 * self._plan.pause_s))
                await acts.disturb()
                await acts.tend()
            world.heal()
            await acts.make_peace()
            await self._calm(world, acts, keepers)
            await self._rest(world)
            self.provisioners = keepers[0].started_count
            for task in running:
                task.cancel()

    async def _calm(self, world: ClaimWorld, acts: Acts, keepers: tuple[Keeper, ...]) -> None:
        deadline = world.clock.now() + CALM_S_MAX
        while found := [*complaints(world), *(("unsettled", what) for keeper in keepers for what in keeper.unsettled())]:
            if world.clock.now() > deadline:
                world.fail(found[0][0], f"not well {CALM_S_MAX:g} s after the last fault: {'; '.join(text for _, text in found)}")
                return
            await acts.tend()
            await world.clock.sleep(CALM_STEP_S)
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")

    async def _rest(self, world: ClaimWorld) -> None:
        """A world that is well stays as it is. Events may still be on their way, so they get a while first."""
        await world.clock.sleep(REST_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in complaints(world):
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")
