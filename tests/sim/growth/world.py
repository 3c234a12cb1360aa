"""One world of growing claims: as the attacher's, with sizes in place of publications."""

from __future__ import annotations

import asyncio

from tests.sim.growth.backend import GrowthBackend
from tests.sim.growth.laws import Laws
from tests.sim.growth.plan import Plan
from tests.sim.world import SimWorld


class GrowthWorld(SimWorld):
    plan: Plan  # type: ignore[assignment]
    backend: GrowthBackend
    laws: Laws  # type: ignore[assignment]

    def __init__(self, plan: Plan, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, group)  # type: ignore[arg-type]
        self.server.on_set_back.append(lambda version: self.laws.was_set_back(self.whole))

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[GrowthBackend, Laws]:  # type: ignore[override]
        backend = GrowthBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.laws = laws = Laws(plan, backend, self.clock.now, self.fail)
        return backend, laws
