"""One life of nodes from its seed to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final
from unittest import mock

from mooring.node.plugins import controller as plugins
from mooring.node.volumes import controller as volumes
from mooring.node.volumes.pods import controller as pods
from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, Course, Outcome, failures_of, lived
from tests.sim.keeper import Keeper
from tests.sim.node.acts import Acts
from tests.sim.node.bugs import BUGS
from tests.sim.node.checkers import complaints, fingerprint, leftovers
from tests.sim.node.controller import AttachDetach
from tests.sim.node.disk import NodeLoop
from tests.sim.node.life import agent_on
from tests.sim.node.plan import Plan, plan_of
from tests.sim.node.troubles import Troubles
from tests.sim.node.upgrades import Upgrades
from tests.sim.node.watchman import Watchman
from tests.sim.node.world import NodeWorld
from tests.sim.planting import planted_of
from tests.sim.shrinking import cut

CALM_S_MAX: Final = 900.0
"""The longest way to rest: a call that hangs three times as long as its caller waits, a step in its longest back-off, then another one."""
WORKERS: Final = 6
PODS_AT_ONCE: Final = 16
"""How many pods the agent looks at, at once."""
LOOKS_S: Final = (0.5, 5.0)
"""Between two looks at a world that is not well yet: at first, and later."""


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life. cuts: as in `shrinking.py`."""
    plan = cut(plan_of(seed), cuts)
    life = _Life(plan)
    try:
        with (
            planted_of(BUGS, bug),
            few_workers(1 if plan.habits.hangs else PODS_AT_ONCE if plan.habits.slow_claims else WORKERS),
        ):
            return lived(life, seed, bug, "node", cuts, make_loop=NodeLoop, verbosity=plan.verbosity)
    finally:
        if life.world is not None:
            life.world.close()


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


@contextlib.contextmanager
def few_workers(count: int = WORKERS) -> Iterator[None]:
    """An agent has a hundred idle workers, and a life a dozen agents: fewer do the same work here.

    With a driver that hangs there is one for each kind of work: whoever waits for the driver in it holds up all others.
    """
    with contextlib.ExitStack() as stack:
        for module in (volumes, pods, plugins):
            stack.enter_context(mock.patch.object(module, "WORKERS", count))
        yield


class _Life(Course[NodeWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: NodeWorld(plan, group))
        self._plan = plan

    async def live(self, world: NodeWorld) -> None:
        keepers = {name: Keeper(world, name, agent_on(machine)) for name, machine in world.backend.machines.items()}
        acts, controller = Acts(world, keepers), AttachDetach(world)
        troubles, watchman = Troubles(world, keepers, acts, controller), Watchman(world)
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run(), name=f"sim/keeper/{name}") for name, keeper in keepers.items()]
            running.append(group.create_task(controller.run(), name="sim/controller"))
            running.append(group.create_task(Upgrades(world).run(), name="sim/upgrades"))
            if self._plan.habits.calm:
                running.append(group.create_task(watchman.run(), name="sim/watchman"))
            while world.clock.now() < self._plan.chaos_s:
                await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
                await acts.disturb()
                await troubles.disturb()
            world.heal()
            troubles.make_peace()
            await acts.make_peace()
            if await self._is_soon(world, lambda: complaints(world, controller), "well"):
                await acts.delete_all()
                if await self._is_soon(world, lambda: leftovers(world, controller), "empty"):
                    await self._rest(world, controller)
            self.lives_count = sum(keeper.started_count for keeper in keepers.values())
            for task in running:
                task.cancel()

    async def _is_soon(self, world: NodeWorld, wrong: Callable[[], list[Complaint]], state: str) -> bool:
        began = world.clock.now()
        while found := wrong():
            waited_s = world.clock.now() - began
            if waited_s > CALM_S_MAX:
                world.fail(found[0][0], f"not {state} after {CALM_S_MAX:g} s: {'; '.join(text for _, text in found)}")
                return False
            await world.clock.sleep(LOOKS_S[waited_s > 20 * LOOKS_S[0]])
        self.rested_s = world.clock.now()
        world.story.tell("world", f"all is {state}")
        return True

    async def _rest(self, world: NodeWorld, controller: AttachDetach) -> None:
        """A world that is empty stays as it is. Events may still be on their way, so they get a while first."""
        await world.clock.sleep(REST_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in leftovers(world, controller):
            world.fail(invariant, f"all was empty, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was empty, and then something was done: {before} became {fingerprint(world)}")
