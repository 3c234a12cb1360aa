"""The lives of nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Iterator
from typing import Any, Final
from unittest import mock

from mooring.node.plugins import controller as plugins
from mooring.node.volumes import controller as volumes
from mooring.node.volumes.pods import controller as pods
from tests.sim.checkers import Complaint
from tests.sim.course import REST_S, Life, Part
from tests.sim.keeper import Keeper
from tests.sim.node import checkers
from tests.sim.node.acts import Acts
from tests.sim.node.bugs import BUGS
from tests.sim.node.checkers import complaints, leftovers
from tests.sim.node.controller import AttachDetach
from tests.sim.node.disk import NodeLoop
from tests.sim.node.life import agent_on
from tests.sim.node.plan import Plan, plan_of
from tests.sim.node.troubles import Troubles
from tests.sim.node.upgrades import Upgrades
from tests.sim.node.watchman import Watchman
from tests.sim.node.world import NodeWorld

WORKERS: Final = 6
PODS_AT_ONCE: Final = 16
"""How many pods the agent looks at, at once."""


@contextlib.contextmanager
def few_workers(count: int = WORKERS) -> Iterator[None]:
    """An agent has a hundred idle workers, and a life a dozen agents: fewer do the same work here.

    With a driver that hangs there is one for each kind of work: whoever waits for the driver in it holds up all others.
    """
    with contextlib.ExitStack() as stack:
        for module in (volumes, pods, plugins):
            stack.enter_context(mock.patch.object(module, "WORKERS", count))
        yield


class NodeLife(Life[NodeWorld]):
    """The longest way to rest: a call that hangs three times as long as its caller waits, a step in its longest
    back-off, then another one.
    """

    world_type = NodeWorld
    checkers = checkers
    calm_s_max = 900.0
    looks_s = 0.5, 5.0
    quick_looks = 21
    told_s = REST_S

    async def prepare(self, world: NodeWorld) -> None:
        self._agents = {
            name: Keeper(world, name, agent_on(machine)) for name, machine in world.backend.machines.items()
        }
        self.keepers = [*self._agents.values()]
        self.acts, self._controller = Acts(world, self._agents), AttachDetach(world)
        self._troubles = Troubles(world, self._agents, self.acts, self._controller)
        self._watchman = Watchman(world)
        await self.acts.prepare()

    def works(self, world: NodeWorld) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield from ((f"sim/keeper/{name}", keeper.run()) for name, keeper in self._agents.items())
        yield "sim/controller", self._controller.run()
        yield "sim/upgrades", Upgrades(world).run()
        if self.plan.habits.calm:
            yield "sim/watchman", self._watchman.run()

    async def disturb(self) -> None:
        await self.acts.disturb()
        await self._troubles.disturb()

    async def make_peace(self, world: NodeWorld) -> None:
        self._troubles.make_peace()
        await self.acts.make_peace()

    async def end(self, world: NodeWorld) -> None:
        """All is well, then all is empty, then nothing happens any more."""

        def left() -> list[Complaint]:
            return leftovers(world, self._controller)

        if await self.is_soon(world, lambda: complaints(world, self._controller), "well"):
            await self.acts.delete_all()
            if await self.is_soon(world, left, "empty"):
                await self.rest(world, left, "empty")


def _around(plan: Plan) -> contextlib.AbstractContextManager[None]:
    habits = plan.habits
    return few_workers(1 if habits.hangs else PODS_AT_ONCE if habits.slow_claims else WORKERS)


PART: Final = Part("node", plan_of, NodeLife, BUGS, around=_around, loop_of=lambda plan: NodeLoop)
