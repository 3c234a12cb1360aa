"""A meter of stalls: how long the turns of an event loop are, in the processor time of its thread.

Who is served by one loop waits for everybody's turn. So nothing that comes from outside may hold the loop longer than `STALL_S`, whatever
it says: that is a rule of the house. Processor time is what counts: a noisy machine makes turns longer, but not dearer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

STALL_S: Final = 0.1
"""The longest that one request, object or answer may hold a loop."""
_BEAT_S: Final = 0.02


def processor_s() -> float:
    """The processor time that this thread has used. Only differences mean anything."""
    return time.thread_time()


class StallMeter:
    """Watches the running loop: a beat that comes late says how dear the turn before it was.

    worst_s: of the dearest turn so far, too large by up to one beat (0.02 s). on_stall: told of each turn of more than STALL_S.
    """

    def __init__(self, on_stall: Callable[[float], None] = lambda _seconds: None) -> None:
        self.worst_s = 0.0
        self._on_stall = on_stall
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def start(self) -> None:
        """In the loop that is to be watched."""
        assert self._timer is None, "a meter watches one loop"
        self._at = processor_s()
        self._next()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    def _beat(self) -> None:
        now = processor_s()
        used, self._at = now - self._at, now
        self.worst_s = max(self.worst_s, used)
        if used > STALL_S + _BEAT_S:
            self._on_stall(used)
        self._next()
