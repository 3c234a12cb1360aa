"""One life of claims from its seed to its verdict."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final
from unittest import mock

from mooring.base.backoff import BackOff
from mooring.base.randomness import Random
from mooring.sidecars.provisioner.claims.controller import BACK_OFF
from mooring.sidecars.provisioner.claims.create_volume import DENIED_S_MAX
from mooring.sidecars.provisioner.intents import lease_codec
from tests.sim.checkers import Complaint
from tests.sim.course import CALM_STEP_S, REST_S, TOLD_S, Course, Outcome, failures_of, lived
from tests.sim.keeper import Keeper
from tests.sim.planting import planted_of
from tests.sim.provisioning import waiting
from tests.sim.provisioning.bugs import BUGS
from tests.sim.provisioning.checkers import complaints, fingerprint, untold
from tests.sim.provisioning.life import binder
from tests.sim.provisioning.orphans import report_of, unreported
from tests.sim.provisioning.plan import Plan, plan_of
from tests.sim.provisioning.static import unused
from tests.sim.provisioning.stillness import StillActs, provisioners
from tests.sim.provisioning.world import ClaimWorld
from tests.sim.shrinking import cut

CALM_S_MAX: Final = 1200.0
"""The longest way to rest: a claim that the driver called infeasible, twice; a secret that is waited for; a key in its back-off."""

WAITING_STEPS: Final = 60
LAST_TRY_S: Final = 2 * BACK_OFF.cap_s
"""When an object has been denied for so long that this counts, and the next try comes."""
STEP_S: Final = waiting.SILENCE_S_MAX / WAITING_STEPS
QUICK_TRIES: Final = 5
PATIENT_S: Final = 20.0
"""In the hour of those who wait for ever, nobody tries for the sixth time sooner. Retries each second would be the most work of all lives,
and by default they come every five minutes."""


def run_seed(seed: int, *, bug: str | None = None, cuts: tuple[str, ...] = ()) -> Outcome:
    """Lives the life of a seed. bug: one of `bugs.BUGS`, planted for this life. cuts: as in `shrinking.py`."""
    plan = cut(plan_of(seed), cuts)
    with planted_of(BUGS, bug), mock.patch.object(lease_codec, "PAGE_BYTES_MAX", plan.page_bytes_max):
        return lived(_Life(plan), seed, bug, "provisioner", cuts)


def failures(seeds: range, bug: str | None) -> list[tuple[str, str, int]]:
    return failures_of(run_seed(seed, bug=bug) for seed in seeds)


class _Life(Course[ClaimWorld]):
    def __init__(self, plan: Plan) -> None:
        super().__init__(lambda group: ClaimWorld(plan, group))
        self._plan = plan

    async def live(self, world: ClaimWorld) -> None:
        makers = provisioners(world)
        keepers = *makers, Keeper(world, "binder", binder)
        acts = StillActs(world, makers, keepers[-1])
        await acts.prepare()
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(keeper.run(), name="sim/keeper") for keeper in keepers]
            while world.clock.now() < self._plan.chaos_s:
                await world.clock.sleep(world.randomness["actor"].uniform(0.0, 2 * self._plan.pause_s))
                await acts.disturb()
                await acts.tend()
            world.heal()
            await acts.make_peace()
            await self._calm(world, acts, keepers)
            await self._rest(world, acts)
            self.lives_count = sum(keeper.started_count for keeper in makers)
            for task in running:
                task.cancel()

    async def _calm(self, world: ClaimWorld, acts: StillActs, keepers: Sequence[Keeper]) -> None:
        deadline = world.clock.now() + CALM_S_MAX
        while found := [
            *complaints(world),
            *unused(world),
            *(("unsettled", what) for keeper in keepers for what in keeper.unsettled()),
        ]:
            if world.clock.now() > deadline:
                world.fail(
                    found[0][0],
                    f"not well {CALM_S_MAX:g} s after the last fault: {'; '.join(text for _, text in found)}",
                )
                return
            await acts.tend()
            await world.clock.sleep(CALM_STEP_S)
        self.rested_s = world.clock.now()
        world.story.tell("world", "all is well")

    async def _rest(self, world: ClaimWorld, acts: StillActs) -> None:
        """A world that is well stays as it is. Events may still be on their way, so they get a while first.

        Where somebody waits for ever, there is no rest, but an hour in which he has to be told why.
        """
        await acts.end_with_orphans()
        for invariant, text in unreported(world, await report_of(world), untold(world)):
            world.fail(invariant, text)
        if waiting.all_of(world):
            with _patient():
                await self._wait(world, acts)
            return
        await world.clock.sleep(TOLD_S)
        before = fingerprint(world)
        await world.clock.sleep(REST_S)
        for invariant, text in (*complaints(world), *unused(world)):
            world.fail(invariant, f"all was well, and then: {text}")
        if fingerprint(world) != before:
            world.fail("restless", f"all was well, and then something was done: {before} became {fingerprint(world)}")

    async def _wait(self, world: ClaimWorld, acts: StillActs) -> None:
        """What is wrong for a moment is on its way: for two steps; where a policy forbids objects, until a volume that is of no use for
        that is deleted, since the claim is given up while everybody waits.
        """
        steps_max = 1 + (math.ceil((DENIED_S_MAX + LAST_TRY_S) / STEP_S) if self._plan.saves.forbidden else 0)
        lasting: Counter[Complaint] = Counter()
        for step in range(WAITING_STEPS * 3 // 2):
            await world.clock.sleep(STEP_S)
            await acts.tend()
            lasting = Counter({complaint: 1 + lasting[complaint] for complaint in {*complaints(world), *unused(world)}})
            for invariant, text in sorted(complaint for complaint, count in lasting.items() if count > steps_max):
                world.fail(invariant, f"all was well, but for who waits, and then: {text}")
            for invariant, text in waiting.silent(world) if step >= WAITING_STEPS else ():
                world.fail(invariant, text)


@contextlib.contextmanager
def _patient() -> Iterator[None]:
    delay_s = BackOff.jittered_s

    def patient_s(self: BackOff, failures: int, randomness: Random) -> float:
        drawn_s = delay_s(self, failures, randomness)
        return drawn_s if failures <= QUICK_TRIES else max(drawn_s, PATIENT_S)

    with mock.patch.object(BackOff, "jittered_s", patient_s):
        yield
