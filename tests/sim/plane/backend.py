"""The storage behind the driver's controller, which refuses nothing: that a volume for one node is on one alone is the
plane's own duty.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from tests.sim.backend import PUBLISH, UNPUBLISH, Backend, Fate, Operation
from tests.sim.endpoint import Endpoint
from tests.sim.plane.plan import Plan
from tests.sim.provisioning.backend import VolumeBackend
from tests.sim.story import Story

FOR_EVER_S: Final = 1e6
_OWN: Final = 1 << 43


class PlaneEndpoint(Endpoint):
    """What the driver has forgotten it does not list."""

    def _published(self) -> dict[str, set[str]]:
        backend = self._world.backend
        assert isinstance(backend, PlaneBackend)
        return {
            handle: {one for one in nodes if (handle, one) not in backend.forgotten}
            for handle, nodes in backend.published.items()
        }


class PlaneBackend(VolumeBackend):
    """laws: told of every effect, set by the world. forgotten: published, and not listed as such since the driver was
    started anew.
    """

    laws: Any

    def __init__(self, plan: Plan, clock: Clock, randomness: Random, story: Story, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, clock, randomness, story, group)  # type: ignore[arg-type]
        self.published = defaultdict(set)
        self.forgotten: set[tuple[str, str]] = set()
        self._habits, self._own = plan.manners, Random(_OWN + plan.seed)

    async def call(self, verb: str, handle: str, node_id: str, secrets: dict[str, str]) -> None:
        """Where calls wait for one another, one whose caller gave up is forgotten."""
        while self._habits.queues and (before := self.locks.get(handle)) is not None:
            assert before.task is not None
            await asyncio.wait([before.task])
        await super().call(verb, handle, node_id, secrets)

    def restart(self, away_s: float) -> None:
        super().restart(away_s)
        if self._habits.forgets:
            self.forgotten = {(handle, node) for handle, nodes in self.published.items() for node in nodes}

    def heal(self) -> None:
        """Calls that never end are ended by a restart."""
        super().heal()
        if any(operation.fate.before_s >= FOR_EVER_S for operation in self.locks.values()):
            self.restart(0.0)
        self.forgotten.clear()

    def _take_effect(self, operation: Operation) -> DriverError | None:
        if operation.verb not in (PUBLISH, UNPUBLISH):
            return super()._take_effect(operation)
        operation.done = True
        nodes = self.published[operation.handle]
        self.forgotten.discard((operation.handle, operation.node_id))
        if operation.verb == PUBLISH:
            self.laws.is_published(operation.handle, operation.node_id)
            nodes.add(operation.node_id)
        else:
            self.laws.is_unpublished(operation.handle, operation.node_id)
            nodes.discard(operation.node_id)
        self._story.tell("backend", f"effect of {operation}: {operation.handle} is on {sorted(nodes)}")
        return None

    def _fate(self) -> Fate:
        if self.faulty and self._habits.stuck and self._own.happens(self._habits.stuck):
            return Fate(FOR_EVER_S)
        return super()._fate() if self._plan.provisions else Backend._fate(self)  # type: ignore[attr-defined]
