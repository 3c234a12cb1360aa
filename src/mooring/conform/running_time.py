"""Time in which this process ran: on a machine that starves it, that is less than what a clock on the wall shows.

A driver beside it is starved as well. What is held against a driver, as a call that stays Aborted, is measured by this
time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from mooring.base.clock import Clock, LoopClock
from mooring.base.errors import first_of

TICK_S: Final = 0.05
_TICKS_MAX: Final = 2
"""A tick counts for no more than so many, however late it came."""


class RunningTime(LoopClock):
    """A clock that counts the ticks of a task. clock: the real one. tick_s: how often the task wakes up."""

    def __init__(self, clock: Clock, tick_s: float) -> None:
        super().__init__()
        self._clock, self._tick_s = clock, tick_s
        self._ran_s, self._ticked_at = 0.0, clock.now()

    def now(self) -> float:
        return self._ran_s + min(self._clock.now() - self._ticked_at, _TICKS_MAX * self._tick_s)

    async def sleep(self, seconds: float) -> None:
        """Until so much of it has passed. Others run meanwhile, also for no time at all."""
        ends = self.now() + seconds
        await self._clock.sleep(seconds)
        while (left_s := ends - self.now()) > 0:
            await self._clock.sleep(left_s)

    async def tick(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(self._tick_s)
            self._ran_s, self._ticked_at = self.now(), self._clock.now()


@contextlib.asynccontextmanager
async def running_time(clock: Clock, tick_s: float = TICK_S) -> AsyncGenerator[RunningTime, None]:
    """Counted as long as the block runs. tick_s: a program that runs for months wakes up less often, and misses shorter
    gaps.
    """
    time = RunningTime(clock, tick_s)
    try:
        async with asyncio.TaskGroup() as group:
            ticking = group.create_task(time.tick(), name="conform/running-time")
            yield time
            ticking.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None
