"""The terms of a work: one without an election, else as many as it wins its Lease.

The elector's events are sent until the last one is out.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

from mooring.base.clock import Clock
from mooring.base.errors import InvariantError
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseMetrics, WorkOutlivesLease
from mooring.control.manager import Work, run_until
from mooring.control.program.health import unfilled
from mooring.kube.cluster import Cluster

_log = logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class LeasedWork:
    """A work and its Lease. make_work: one for each term. component, starting: what is logged when a term begins.

    lock_name: as yet unsanitised. namespace: of the Lease, "" for the one that the flags name.
    """

    component: str
    lock_name: str
    make_work: Callable[[], Work]
    starting: str = "Starting"
    namespace: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LeasedWorks:
    """The works of a program. beside: runs as long as any of them does."""

    works: Sequence[LeasedWork]
    beside: Callable[[], Awaitable[None]] | None = None


class Terms:
    """stop_requested: set when the program is to end: the work in hand ends, and no term follows."""

    def __init__(self, leased: LeasedWork, stop_requested: asyncio.Event) -> None:
        self.leased = leased
        self.work: Work | None = None
        self._stop_requested = stop_requested
        self._elector: LeaderElector | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def obstacle(self) -> str:
        """The obstacle to the work, or to standing by for it; "" for none."""
        if self.work is not None:
            return unfilled(self.work.has_synced, self.work.obstacle)
        return "" if self._elector is None else self._elector.obstacle

    @property
    def overdue(self) -> str:
        """A text about a Lease that is held and long not renewed, else ""."""
        return "" if self._elector is None else self._elector.healthy()

    def end(self) -> None:
        """Called once the program has to end: a standby ends at once."""
        if self.work is None and self._task is not None:
            self._task.cancel()

    async def run(self, elector: LeaderElector | None) -> None:
        """Raises the error of the work, WorkOutlivesLease, and CancelledError for a standby that has to end."""
        if self._stop_requested.is_set():
            return
        self._task, self._elector = asyncio.current_task(), elector
        if elector is None:
            await self._term()
        else:
            await elector.run(self._term)

    async def _term(self) -> None:
        """Runs the work until it has to end, or until the loss of the Lease cancels it."""
        if self._stop_requested.is_set():
            return
        work = self.work = self.leased.make_work()
        _log.info(0, self.leased.starting, component=self.leased.component)
        try:
            await run_until(self._stop_requested, work)
            if not self._stop_requested.is_set():
                raise InvariantError("the work ended unexpectedly")
        except asyncio.CancelledError:
            if self._stop_requested.is_set() and self._task is not None:  # the Lease was lost meanwhile: no reason to stand for it again
                self._task.cancel()
            raise
        finally:
            self.work = None


EVENTS_S_MAX: Final = 2.0
"""How long the end waits for the event that tells of the election."""


async def stand_for_election(
    terms: Terms,
    me: Candidate,
    cluster: Cluster,
    *,
    name: str,
    lock_name: str,
    asks_first: bool,
    clock: Clock,
    randomness: Random,
    metrics: Metrics,
    exit_now: Callable[[int], NoReturn],
) -> None:
    """As many terms as the candidate wins. name: of the program, for its tasks. lock_name: as its events have it.

    asks_first: it may have no right to events. exit_now: ends the process where a work can't be stopped that may no longer act.
    """
    events = EventRecorder(cluster, f"{lock_name}/{me.identity}", clock=clock, randomness=randomness, asks_first=asks_first)
    elector = LeaderElector(cluster, me, clock=clock, randomness=randomness, events=events, metrics=metrics.once(LeaseMetrics))
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(events.run(), name=f"{name}/election-events")
        try:
            await terms.run(elector)
        except WorkOutlivesLease as error:
            _log.error("Exiting at once", error=error)
            exit_now(1)
        await events.drain(EVENTS_S_MAX)
        sending.cancel()
