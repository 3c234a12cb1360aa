"""Requests share the turns of the loop: what is over one turn's share waits for the next, in the order in which it came.

Without, a hundred connections that ask at the same time, or one that asks a hundred times at once, are all answered before anybody else
is heard: a probe of /livez for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from mooring.base.clock import processor_s

SHARE_S: Final = 0.02
"""Processor time for requests in one turn of the loop. A request that has begun is finished."""
STALL_S: Final = 0.1
"""The longest that one request may hold the loop."""

_Job = Callable[[], None]
_Held = Callable[[float], None]
"""Told of the processor time of a job that held the loop for more than STALL_S."""


class Turns:
    """Runs jobs at once while there is time left in this turn, else in one of the next; one after the other, never one within another."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[_Job, _Held]] = deque()
        self._used_s = 0.0
        self._is_due = self._is_running = False

    def take(self, job: _Job, held: _Held) -> None:
        """A job may itself bring the next one: that follows when this has ended."""
        self._waiting.append((job, held))
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        """As far as the share goes. An error of a job is its caller's, and stops no other: what waits has the next turn."""
        self._is_running = True
        try:
            while self._waiting and self._used_s < SHARE_S:
                self._run_next()
        finally:
            self._is_running = False
            if (self._waiting or self._used_s >= SHARE_S) and not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._turn)

    def _run_next(self) -> None:
        job, held = self._waiting.popleft()
        began = processor_s()
        try:
            job()
        finally:
            used_s = processor_s() - began
            self._used_s += used_s
            if used_s > STALL_S:
                held(used_s)

    def _turn(self) -> None:
        self._used_s, self._is_due = 0.0, False
        self._run()
