"""One world of claims: as the attacher's, with volumes in place of publications."""

from __future__ import annotations

import asyncio

from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.provisioning.laws import Laws
from tests.sim.provisioning.plan import Plan
from tests.sim.world import SimWorld


class ClaimWorld(SimWorld):
    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[VolumeBackend, Laws]:  # type: ignore[override]
        backend = VolumeBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.lingers, backend.tenants = plan.lingers, plan.tenants
        return backend, Laws(self.truth, backend, self.fail)
