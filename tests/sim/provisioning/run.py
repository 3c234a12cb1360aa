"""The lives of claims."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from unittest import mock

from mooring.base.backoff import BackOff
from mooring.base.randomness import Random
from mooring.sidecars.provisioner.claims.controller import BACK_OFF
from mooring.sidecars.provisioner.intents import lease_codec
from tests.sim.checkers import Complaint
from tests.sim.course import Life, Part
from tests.sim.keeper import Keeper
from tests.sim.leading import replicas_of
from tests.sim.provisioning import checkers, waiting
from tests.sim.provisioning.bugs import BUGS
from tests.sim.provisioning.checkers import complaints, untold
from tests.sim.provisioning.life import binder, provisioner
from tests.sim.provisioning.orphans import report_of, unreported
from tests.sim.provisioning.plan import plan_of
from tests.sim.provisioning.static import unused
from tests.sim.provisioning.stillness import StillActs
from tests.sim.provisioning.world import ClaimWorld

WAITING_STEPS: Final = 60
LAST_TRY_S: Final = 2 * BACK_OFF.cap_s
"""When an object has been denied for so long that this counts, and the next try comes."""
STEP_S: Final = waiting.SILENCE_S_MAX / WAITING_STEPS
QUICK_TRIES: Final = 5
PATIENT_S: Final = 20.0
"""In the hour of those who wait for ever, nobody tries for the sixth time sooner. Retries each second would be the most
work of all lives, and by default they come every five minutes.
"""


class ClaimLife(Life[ClaimWorld]):
    """The longest way to rest: a claim that the driver called infeasible, twice; a Secret that is waited for; a key in
    its back-off.
    """

    world_type = ClaimWorld
    checkers = checkers
    calm_s_max = 1200.0

    async def prepare(self, world: ClaimWorld) -> None:
        makers = replicas_of(world, "provisioner", provisioner)
        self.keepers, self.counted = [*makers, Keeper(world, "binder", binder)], makers
        self.acts = StillActs(world, makers, self.keepers[-1])
        await self.acts.prepare()

    def complaints(self, world: ClaimWorld) -> list[Complaint]:
        return [*complaints(world), *unused(world)]

    async def rest(self, world: ClaimWorld, wrong: Callable[[], Sequence[Complaint]], state: str) -> None:
        """Where somebody waits for ever, there is no rest, but an hour in which he has to be told why."""
        await self.acts.end_with_orphans()
        for invariant, text in unreported(world, await report_of(world), untold(world)):
            world.fail(invariant, text)
        if not waiting.all_of(world):
            await super().rest(world, wrong, state)
            return
        with _patient():
            await self._wait(world)

    async def _wait(self, world: ClaimWorld) -> None:
        """What is wrong for a moment is on its way: for two steps; where a policy forbids objects, until the next try
        finds that the claim was given up while everybody waited.
        """
        steps_max = 1 + (math.ceil(LAST_TRY_S / STEP_S) if self.plan.saves.forbidden else 0)
        lasting: Counter[Complaint] = Counter()
        for step in range(WAITING_STEPS * 3 // 2):
            await world.clock.sleep(STEP_S)
            await self.acts.tend()
            lasting = Counter({complaint: 1 + lasting[complaint] for complaint in {*self.complaints(world)}})
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


PART: Final = Part(
    "provisioner",
    plan_of,
    ClaimLife,
    BUGS,
    around=lambda plan: mock.patch.object(lease_codec, "PAGE_BYTES_MAX", plan.page_bytes_max),
)
