"""The attacher's lives."""

from __future__ import annotations

from typing import Final

from tests.sim import checkers
from tests.sim.accidents import Accidents
from tests.sim.actor import Actor
from tests.sim.bugs import BUGS
from tests.sim.checkers import Complaint, complaints, silent
from tests.sim.course import CALM_STEP_S, Life, Part
from tests.sim.hands import Hands
from tests.sim.leading import replicas_of
from tests.sim.life import PROGRAM, attacher
from tests.sim.plan import plan_of
from tests.sim.world import SimWorld

STUCK_S: Final = 120.0
"""How long it may take until what can't be done is told."""


class AttacherLife(Life[SimWorld]):
    """The longest way to rest: a watch in its longest back-off, then a key in its own."""

    world_type = SimWorld
    checkers = checkers
    told_s = 0.0

    async def prepare(self, world: SimWorld) -> None:
        self.keepers, hands = replicas_of(world, PROGRAM, attacher), Hands(world)
        self._actor = Actor(world, hands)
        self.acts = Accidents(world, self._actor, hands, self.keepers)
        world.meddle = self.acts.meddle
        world.server.on_set_back.append(world.laws.was_set_back)
        await self._actor.prepare()
        if self.plan.inherits:
            await self._actor.inherit()

    async def disturb(self) -> None:
        await self.acts.disturb()
        await self._actor.tend()

    async def make_peace(self, world: SimWorld) -> None:
        await self._actor.make_peace()
        if world.backend.stuck:
            await self._tell_of_stuck(world)

    async def _tell_of_stuck(self, world: SimWorld) -> None:
        """What the driver refuses for ever is told; then the storage is mended."""
        for _ in range(round(STUCK_S / CALM_STEP_S)):
            await self._actor.tend()
            await world.clock.sleep(CALM_STEP_S)
        for invariant, text in silent(world):
            world.fail(invariant, f"{STUCK_S:g} s after the last fault: {text}")
        world.backend.unstick()

    async def tend(self, waited_s: float) -> None:
        await self._actor.tend()

    def complaints(self, world: SimWorld) -> list[Complaint]:
        return complaints(world, self._actor)


PART: Final = Part("attacher", plan_of, AttacherLife, BUGS)
