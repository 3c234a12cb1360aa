"""A program behind a real Lease, with our own election: several replicas, of which one works; a former leader may wake beside the next.

    leases, numbers = Leases(world), itertools.count(1)
    keepers = [Keeper(world, "attacher", behind_lease(leases, "attacher", attacher), numbers) for _ in range(plan.stops.replicas)]

| law      | broken when                                                                                                              |
|----------|--------------------------------------------------------------------------------------------------------------------------|
| no-lease | the work of a term sends a write or a call, and the Lease in the API server's store does not name its process, or was not  |
|          | renewed for as long as it holds                                                                                            |

The fence promises that: it closes with the renew deadline, counted from when the last answered renewal was sent. No other candidate takes
the Lease before it has seen it unchanged for the whole duration, which is longer, by a clock that runs as fast. Two things are excused: a
Lease that was set back to a backup with the whole server, until its next renewal, for no process can know of that; and nothing is said of
what was sent in time and arrives later. The election's own requests are no work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Change
from mooring.base.randomness import Random
from mooring.control.lease.elector import LeaderElector
from mooring.control.lease.record import Candidate, LeaseTimes, record_of
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.provisioning.line import WritingLine
from tests.sim.standing import outside

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
        self._set_back: set[str] = set()
        world.store.on_change(self._changed)
        world.server.on_set_back.append(lambda version: self._set_back.update(self._held))

    def _changed(self, resource: Resource, change: Change) -> None:
        if resource.plural == "leases":
            lock = change.key.name
            holder = "" if change.new is None else record_of(change.new.whole()).holder
            self._held[lock] = holder, self._world.clock.now()
            self._set_back.discard(lock)

    def check(self, lock: str, identity: str, what: str) -> None:
        """what: is being sent by the process of this identity."""
        if not _AT_WORK.get() or lock in self._set_back:
            return
        holder, at_s = self._held.get(lock, ("", 0.0))
        late_s = self._world.clock.now() - at_s - TIMES.lease_s
        if holder != identity:
            self._world.fail("no-lease", f"{identity} sends {what}, and the Lease is of {holder or 'nobody'}")
        elif late_s > 0:
            self._world.fail("no-lease", f"{identity} sends {what}, and its Lease ran out {late_s:.3f} s ago")


class Candidacy:
    """What a process runs that stands for a Lease. Each term's work is a new one, on a memory of its own."""

    def __init__(self, world: Any, mortal: Mortal, leases: Leases, lock: str, make: Callable[[Any, Mortal], Made]) -> None:
        self._world, self._mortal, self._make = world, mortal, make
        self._made: Made | None = None
        self._task: asyncio.Task[Any] | None = None
        candidate = Candidate(lock, NAMESPACE, mortal.who, TIMES, {})
        line = LeaseLine(world, mortal)
        randomness = Random(world.plan.seed * 7000 + mortal.number)
        self._elector = LeaderElector(outside(line), candidate, clock=mortal.clock, randomness=randomness)
        mortal.sends = lambda what: leases.check(lock, mortal.who, what)
        mortal.killed = self._ends_at_once

    async def run(self) -> None:
        """Until it was drained. Raises WorkOutlivesLease, with which a process ends."""
        self._task = asyncio.current_task()
        await self._elector.run(self._term)

    async def drain(self, timeout_s: float) -> bool:
        """The work of the term ends, and with it the candidacy; a standby ends at once."""
        if self._made is not None:
            return await self._made[0].drain(timeout_s)
        if self._task is not None:
            self._task.cancel()
        return True

    def unsettled(self) -> list[str]:
        """Of the work that is under way."""
        return [] if self._made is None else self._made[1].unsettled()

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

    async def _term(self) -> None:
        _AT_WORK.set(True)
        self._made = made = self._make(self._world, self._mortal)
        self._world.story.tell(self._mortal.who, "leads")
        try:
            await made[0].run()
        finally:
            self._made = None


def behind_lease(leases: Leases, lock: str, make: Callable[[Any, Mortal], Made]) -> Callable[[Any, Mortal], Made]:
    """What a Keeper makes of a program that stands for a Lease. make: the work of one term."""

    def made(world: Any, mortal: Mortal) -> Made:
        candidacy = Candidacy(world, mortal, leases, lock, make)
        return candidacy, candidacy

    return made
