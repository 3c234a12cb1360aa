"""A process that can be killed or stopped at any point where it touches the world, and that touches nothing any more
once it is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from mooring.base.clock import LoopClock
from tests.sim.standing import StandingLoop

if TYPE_CHECKING:
    from tests.sim.world import SimWorld

T = TypeVar("T")


class SkewedClock(LoopClock):
    """The clock of a machine that is set wrong: its seconds are as long as everybody's."""

    def __init__(self, epoch_s: float, skew_s: float) -> None:
        super().__init__(epoch_s + skew_s)


class Mortal:
    """One incarnation of a controller. number: from 1. task: what dies with it. clock: of its machine.

    sends: told of each write and call in the moment that it is sent; a law may stand there. killed: told of its end by
    force.
    """

    def __init__(self, world: SimWorld, number: int, who: str) -> None:
        self._world = world
        self._randomness, self._stills = world.randomness["life"], world.randomness["still"]
        self.number = number
        self.program, self.who = who, f"{who}#{number}"
        self.alive = True
        self.is_still = False
        self.stills_count = 0
        self.task: asyncio.Task[None] | None = None
        self.sends: Callable[[str], None] = lambda what: None
        self.killed: Callable[[], None] = lambda: None
        skew_s = world.stops.skew_s
        self.clock = SkewedClock(world.epoch_s, self._stills.uniform(-skew_s, skew_s)) if skew_s else world.clock

    def at_begin(self, call: Callable[[], None]) -> None:
        """Calls it when the work of this incarnation begins: here at once, behind a Lease when it leads."""
        call()

    @property
    def may_stand_still(self) -> bool:
        """True where its plan has that, at all."""
        return self._world.stops.still > 0 or self._world.stops.replicas > 1

    async def point(self, where: str) -> None:
        """A point where it may be killed. Who is dead does not come back from here."""
        if self.alive and self.strikes():
            self.kill(where)
        if not self.alive:
            await asyncio.get_running_loop().create_future()
        self._may_freeze()

    async def pause(self) -> None:
        """A point of its own task where it may be stopped, and goes on from right here."""
        if self._may_freeze():
            await asyncio.sleep(0)

    async def outside(self, work: Callable[[], Awaitable[T]], name: str) -> T:
        """What the world does for it, once it has sent its request or call: that goes on also while it stands still."""
        return await (self._world.group.apart(work, f"{self.who}/{name}") if self.may_stand_still else work())

    def kill(self, where: str) -> None:
        """As kill -9 does: nothing of it reaches the world from now on."""
        if not self.alive or self.task is None:
            return
        self._world.story.tell(self.who, f"killed {where}")
        self._world.kills_count += 1
        self.alive = False
        self.thaw()
        self.task.cancel()
        self.killed()

    def freeze(self, seconds: float) -> None:
        """As SIGSTOP, and SIGCONT after so long."""
        if not self.alive or self.is_still or self.task is None:
            return
        self._world.story.tell(self.who, f"stands still for {seconds:.3f} s")
        self.is_still = True
        self.stills_count += 1
        _loop().stop_process(self)
        self._world.group.create_task(self._thaw_after(seconds), name=f"sim/still/{self.who}/{self.stills_count}")

    def thaw(self) -> None:
        if self.is_still:
            self.is_still = False
            self._world.story.tell(self.who, "goes on")
            _loop().resume(self)

    async def _thaw_after(self, seconds: float) -> None:
        count = self.stills_count
        await self._world.clock.sleep(seconds)
        if self.stills_count == count:
            self.thaw()

    def _may_freeze(self) -> bool:
        stops = self._world.stops
        if (
            not stops.still
            or not self._world.faulty
            or self.stills_count >= stops.stills_max
            or not self._stills.happens(stops.still)
        ):
            return False
        self.freeze(self._stills.uniform(0.0, stops.still_s))
        return self.is_still

    def strikes(self) -> bool:
        """Draws whether it is killed here."""
        plan = self._world.plan
        return self._world.faulty and self.number <= plan.crashes_max and self._randomness.happens(plan.crash)


def _loop() -> StandingLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StandingLoop)
    return loop
