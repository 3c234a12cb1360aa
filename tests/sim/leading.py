"""A program behind a real Lease, with our own election: several replicas, of which one works; a former leader may wake
beside the next.

    keepers = replicas_of(world, "attacher", attacher)

Each term has a number of its own, as if it were an incarnation, for nothing is left of the memory of an earlier term.
The work of the next term follows the API server while the process stands by (`Terms`), through a line that may be as
late as any.

| law      | broken when |
| --- | --- |
| no-lease | a term sends a write or a call, and the stored Lease names another process, or has run out |

The fence promises that: it closes with the renew deadline, counted from when the last answered renewal was sent. No
other candidate takes the Lease before it has seen it unchanged for the whole duration, which is longer, by a clock that
runs as fast. One thing is excused: a server that was set back to a backup names a former holder, which takes
the Lease for its own at once, while the holder of a moment ago can't know yet; so for one duration after that nothing
is said. What was sent in time and arrives later is within the promise. The election's own requests are no work.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry

from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.base.randomness import Random
from mooring.control.lease.elector import LeaderElector
from mooring.control.lease.record import Candidate, LeaseTimes, record_of
from mooring.control.lease.reporter import LeaseMetrics
from mooring.control.program.terms import LeasedWork, Terms
from tests.sim.keeper import Keeper, Made
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import WritingLine
from tests.sim.standing import outside

T = TypeVar("T")

TIMES: Final = LeaseTimes(lease_s=6.0, renew_s=4.0, retry_s=1.0)
"""Shorter than in production, as lives are."""
NAMESPACE: Final = "default"
TURNS: Final = 3
"""Of the loop, until a cancellation has arrived."""
_AT_WORK: Final[ContextVar[bool]] = ContextVar("at_work", default=False)
"""True for what the work of a term does; the election itself needs no Lease."""


class LeaseLine(WritingLine):
    """The election's own connection."""

    watched = ()


class Leases:
    """The Leases of a world, as its store has them. One for all that stand for one."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._held: dict[str, tuple[str, float]] = {}  # lock → its holder, and when that was written
        self._set_back_at = -TIMES.lease_s
        world.store.on_change(self._changed)
        world.server.on_set_back.append(self._was_set_back)

    def _was_set_back(self, version: int) -> None:
        self._set_back_at = self._world.clock.now()

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        if resource.plural == "leases":
            lock = change.key.name
            holder = "" if change.new is None else record_of(change.new.whole()).holder
            self._held[lock] = holder, self._world.clock.now()

    def check(self, lock: str, identity: str, what: str) -> None:
        """what: is being sent by the process of this identity."""
        now = self._world.clock.now()
        if not _AT_WORK.get() or now < self._set_back_at + TIMES.lease_s:
            return
        holder, at_s = self._held.get(lock, ("", 0.0))
        late_s = now - at_s - TIMES.lease_s
        if holder != identity:
            self._world.fail("no-lease", f"{identity} sends {what}, and the Lease is of {holder or 'nobody'}")
        elif late_s > 0:
            self._world.fail("no-lease", f"{identity} sends {what}, and its Lease ran out {late_s:.3f} s ago")


class Term:
    """The process, as the work of one term sees it."""

    def __init__(self, mortal: Mortal, number: int) -> None:
        self._mortal = mortal
        self.number, self.who = number, f"{mortal.program}#{number}"
        self._at_begin: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._mortal, name)

    def at_begin(self, call: Callable[[], None]) -> None:
        self._at_begin.append(call)

    def begins(self) -> None:
        for call in self._at_begin:
            call()


class TermWork:
    """The work of one term, which stands by before. began: called when it begins."""

    def __init__(self, made: Made, began: Callable[[TermWork], None]) -> None:
        self.made, self._began = made, began

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made[0], name)

    async def follow(self) -> None:
        await (self.made[0].follow() if hasattr(self.made[0], "follow") else asyncio.Event().wait())

    async def caught_up(self) -> None:
        if hasattr(self.made[0], "caught_up"):
            await self.made[0].caught_up()

    @property
    def has_synced(self) -> bool:
        return bool(getattr(self.made[0], "has_synced", True))

    async def run(self) -> None:
        _AT_WORK.set(True)
        self._began(self)
        await self.made[0].run()


class Candidacy:
    """What a process runs that stands for a Lease. Each term's work is a new one, on a memory of its own."""

    def __init__(
        self,
        world: Any,
        mortal: Mortal,
        leases: Leases,
        lock: str,
        make: Callable[[Any, Any], Made],
        numbers: Iterator[int],
    ) -> None:
        self._world, self._mortal, self._make, self._numbers = world, mortal, make, numbers
        self._task: asyncio.Task[Any] | None = None
        self._stop = asyncio.Event()
        self._terms = Terms(LeasedWork(mortal.program, lock, self._next), self._stop)
        self._identity = mortal.who
        candidate = Candidate(lock, NAMESPACE, self._identity, TIMES, {})
        line = LeaseLine(world, mortal)
        randomness = Random(world.plan.seed * 7000 + mortal.number)
        self._metrics = LeaseMetrics(CollectorRegistry())
        self._elector = LeaderElector(
            outside(line), candidate, clock=mortal.clock, randomness=randomness, metrics=self._metrics
        )
        mortal.sends = lambda what: leases.check(lock, self._identity, what)
        mortal.killed = self._ends_at_once

    async def run(self) -> None:
        """Until it was drained. Raises WorkOutlivesLease, with which a process ends."""
        self._task = asyncio.current_task()
        try:
            await self._terms.run(self._elector)
        finally:
            if self._mortal.alive:
                self._check_told()

    def _check_told(self) -> None:
        """Monitoring sees who leads by this number alone; two that show 1 look as two leaders."""
        told = bool(self._metrics.master_status._value.get())
        if told != self._elector.is_leader:
            does = "leads" if self._elector.is_leader else "leads no more"
            self._world.fail("leads-told-wrong", f"{self._mortal.who} {does}, and shows {int(told)}")

    async def drain(self, timeout_s: float) -> bool:
        """The work of the term ends, and with it the candidacy; a standby ends at once."""
        self._stop.set()
        self._terms.end()
        if self._task is None:
            return True
        await asyncio.wait([self._task], timeout=timeout_s)
        return self._task.done()

    def unsettled(self) -> list[str]:
        """Of the work that is under way."""
        return self._terms.work.made[1].unsettled() if isinstance(self._terms.work, TermWork) else []

    @property
    def leads(self) -> bool:
        return self._elector.is_leader

    def _ends_at_once(self) -> None:
        self._world.group.create_task(self._cancel_again(), name=f"sim/killed/{self._mortal.who}")

    async def _cancel_again(self) -> None:
        """Who is asked to end gives the Lease back first; who is killed does not."""
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self._task is not None:
            self._task.cancel()

    def _next(self) -> Any:
        term = Term(self._mortal, next(self._numbers))

        def began(work: TermWork) -> None:
            self._world.story.tell(self._mortal.who, f"leads, as {term.who}")
            if (
                self._elector.is_leader
            ):  # it has caught up meanwhile, and a renewal may be overdue that is still under way
                self._check_told()
            term.begins()

        return TermWork(self._make(self._world, term), began)


def behind_lease(
    leases: Leases, lock: str, make: Callable[[Any, Any], Made], numbers: Iterator[int]
) -> Callable[[Any, Mortal], Made]:
    """What a Keeper makes of a program that stands for a Lease. make: the work of one term. numbers: of processes and
    terms.
    """

    def made(world: Any, mortal: Mortal) -> Made:
        candidacy = Candidacy(world, mortal, leases, lock, make, numbers)
        return candidacy, candidacy

    return made


def replicas_of(world: Any, who: str, make: Callable[[Any, Any], Made]) -> list[Keeper]:
    """One, or as many as the plan says behind a Lease."""
    count = world.stops.replicas
    if count == 1:
        return [Keeper(world, who, make)]
    numbers = itertools.count(1)
    led = behind_lease(Leases(world), who, make, numbers)
    return [Keeper(world, who, led, numbers) for _ in range(count)]
