"""The lives of growing claims."""

from __future__ import annotations

from typing import Final

from tests.sim.course import REST_S, Life, Part
from tests.sim.growth import checkers
from tests.sim.growth.acts import Acts
from tests.sim.growth.bugs import BUGS
from tests.sim.growth.life import resizer
from tests.sim.growth.plan import plan_of
from tests.sim.growth.world import GrowthWorld
from tests.sim.keeper import Keeper


class GrowthLife(Life[GrowthWorld]):
    """The longest way to rest: a call hangs, and keys are in their longest back-off, one after the other; a Secret
    that is read seldom.
    """

    world_type = GrowthWorld
    checkers = checkers
    told_s = REST_S

    async def prepare(self, world: GrowthWorld) -> None:
        self.keepers = [Keeper(world, "resizer", resizer)]
        self.acts = Acts(world, self.keepers[0])
        await self.acts.prepare()

    async def make_peace(self, world: GrowthWorld) -> None:
        await self.stand(world)
        await self.acts.make_peace()
        if self.plan.habits.dies:
            self.keepers[0].kill()


PART: Final = Part("resizer", plan_of, GrowthLife, BUGS)
