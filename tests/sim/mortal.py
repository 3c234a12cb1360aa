"""A process that can be killed at any point where it touches the world, and that touches nothing any more once it is dead."""

from __future__ import annotations

import asyncio

from tests.sim.world import SimWorld


class Mortal:
    """One incarnation of a controller. number: from 1. task: what dies with it."""

    def __init__(self, world: SimWorld, number: int, who: str) -> None:
        self._world = world
        self._randomness = world.randomness["life"]
        self.number = number
        self.who = f"{who}#{number}"
        self.alive = True
        self.task: asyncio.Task[None] | None = None

    async def point(self, where: str) -> None:
        """A point where it may be killed. Who is dead does not come back from here."""
        if self.alive and self.strikes():
            self.kill(where)
        if not self.alive:
            await asyncio.get_running_loop().create_future()

    def kill(self, where: str) -> None:
        """As kill -9 does: nothing of it reaches the world from now on."""
        if not self.alive or self.task is None:
            return
        self._world.story.tell(self.who, f"killed {where}")
        self._world.kills_count += 1
        self.alive = False
        self.task.cancel()

    def strikes(self) -> bool:
        """Draws whether it is killed here."""
        plan = self._world.plan
        return self._world.faulty and self.number <= plan.crashes_max and self._randomness.happens(plan.crash)
