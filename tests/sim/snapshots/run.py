"""The lives of snapshots."""

from __future__ import annotations

from typing import Final

from tests.sim.course import Life, Part
from tests.sim.keeper import Keeper
from tests.sim.snapshots import checkers
from tests.sim.snapshots.acts import Acts
from tests.sim.snapshots.bugs import BUGS
from tests.sim.snapshots.checkers import complaints, leftovers, remains
from tests.sim.snapshots.life import controller, snapshotter
from tests.sim.snapshots.plan import CONTROLLER, SNAPSHOTTER, plan_of
from tests.sim.snapshots.world import SnapshotWorld


class SnapshotLife(Life[SnapshotWorld]):
    """The longest way to rest: a Secret that is gone is waited for, then a list is believed, then keys in their
    longest back-off.
    """

    world_type = SnapshotWorld
    checkers = checkers
    calm_s_max = 1000.0
    looks_s = 0.5, 3.0

    async def prepare(self, world: SnapshotWorld) -> None:
        several = (
            (CONTROLLER, controller, self.plan.controllers),
            (SNAPSHOTTER, snapshotter, self.plan.snapshotters),
        )
        keepers = {
            who: [Keeper(world, f"{who}{'-2' * number}", make) for number in range(count)]
            for who, make, count in several
        }
        self.keepers, self.counted = [one for some in keepers.values() for one in some], keepers[SNAPSHOTTER]
        self.acts = Acts(world, keepers)
        await self.acts.prepare()

    async def make_peace(self, world: SnapshotWorld) -> None:
        await self.stand(world)
        await self.acts.make_peace()

    async def end(self, world: SnapshotWorld) -> None:
        """All is well, then all snapshots are gone, then all contents, then nothing happens any more."""
        endings = self.acts.endings
        if not await self.is_soon(world, lambda: [*complaints(world), *self.unsettled()], "well"):
            return
        await self.rest(world, lambda: complaints(world), "well")
        await endings.delete_all()
        if not await self.is_soon(world, lambda: [*leftovers(world), *self.unsettled()], "deleted"):
            return
        await endings.delete_contents()
        if await self.is_soon(world, lambda: [*remains(world), *self.unsettled()], "empty"):
            await self.rest(world, lambda: remains(world), "empty")

    async def tend(self, waited_s: float) -> None:
        await self.acts.tend()
        await self.acts.endings.give_up()

    async def gives_up(self) -> bool:
        return await self.acts.endings.give_up()


PART: Final = Part("snapshots", plan_of, SnapshotLife, BUGS)
