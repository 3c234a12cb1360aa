"""A meter of stalls: how long the turns of an event loop are, in the processor time of its thread.

Who is served by one loop waits for everybody's turn. So nothing that comes from outside may hold the loop longer than
0.1 s, whatever it says: that is a rule of the house. Processor time is what counts: a noisy machine makes turns longer,
but not dearer.
"""

from __future__ import annotations

import asyncio
from typing import Final

from mooring.base.clock import processor_s

_BEAT_S: Final = 0.02


class StallMeter:
    """Watches the running loop: a beat that comes late says how dear the turn before it was.

    worst_s: of the dearest turn so far, too large by up to one beat (0.02 s).
    """

    def __init__(self) -> None:
        self.worst_s = 0.0
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
        self._next()
