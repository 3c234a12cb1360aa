"""Ends a process that hangs, so that it is started again: what a liveness probe does, without a port that others could
fill.

A loop that has not turned for a minute will not turn again: nothing takes that long on purpose. A thread of the
interpreter's own ends the process then, whatever holds the lock, and writes where each thread stands. A program's own
report ends it, too: a Lease that is held and long not renewed, a socket that is no longer there.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import sys
from collections.abc import AsyncIterator, Callable
from typing import Final, NoReturn

from mooring.base.clock import Clock
from mooring.base.errors import first_of
from mooring.base.log import logger

_log = logger(__name__)

BEAT_S: Final = 10.0
HUNG_S: Final = 60.0
UNWELL_BEATS_MAX: Final = 6


@contextlib.asynccontextmanager
async def watched(
    clock: Clock, unwell: Callable[[], str], exit_now: Callable[[int], NoReturn], name: str
) -> AsyncIterator[None]:
    """The process is watched as long as this lasts. unwell: why it should end, "" for no reason. name: of the task."""
    try:
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(_watch(clock, unwell, exit_now), name=name)
            yield
            watch.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None


async def _watch(clock: Clock, unwell: Callable[[], str], exit_now: Callable[[int], NoReturn]) -> None:
    beats, is_armed = 0, False
    try:
        while True:
            is_armed = _arm()
            reason = unwell()
            beats = beats + 1 if reason else 0
            if beats > UNWELL_BEATS_MAX:
                _log.error("Ending: a new process may do better", reason=reason)
                exit_now(1)
            await clock.sleep(BEAT_S)
    finally:
        if is_armed:
            faulthandler.cancel_dump_traceback_later()


def _arm() -> bool:
    """Anew with each beat. False without a stderr of the system's: there would be nobody to tell."""
    try:
        faulthandler.dump_traceback_later(HUNG_S, exit=True, file=sys.stderr)
    except (AttributeError, RuntimeError, ValueError):  # (RuntimeError: there is no stderr at all)
        return False
    return True
