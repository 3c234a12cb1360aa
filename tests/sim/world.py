"""One world: the API server's store, the backend, the laws, and the one verdict on it all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from mooring.api.meta import Kind
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.local import LocalCluster
from mooring.apiserver.table import HistoryLimits
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.kube.cluster import Request
from tests.sim.backend import Backend
from tests.sim.habits import NO_HABITS, NO_STOPS, ServerHabits, Stops
from tests.sim.laws import Laws
from tests.sim.plan import Plan
from tests.sim.server import Server
from tests.sim.standing import WorldGroup
from tests.sim.story import Broken, Story
from tests.sim.truth import Truth

EPOCH_S: Final = 1_780_000_000.0
_STREAMS: Final = ("store", "cluster", "backend", "actor", "line", "life", "habits", "still")


class SimWorld:
    """faulty: the faults go on. kills_count: how often an attacher was killed. verdict: set by the first law that is
    broken. meddle: called with an object while a write of the attacher to it is on its way there, now and then.

    group: owns the backend's calls, and late writes. randomness: independent sources by name: one part's draws don't
    move another's. habits, stops: of the plan, if it has them. server: the API server's habits.
    """

    epoch_s = EPOCH_S

    def __init__(self, plan: Plan, group: WorldGroup) -> None:
        self.plan, self.group = plan, group
        self.habits: ServerHabits = getattr(plan, "server", NO_HABITS)
        self.stops: Stops = getattr(plan, "stops", NO_STOPS)
        self.clock = LoopClock(EPOCH_S)
        self.story = Story(self.clock.now)
        self.randomness = {name: Random(plan.seed * 16 + number) for number, name in enumerate(_STREAMS)}
        self.store = new_store(self.randomness["store"], EPOCH_S, HistoryLimits(changes_max=plan.history_max))
        self.cluster = LocalCluster(self.store, clock=self.clock, randomness=self.randomness["cluster"])
        self.truth = Truth(plan, self.store)
        self.backend, self.laws = self._ruled(plan, group)
        self.store.on_change(self.laws.changed)
        self.metrics = Metrics()  # of all its programs: families are made once
        self.faulty = True
        self.kills_count = 0
        self.server = Server(self)
        self.meddle: Callable[[Kind[Any], str], Awaitable[None]] | None = None
        self.verdict: asyncio.Future[Broken] = asyncio.get_running_loop().create_future()

    def _ruled(self, plan: Plan, group: asyncio.TaskGroup) -> tuple[Backend, Laws]:
        """The driver's side of this world, and what must hold in it."""
        backend = Backend(plan, self.clock, self.randomness["backend"], self.story, group)
        return backend, Laws(self.truth, backend, self.clock.now, self.fail)

    def fail(self, invariant: str, what: str) -> None:
        """The first one counts."""
        if not self.verdict.done():
            broken = Broken(invariant, what, self.clock.now())
            self.story.tell("BROKEN", f"{invariant}: {what}")
            self.story.end()
            self.verdict.set_result(broken)

    def may_come_astray(self, request: Request) -> bool:
        """True for a write of which nobody minds that it is carried out late on the next object of the name."""
        return request.kind.plural == "events"

    def log_line(self, line: str) -> None:
        """A line of the log."""

    def whole(self, plural: str) -> list[dict[str, Any]]:
        """The objects of a kind, as they are stored."""
        found = [resource for resource in self.store.resources if resource.plural == plural]
        return [stored.whole() for resource in found for stored in self.store.table(resource).items()]

    def heal(self) -> None:
        """The faults end."""
        self.story.tell("world", "the faults have ended")
        self.faulty = False
        self.backend.heal()

    def close(self) -> None:
        """Gives back what it has of the machine."""
