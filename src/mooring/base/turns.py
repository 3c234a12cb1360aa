"""Jobs on one loop share its turns: work beyond one turn's share waits for the next turn, and the job that has used
least goes first.

Without turns, the loop would serve a hundred clients that come at once, or the hundred requests of one, before any
other client, such as a probe of /livez. Each client has a line. The next job comes from the line that has been served
least since it was last empty (start-time fair queueing); among equals, the earliest job goes first. So a client with
few requests does not wait for the many of another.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Final

from mooring.base.clock import processor_s
from mooring.base.log import logger

_log = logger(__name__)

SHARE_S: Final = 0.02
"""Processor time for all jobs in one turn of the loop. A job that has begun is finished."""
STALL_S: Final = 0.1
"""The longest that one job may hold the loop."""

Job = Callable[[], None]
Held = Callable[[float], None]
"""Called with the processor time of a job that held the loop for more than STALL_S."""


def _warn(held_s: float) -> None:
    _log.warning("A client's bytes held the server", processor_s=round(held_s, 3))


class Line:
    """One client's place among those who wait. used_s: until where it has been served, on the scale of its Turns."""

    __slots__ = ("_turns", "used_s")

    def __init__(self, turns: Turns) -> None:
        self._turns, self.used_s = turns, 0.0

    def take(self, job: Job, held: Held = _warn) -> None:
        """Runs the job at once while there is time left in this turn of the loop, else in one of the next."""
        self._turns.take(self, job, held)


_Waiting = tuple[float, int, Line, Job, Held]
"""A job with where its line has been served to, and its number: the least of both goes first."""


class Turns:
    """Runs jobs one after the other, never one within another."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []  # a heap
        self._numbers = itertools.count()
        self._served_s = self._used_s = 0.0
        self._is_due = self._is_running = False

    def line(self) -> Line:
        """A line for one more client."""
        return Line(self)

    def take(self, line: Line, job: Job, held: Held) -> None:
        """Queue a job. It may itself bring the next one: that follows when this has ended."""
        begin_s = max(self._served_s, line.used_s)
        heapq.heappush(self._waiting, (begin_s, next(self._numbers), line, job, held))
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        """Do jobs as far as the share goes. An error of a job is its caller's, and stops no other: what waits has the
        next turn.
        """
        self._is_running = True
        try:
            at_s = processor_s()
            while self._waiting and self._used_s < SHARE_S:
                at_s = self._run_next(at_s)
        finally:
            self._is_running = False
            if (self._waiting or self._used_s >= SHARE_S) and not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._turn)

    def _run_next(self, began_s: float) -> float:
        """The processor time at its end, with which the next one begins."""
        self._served_s, _, line, job, held = heapq.heappop(self._waiting)
        try:
            job()
        finally:
            ended_s = processor_s()
            used_s = ended_s - began_s
            self._used_s += used_s
            line.used_s = max(line.used_s, self._served_s) + used_s
            if used_s > STALL_S:
                held(used_s)
        return ended_s

    def _turn(self) -> None:
        self._used_s, self._is_due = 0.0, False
        self._run()
