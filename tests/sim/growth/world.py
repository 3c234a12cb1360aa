"""One world of growing claims: as the attacher's, with sizes in place of publications."""

from __future__ import annotations

import asyncio

from tests.sim.growth.backend import GrowthBackend
from tests.sim.growth.laws import Json, Laws
from tests.sim.growth.plan import Plan
from tests.sim.world import SimWorld


class GrowthWorld(SimWorld):
    plan: Plan  # type: ignore[assignment]
    backend: GrowthBackend
    laws: Laws  # type: ignore[assignment]

    def __init__(self, plan: Plan, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, group)  # type: ignore[arg-type]
        self.server.on_set_back.append(lambda version: self.laws.was_set_back(self.whole))

    def whole(self, plural: str) -> list[Json]:
        """The objects of a kind, as they are stored."""
        resource = next(one for one in self.store.resources if one.plural == plural)
        return [stored.whole() for stored in self.store.table(resource).items()]

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[GrowthBackend, Laws]:  # type: ignore[override]
        backend = GrowthBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.laws = laws = Laws(plan, backend, self.clock.now, self.fail)
        return backend, laws
