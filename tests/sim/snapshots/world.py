"""One world of snapshots: as the attacher's, with snapshots in place of publications."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.base.randomness import Random
from tests.sim.snapshots.backend import SnapshotBackend
from tests.sim.snapshots.laws import Laws
from tests.sim.snapshots.plan import Plan
from tests.sim.world import SimWorld
from tests.support.snapshot_crds import GROUP_CRDS, SNAPSHOT_CRDS

DEFINITIONS: Final[Kind[Any]] = Kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict
)


class SnapshotWorld(SimWorld):
    """meddle_with: called with a write of a program, as laws name it, while it is on its way, now and then; so is
    cross.
    """

    plan: Plan  # type: ignore[assignment]
    backend: SnapshotBackend
    laws: Laws  # type: ignore[assignment]

    def __init__(self, plan: Plan, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, group)  # type: ignore[arg-type]
        self.server.on_late.append(self.laws.written_late)
        self.server.on_set_back.append(lambda version: self.laws.was_set_back(self.whole))

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[SnapshotBackend, Laws]:  # type: ignore[override]
        self.randomness["odd"] = Random(plan.seed * 1_000_003 + 37)
        self.randomness["crossing"] = Random(plan.seed * 1_000_003 + 43)
        self.meddle_with: Callable[[str], Awaitable[None]]
        self.cross: Callable[[str], Awaitable[None]]
        backend = SnapshotBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.laws = laws = Laws(plan, backend, self.clock.now, self.fail)
        return backend, laws

    async def make_kinds(self) -> None:
        for definition in (*SNAPSHOT_CRDS, *(GROUP_CRDS if self.plan.groups else ())):
            await self.cluster.create(DEFINITIONS, definition)
