"""An event loop for real sockets and processes whose clock can leap: while it leaps, it does not wait where nobody is
at work.

Without a leap it is asyncio's own loop. While one is wanted, time jumps to the next timer as soon as nobody is busy:
not the work that was given to threads, and not what `busy` says. Signals, sockets and threads end a wait as ever. Time
is never set back.

Somebody outside may be about to speak without being asked, as a client that holds a connection. While `accompanied`
says so, time leaps only after a moment of silence: before each timer when somebody has spoken lately, else once for
each stride of time.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

SILENT_S: Final = 0.003
"""How long nothing may come from outside before time leaps."""
LATELY_S: Final = 0.1
"""How long after somebody outside has spoken each timer is waited for in silence."""
STRIDE_S: Final = 5.0
"""How much of the loop's time may pass after one silence when nobody has spoken lately."""
BUSY_S: Final = 0.02
"""How often is asked whether somebody is still busy."""

Found = list[tuple[selectors.SelectorKey, int]]


class _LeapingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self.leaps = False
        self.busy: Callable[[], bool] = lambda: False
        self.accompanied: Callable[[], bool] = lambda: False
        self.stays_until_s = 0.0
        self._spoken_s = self._strode_s = 0.0  # real time when somebody spoke; how far ahead the last silence was

    def select(self, timeout: float | None = None) -> Found:
        if not self.leaps or timeout is None or timeout <= 0:
            return self._heard(super().select(timeout))
        began = time.monotonic()
        if found := self._heard(super().select(min(timeout, self._silence_s(began)))):
            return found
        now = time.monotonic()
        if self.busy():
            return self._heard(super().select(min(timeout, BUSY_S)))
        if now < self.stays_until_s:
            return self._heard(super().select(min(timeout, self.stays_until_s - now)))
        self.ahead_s += max(0.0, timeout - (now - began))
        return []

    def _silence_s(self, now: float) -> float:
        if not self.accompanied():
            return 0.0
        if now - self._spoken_s < LATELY_S or self.ahead_s - self._strode_s >= STRIDE_S:
            self._strode_s = self.ahead_s
            return SILENT_S
        return 0.0

    def _heard(self, found: Found) -> Found:
        if found:
            self._spoken_s = time.monotonic()
        return found


class LeapingLoop(asyncio.SelectorEventLoop):
    """busy: whether somebody is at work whom time must not run away from. accompanied: whether somebody outside may
    speak unasked.
    """

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        self._leaping.busy = lambda: bool(self._at_work) or self.busy()
        self._leaping.accompanied = lambda: self.accompanied()
        self._at_work = 0
        self._wanted = 0
        self.busy: Callable[[], bool] = lambda: False
        self.accompanied: Callable[[], bool] = lambda: False
        super().__init__(self._leaping)

    def time(self) -> float:
        return super().time() + self._leaping.ahead_s

    def real_s(self) -> float:
        """Its time without the leaps."""
        return super().time()

    def wall_s(self) -> float:
        """Seconds since the Unix epoch, as far ahead as the loop's time is."""
        return time.time() + self._leaping.ahead_s

    def leap(self) -> None:
        """Time leaps until `stop_leaping` was called as often."""
        self._wanted += 1
        self._leaping.leaps = True

    def stop_leaping(self) -> None:
        self._wanted -= 1
        self._leaping.leaps = self._wanted > 0

    def stay(self, seconds: float) -> None:
        """Time does not leap for so many real seconds."""
        self._leaping.stays_until_s = max(self._leaping.stays_until_s, time.monotonic() + seconds)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        self._at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._is_done)
        return future

    def _is_done(self, _: asyncio.Future[Any]) -> None:
        self._at_work -= 1
