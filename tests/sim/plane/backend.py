"""The storage behind the driver's controller, which refuses nothing: that a volume for one node is on one alone is the plane's own duty."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.csi.codes import DriverError
from tests.sim.backend import PUBLISH, UNPUBLISH, Backend, Fate, Operation
from tests.sim.plane.plan import Plan
from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.story import Story


class PlaneBackend(VolumeBackend):
    """laws: told of every effect, set by the world."""

    laws: Any

    def __init__(self, plan: Plan, clock: Clock, randomness: Random, story: Story, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, clock, randomness, story, group)  # type: ignore[arg-type]
        self.published = defaultdict(set)

    def _take_effect(self, operation: Operation) -> DriverError | None:
        if operation.verb not in (PUBLISH, UNPUBLISH):
            return super()._take_effect(operation)
        operation.done = True
        nodes = self.published[operation.handle]
        if operation.verb == PUBLISH:
            self.laws.is_published(operation.handle, operation.node_id)
            nodes.add(operation.node_id)
        else:
            self.laws.is_unpublished(operation.handle, operation.node_id)
            nodes.discard(operation.node_id)
        self._story.tell("backend", f"effect of {operation}: {operation.handle} is on {sorted(nodes)}")
        return None

    def _fate(self) -> Fate:
        return super()._fate() if self._plan.provisions else Backend._fate(self)  # type: ignore[attr-defined]
