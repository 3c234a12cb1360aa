"""One world of claims: as the attacher's, with volumes in place of publications."""

from __future__ import annotations

import asyncio

from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.provisioning.meant import MeantLaws
from tests.sim.provisioning.plan import Plan
from tests.sim.world import SimWorld


class ClaimWorld(SimWorld):
    plan: Plan  # type: ignore[assignment]
    backend: VolumeBackend
    laws: MeantLaws  # type: ignore[assignment]

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[VolumeBackend, MeantLaws]:  # type: ignore[override]
        backend = VolumeBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.habits = plan.habits
        laws = MeantLaws(self.clock, self.truth, backend, self.fail)
        backend.on_made = laws.doomed.discard
        return backend, laws
