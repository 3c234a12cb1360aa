"""One world of the whole plane: as the attacher's, with kubelets, and a clock of the programs that jumps."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.base.clock import LoopClock
from mooring.kube.cluster import Request
from tests.sim.plane.agent import AgentSide
from tests.sim.plane.backend import PlaneBackend
from tests.sim.plane.claim_laws import ClaimLaws
from tests.sim.plane.laws import Laws
from tests.sim.plane.plan import Plan
from tests.sim.plane.workload_laws import WorkloadLaws
from tests.sim.world import EPOCH_S, SimWorld


class JumpingClock(LoopClock):
    """offset_s: how far the wall clock of the programs is from the API server's."""

    offset_s = 0.0

    def wall_s(self) -> float:
        return super().wall_s() + self.offset_s


class PlaneWorld(SimWorld):
    plan: Plan  # type: ignore[assignment]
    backend: PlaneBackend
    agents: AgentSide | None = None
    laws: Laws  # type: ignore[assignment]
    loses: Callable[[Request], None] | None = None
    """The next request about an attachment comes late, when its process has given up; this is called with it at
    once.
    """
    loses_process = False
    """That process is killed in the same moment."""
    meddles: Callable[[str], Awaitable[None]] | None = None
    """Called with the name of a Node while a write of node health to it is on its way there."""

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[PlaneBackend, Laws]:  # type: ignore[override]
        self.program_clock = JumpingClock(EPOCH_S)
        backend = PlaneBackend(plan, self.clock, self.randomness["backend"], self.story, group)
        backend.laws = laws = Laws(plan, backend, self.clock.now, self.fail)
        laws.tell = lambda what: self.story.tell("laws", what)
        self.claims = ClaimSide(self, ClaimLaws(self.truth, backend, self.fail))
        if plan.provisions:
            self.store.on_change(self.claims.laws.changed)
        self.workloads = WorkloadLaws(laws, self.clock.now, self.fail)
        if plan.workloads.runs:
            laws.on_begin, laws.on_answer = self.workloads.begins, self.workloads.answered
        if plan.agents.runs:
            self.agents = AgentSide(self, group)
            self.agents.begin(laws)
        return backend, laws

    def log_line(self, line: str) -> None:
        self.laws.silence.logged(line)

    def may_come_astray(self, request: Request) -> bool:
        """A renewal of a node's Lease is about the node of that name, whichever Lease it has by then."""
        return super().may_come_astray(request) or request.kind.plural == "leases"

    def collects(self) -> None:
        """From now on, what a deleted owner leaves is deleted: by the server's own garbage collector."""
        self.store.on_change(self.workloads.changed)
        Collecting(self.store, clock=self.clock).start()

    def heal(self) -> None:
        super().heal()
        if self.agents is not None:
            self.agents.backend.heal()

    def close(self) -> None:
        """The disks are given back."""
        if self.agents is not None:
            self.agents.close()


class Collecting(Housekeeping):
    """What it does is nobody's write, whoever has caused it."""

    def _plan(self) -> None:
        contextvars.Context().run(super()._plan)


class ClaimSide:
    """The world as provisioner and binder are simulated in it: with the laws of claims."""

    def __init__(self, world: PlaneWorld, laws: ClaimLaws) -> None:
        self._world, self.laws = world, laws

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)
