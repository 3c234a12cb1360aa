"""One life of attachers from its seed to its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.sim.accidents import Accidents
from tests.sim.actor import Actor
from tests.sim.bugs import BUGS
from tests.sim.checkers import complaints, fingerprint, silent
from tests.sim.course import CALM_STEP_S, REST_S, Course, Outcome, failures_of, lived
from tests.sim.hands import Hands
from tests.sim.keeper import Keeper
from tests.sim.life import attachers
from tests.sim.plan import Plan, plan_of
from tests.sim.planting import planted_of
from tests.sim.shrinking import cut
from tests.sim.world import SimWorld

CALM_S_MAX: Final = 300.0
"""How long everything may take to come to rest. The longest way there: a watch in its longest back-off, then a key in its own."""

TOLD_S: Final = 120.0
"""How long it may take until what can't be done is told."""


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted in the attacher for this life. cuts: as in `shrinking.py`."""
    with planted_of(BUGS, bug):
        return lived(_Life(cut(plan_of(seed), cuts)), seed, bug, "attacher", cuts)


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


class _Life(Course[SimWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: SimWorld(plan, group))
        self._plan = plan

    async def live(self, world: SimWorld) -> None:
        keepers, hands = attachers(world), Hands(world)
        actor = Actor(world, hands)
        acts = Accidents(world, actor, hands, keepers)
        world.meddle = acts.meddle
        world.server.on_set_back.append(world.laws.was_set_back)
        await actor.prepare()
        if self._plan.inherits:
            await actor.inherit()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run(), name="sim/keeper") for keeper in keepers]
            await self._chaos(world, actor, acts)
            world.heal()
            await actor.make_peace()
            await self._calm(world, actor, keepers)
            await self._rest(world, actor)
            self.lives_count = sum(keeper.started_count for keeper in keepers)
            for task in running:
                task.cancel()

    async def _chaos(self, world: SimWorld, actor: Actor, acts: Accidents) -> None:
        while world.clock.now() < self._plan.chaos_s:
            await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
            await acts.disturb()
            await actor.tend()

    async def _calm(self, world: SimWorld, actor: Actor, keepers: Sequence[Keeper]) -> None:
        """Waits until all is well, and the attacher has heard of it; it must be so in time."""
        if world.backend.stuck:
            await self._tell_of_stuck(world, actor)
        deadline = world.clock.now() + CALM_S_MAX
        while found := [
            *complaints(world, actor),
            *(("unsettled", what) for keeper in keepers for what in keeper.unsettled()),
        ]:
            if world.clock.now() > deadline:
                world.fail(
                    found[0][0],
                    f"not well {CALM_S_MAX:g} s after the last fault: {'; '.join(text for _, text in found)}",
                )
                return
            await actor.tend()
            await world.clock.sleep(CALM_STEP_S)
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")

    async def _tell_of_stuck(self, world: SimWorld, actor: Actor) -> None:
        """What the driver refuses for ever is told; then the storage is mended."""
        for _ in range(round(TOLD_S / CALM_STEP_S)):
            await actor.tend()
            await world.clock.sleep(CALM_STEP_S)
        for invariant, text in silent(world):
            world.fail(invariant, f"{TOLD_S:g} s after the last fault: {text}")
        world.backend.unstick()

    async def _rest(self, world: SimWorld, actor: Actor) -> None:
        """A world that is well stays as it is: nothing is written, nothing is called."""
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in complaints(world, actor):
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")
