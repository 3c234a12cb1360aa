"""The attacher's lives, one after the other: each starts with an empty memory on the world as it is."""

from __future__ import annotations

import asyncio

from mooring.attacher.controller import Attacher, AttacherOptions
from mooring.base.chance import Chance
from mooring.base.metrics import Metrics
from mooring.csi.in_process import InProcessDriver
from tests.sim.endpoint import Endpoint, info_of
from tests.sim.line import Line
from tests.sim.mortal import Mortal
from tests.sim.plan import Plan
from tests.sim.world import World

DEATH_S_MAX = 1.0


def options_of(plan: Plan) -> AttacherOptions:
    return AttacherOptions(
        timeout_s=plan.timeout_s,
        worker_threads=plan.worker_threads,
        retry_interval_start_s=plan.retry_start_s,
        retry_interval_max_s=plan.retry_max_s,
        resync_s=plan.resync_s,
        reconcile_sync_s=plan.reconcile_s,
        max_entries=plan.page_size,
    )


class Supervisor:
    """Starts an attacher, and another one whenever it has ended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chances["life"]
        self._mortal: Mortal | None = None
        self._attacher: Attacher | None = None
        self._line: Line | None = None
        self.started_count = 0

    async def run(self) -> None:
        while True:
            self.started_count += 1
            await self._live(Mortal(self._world, self.started_count))
            away_s = self._chance.uniform(0.0, self._world.plan.restart_s) if self._world.faulty else 0.0
            await self._world.clock.sleep(away_s)

    def unsettled(self) -> list[str]:
        """What the attacher still has under way, or has not been shown yet."""
        return [] if self._line is None else self._line.unsettled()

    def kill(self) -> None:
        """At any moment, also between two steps."""
        if self._mortal is not None:
            self._mortal.kill("at some moment")

    async def roll(self) -> None:
        """As a rollout does: the old one ends what it has begun, within its time."""
        mortal, attacher = self._mortal, self._attacher
        if mortal is None or attacher is None or not mortal.alive:
            return
        drained = await attacher.drain(self._chance.uniform(0.0, 2 * self._world.plan.timeout_s))
        mortal.kill("after its work" if drained else "in the middle of its work")

    async def _live(self, mortal: Mortal) -> None:
        world, plan = self._world, self._world.plan
        world.story.tell(f"attacher#{mortal.number}", "starts")
        driver = InProcessDriver(Endpoint(world, mortal), clock=world.clock)
        chance = Chance(plan.seed * 1000 + mortal.number)
        line = Line(world, mortal)
        attacher = Attacher(line, driver, info_of(plan), options_of(plan), world.clock, chance, Metrics())
        mortal.task = asyncio.get_running_loop().create_task(attacher.run(), name=f"attacher/{mortal.number}")
        self._mortal, self._attacher, self._line = mortal, attacher, line
        try:
            await asyncio.wait([mortal.task])
        finally:
            mortal.task.cancel()
        if mortal.alive and not mortal.task.cancelled():
            self._ended(mortal)
        mortal.kill("by its own end")

    def _ended(self, mortal: Mortal) -> None:
        """It returned or raised on its own: only after it was drained may it return."""
        assert mortal.task is not None
        error = mortal.task.exception()
        if error is not None:
            self._world.fail("unexpected-error", f"the attacher ended with {_shown(error)}")


def _shown(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_shown(inner) for inner in error.exceptions)
    return f"{type(error).__name__}: {error}"
