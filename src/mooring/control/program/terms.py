"""The terms of a work: one without an election, else as many as it wins its Lease.

A standby has the work of its next term follow the API server. Once nobody holds the Lease any more, that work catches
up with all that the former leader can have written, and does nothing before it has. The elector's events are sent until
the last one is out.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, NoReturn

import msgspec

from mooring.base.clock import Clock
from mooring.base.errors import InvariantError, first_of
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.events import EventRecorder
from mooring.control.lease.elector import Candidate, LeaderElector, LeaseMetrics, WorkOutlivesLease
from mooring.control.manager import Work, run_until
from mooring.control.program.health import unfilled
from mooring.kube.cluster import Cluster

CreateTask = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]

_log = logger(__name__)


class LeasedWork(msgspec.Struct, frozen=True):
    """A work and its Lease."""

    #: Logged when a term begins, as is `starting`.
    component: str
    #: The Lease's name, not sanitised yet.
    lock_name: str
    #: Called once for each term.
    make_work: Callable[[], Work]
    starting: str = "Starting"
    #: The Lease's namespace, "" for the one that the flags name.
    namespace: str = ""


class LeasedWorks(msgspec.Struct, frozen=True):
    """The works of a program. beside: runs as long as any of them does."""

    works: Sequence[LeasedWork]
    beside: Callable[[], Awaitable[None]] | None = None


class _NextTerm:
    """The work of a term that is still to come. create_task: starts what it does until then. is_warm: it follows the
    API server until then.
    """

    def __init__(self, work: Work, create_task: CreateTask, *, is_warm: bool) -> None:
        self.work = work
        self._create_task, self._is_warm = create_task, is_warm
        self._vacant: str | None = None
        self._following: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

    def looked(self, version: str, is_vacant: bool) -> None:
        """The Lease has this version. When nobody else holds it nobody writes any more, and what was written can be
        caught up with.
        """
        if is_vacant and self._vacant != version:
            _cancel(self._catching_up)
            self._vacant = version
            self._catching_up = self._create_task(self.work.caught_up(), "catch-up")
        if self._is_warm and not is_vacant and self._following is None:
            self._following = self._create_task(self.work.follow(), "follow")

    async def caught_up(self) -> None:
        """Returns once the work may begin."""
        assert self._catching_up is not None, "a Lease that is won was seen to be vacant"
        await self._catching_up

    def end(self) -> None:
        _cancel(self._catching_up)
        _cancel(self._following)


def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()


class Terms:
    """stop_requested: set when the program is to end: the work in hand ends, and no term follows. warm: a standby's
    caches are filled.
    """

    def __init__(self, leased: LeasedWork, stop_requested: asyncio.Event, *, warm: bool = True) -> None:
        self.leased = leased
        self.work: Work | None = None
        self._next: _NextTerm | None = None
        self._is_warm = warm
        self._is_won = False
        self._stop_requested = stop_requested
        self._elector: LeaderElector | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def obstacle(self) -> str:
        """The obstacle to the work, or to standing by for it; "" for none."""
        if self.work is not None:
            return unfilled(self.work.has_synced, self.work.obstacle)
        if self._is_won and self._next is not None:
            return unfilled(False, self._next.work.obstacle)
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
            await self._work(self.leased.make_work())
            return
        try:
            async with asyncio.TaskGroup() as group:
                outside = contextvars.copy_context()  # a former term's fence is not the next one's

                def create_task(what: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
                    return group.create_task(what, name=f"term/{self.leased.component}/{name}", context=outside.copy())

                self._next = self._next_term(create_task)
                await elector.run(lambda: self._term(create_task), self._looked)
                self._next.end()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from None  # its own traceback says it all

    def _next_term(self, create_task: CreateTask) -> _NextTerm:
        return _NextTerm(self.leased.make_work(), create_task, is_warm=self._is_warm)

    def _looked(self, version: str, is_vacant: bool) -> None:
        if self._next is not None and not self._is_won:
            self._next.looked(version, is_vacant)

    async def _term(self, create_task: CreateTask) -> None:
        """Runs the work until it has to end, or until the loss of the Lease cancels it."""
        assert self._next is not None
        self._is_won = True
        try:
            await self._next.caught_up()
            await self._work(self._next.work)
        finally:
            self._is_won = False
            self._next.end()
            if not self._stop_requested.is_set():
                self._next = self._next_term(create_task)

    async def _work(self, work: Work) -> None:
        if self._stop_requested.is_set():
            return
        self.work = work
        _log.info(0, self.leased.starting, component=self.leased.component)
        try:
            await run_until(self._stop_requested, work)
            if not self._stop_requested.is_set():
                raise InvariantError("the work ended unexpectedly")
        except asyncio.CancelledError:
            if (
                self._stop_requested.is_set() and self._task is not None
            ):  # the Lease was lost meanwhile: no reason to stand for it again
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
    clock: Clock,
    randomness: Random,
    metrics: Metrics,
    exit_now: Callable[[int], NoReturn],
) -> None:
    """Run as many terms as the candidate wins. name: the program's, for its tasks. lock_name: the Lease's, for events.

    exit_now: ends the process where a work can't be stopped that may no longer act.
    """
    events = EventRecorder(cluster, f"{lock_name}/{me.identity}", clock=clock, randomness=randomness)
    elector = LeaderElector(
        cluster, me, clock=clock, randomness=randomness, events=events, metrics=metrics.once(LeaseMetrics)
    )
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(events.run(), name=f"{name}/election-events")
        try:
            await terms.run(elector)
        except WorkOutlivesLease as error:
            _log.error("Exiting at once", error=error)
            exit_now(1)
        await events.drain(EVENTS_S_MAX)
        sending.cancel()
