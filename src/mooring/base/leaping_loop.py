"""An event loop for real sockets and processes whose clock can leap: while it leaps, it does not wait where nobody is at work.

Without a leap it is asyncio's own loop. While one is wanted, time jumps to the next timer once the outside world has been silent for a
moment, and nobody counts as busy: not the work that was given to threads, and not what `busy` says. Signals, sockets and threads end a wait
as ever. Time is never set back.
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
BUSY_S: Final = 0.02
"""How often is asked whether somebody is still busy."""


class _LeapingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self.leaps = False
        self.busy: Callable[[], bool] = lambda: False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self.leaps or timeout is None or timeout <= 0:
            return super().select(timeout)
        began = time.monotonic()
        found = super().select(min(timeout, SILENT_S))
        if found or self.busy():
            return found or super().select(min(timeout, BUSY_S))
        self.ahead_s += max(0.0, timeout - (time.monotonic() - began))
        return []


class LeapingLoop(asyncio.SelectorEventLoop):
    """busy: whether somebody is at work whom time must not run away from."""

    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        self._leaping.busy = lambda: bool(self._at_work) or self.busy()
        self._at_work = 0
        self._wanted = 0
        self.busy: Callable[[], bool] = lambda: False
        super().__init__(self._leaping)

    def time(self) -> float:
        return super().time() + self._leaping.ahead_s

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

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        self._at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._is_done)
        return future

    def _is_done(self, _: asyncio.Future[Any]) -> None:
        self._at_work -= 1
