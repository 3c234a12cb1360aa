"""The lives of the reference driver."""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.base.randomness import Random
from tests.sim.course import Course, Part
from tests.sim.driver.bugs import BUGS
from tests.sim.driver.odd_users import GroupUser, InlineUser, Onlooker
from tests.sim.driver.plan import Plan, plan_of
from tests.sim.driver.threads import ThreadLoop
from tests.sim.driver.users import User
from tests.sim.driver.world import World

PAUSE_S_MAX = 0.1


def _loop(seed: int) -> ThreadLoop:
    loop, randomness = ThreadLoop(seed), Random(seed * 16 + 2)
    loop.pause_s = lambda: randomness.uniform(0.0, PAUSE_S_MAX)
    return loop


class DriverLife(Course[World]):  # type: ignore[type-var]
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: World(plan, group))
        self._plan = plan

    async def live(self, world: World) -> None:
        with world.disk.played():
            async with asyncio.TaskGroup() as group:
                users: list[User] = [User(world, number) for number in range(self._plan.users)]
                users += [GroupUser(world, 0)] if self._plan.odd.groups else []
                users += [InlineUser(world, 0)] if self._plan.odd.inline else []
                living = [group.create_task(one.live(), name=f"sim/user/{number}") for number, one in enumerate(users)]
                looking = (
                    group.create_task(Onlooker(world).live(), name="sim/onlooker") if self._plan.odd.looks else None
                )
                await asyncio.wait(living)
                if looking is not None:
                    looking.cancel()
            world.faulty = False
            self.lives_count, self.rested_s = world.started_count, world.clock.now()
            await world.clock.sleep(1.0)
            self._check_empty(world)

    @staticmethod
    def _check_empty(world: World) -> None:
        kernel, state = world.kernel, world.root / "state"
        left = [
            *(mount.point for mount in kernel.mounts),
            *kernel.loops(),
            *(f"frozen {name}" for name in kernel.frozen),
        ]
        left += [str(path) for part in ("volumes", "snapshots", "mounts") for path in sorted((state / part).iterdir())]
        left += [str(path) for path in sorted((world.root / "nodes").iterdir()) if not path.name.startswith("staging-")]
        if left:
            world.fail("left", f"all was deleted, and there is {[world.short(one) for one in left]}")


PART: Final = Part("driver", plan_of, DriverLife, BUGS, loop_of=lambda plan: _loop)
