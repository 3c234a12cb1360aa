"""One life of snapshots from its seed to its verdict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, TOLD_S, Course, Outcome, failures_of, lived
from tests.sim.keeper import Keeper
from tests.sim.planting import planted_of
from tests.sim.shrinking import cut
from tests.sim.snapshots.acts import Acts
from tests.sim.snapshots.bugs import BUGS
from tests.sim.snapshots.checkers import complaints, fingerprint, leftovers, remains, silent
from tests.sim.snapshots.life import controller, snapshotter
from tests.sim.snapshots.plan import CONTROLLER, SNAPSHOTTER, Plan, plan_of
from tests.sim.snapshots.world import SnapshotWorld

CALM_S_MAX: Final = 1000.0
"""The longest way to rest: a Secret that is gone is waited for, then a list is believed, then keys in their longest back-off."""
LOOKS_S: Final = (0.5, 3.0)
"""Between two looks at a world that is not well yet: at first, and later."""
QUICK_LOOKS: Final = 20
STAND_STEPS: Final = 20


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life. cuts: as in `shrinking.py`."""
    with planted_of(BUGS, bug):
        return lived(_Life(cut(plan_of(seed), cuts)), seed, bug, "snapshots", cuts)


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


class _Life(Course[SnapshotWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: SnapshotWorld(plan, group))
        self._plan = plan

    async def live(self, world: SnapshotWorld) -> None:
        several = (
            (CONTROLLER, controller, self._plan.controllers),
            (SNAPSHOTTER, snapshotter, self._plan.snapshotters),
        )
        keepers = {
            who: [Keeper(world, f"{who}{'-2' * number}", make) for number in range(count)]
            for who, make, count in several
        }
        acts = Acts(world, keepers)
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(keeper.run(), name="sim/keeper") for some in keepers.values() for keeper in some
            ]
            while world.clock.now() < self._plan.chaos_s:
                await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
                await acts.disturb()
                await acts.tend()
            world.heal()
            await self._stand(world, acts)
            await acts.make_peace()
            await self._end(world, acts, keepers)
            self.lives_count = sum(keeper.started_count for keeper in keepers[SNAPSHOTTER])
            for task in running:
                task.cancel()

    async def _stand(self, world: SnapshotWorld, acts: Acts) -> None:
        """What stands in the way for good stays for a while: whoever waits has been told."""
        end = world.clock.now() + self._plan.habits.obstacle_s
        while world.clock.now() < end:
            await acts.tend()
            await world.clock.sleep(self._plan.habits.obstacle_s / STAND_STEPS)
        if self._plan.habits.obstacle_s:
            for law, text in silent(world):
                world.fail(law, text)
        world.backend.relent()

    async def _end(self, world: SnapshotWorld, acts: Acts, keepers: Mapping[str, Sequence[Keeper]]) -> None:
        """All is well, then all snapshots are gone, then all contents, then nothing happens any more."""

        def also(found: list[Complaint]) -> list[Complaint]:
            return [
                *found,
                *(("unsettled", what) for some in keepers.values() for keeper in some for what in keeper.unsettled()),
            ]

        if not await self._is_soon(world, acts, lambda: also(complaints(world)), "well"):
            return
        await self._rest(world, lambda: complaints(world))
        await acts.endings.delete_all()
        if not await self._is_soon(world, acts, lambda: also(leftovers(world)), "deleted"):
            return
        await acts.endings.delete_contents()
        if await self._is_soon(world, acts, lambda: also(remains(world)), "empty"):
            await self._rest(world, lambda: remains(world))

    async def _is_soon(
        self, world: SnapshotWorld, acts: Acts, wrong: Callable[[], list[Complaint]], state: str
    ) -> bool:
        deadline, looks = world.clock.now() + CALM_S_MAX, 0
        while (found := wrong()) or await acts.endings.give_up():
            looks += 1
            if found and world.clock.now() > deadline:
                world.fail(found[0][0], f"not {state} after {CALM_S_MAX:g} s: {'; '.join(text for _, text in found)}")
                return False
            await acts.tend()
            await acts.endings.give_up()
            await world.clock.sleep(LOOKS_S[looks > QUICK_LOOKS])
        self.rested_s = world.clock.now()
        world.story.tell("world", f"all is {state}")
        return True

    async def _rest(self, world: SnapshotWorld, wrong: Callable[[], list[Complaint]]) -> None:
        """Such a world stays as it is. Events may still be on their way, so they get a while first."""
        await world.clock.sleep(TOLD_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in wrong():
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")
