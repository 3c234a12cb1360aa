"""Ends a process that hangs, so that it is started again: what a liveness probe does, without a port that others could fill.

A loop that has not turned for a minute will not turn again: nothing takes that long on purpose. A thread of the interpreter's own ends the
process then, whatever holds the lock, and writes where each thread stands. A Lease that is held and long not renewed ends it, too.
"""

from __future__ import annotations

import faulthandler
import io
import sys
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from mooring.base.log import logger

_log = logger(__name__)

BEAT_S: Final = 10.0
HUNG_S: Final = 60.0
OVERDUE_BEATS_MAX: Final = 6


class _Sleeps(Protocol):
    async def sleep(self, seconds: float) -> None: ...


async def watching(clock: _Sleeps, overdue: Callable[[], str], exit_now: Callable[[int], NoReturn]) -> None:
    """Runs until cancelled. overdue: the reason that a Lease makes the process unhealthy, "" for none."""
    beats = 0
    try:
        while True:
            _arm()
            reason = overdue()
            beats = beats + 1 if reason else 0
            if beats > OVERDUE_BEATS_MAX:
                _log.error("Ending: a new process may do better", reason=reason)
                exit_now(1)
            await clock.sleep(BEAT_S)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _arm() -> None:
    """Anew with each beat. Without a stderr of the system's there is nobody to tell, and nothing to end: a test."""
    try:
        faulthandler.dump_traceback_later(HUNG_S, exit=True, file=sys.stderr)
    except (io.UnsupportedOperation, AttributeError, ValueError):
        return
