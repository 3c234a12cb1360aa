"""One world of claims: store, backend, laws, and the one verdict on it all."""

from __future__ import annotations

import asyncio

from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.table import HistoryLimits
from mooring.base.chance import Chance
from mooring.base.clock import LoopClock
from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.provisioning.laws import Laws
from tests.sim.provisioning.plan import Plan
from tests.sim.story import Broken, Story
from tests.sim.truth import Truth
from tests.sim.world import _STREAMS, EPOCH_S, World


class ClaimWorld(World):
    """As the attacher's world, with volumes in place of publications."""

    def __init__(self, plan: Plan, group: asyncio.TaskGroup) -> None:
        self.plan = plan  # type: ignore[assignment]
        self.clock = LoopClock(EPOCH_S)
        self.story = Story(self.clock.now)
        self.chances = {name: Chance(plan.seed * 16 + number) for number, name in enumerate(_STREAMS)}
        self.store = new_store(self.chances["store"], EPOCH_S, HistoryLimits(changes_max=plan.history_max))
        self.cluster = LocalCluster(self.store, clock=self.clock, chance=self.chances["cluster"])
        self.truth = Truth(plan, self.store)  # type: ignore[arg-type]
        self.backend: VolumeBackend = VolumeBackend(plan, self.clock, self.chances["backend"], self.story, group)
        self.laws: Laws = Laws(self.truth, self.backend, self.fail)  # type: ignore[assignment]
        self.store.on_change(self.laws.changed)
        self.faulty = True
        self.kills_count = 0
        self.verdict: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()
