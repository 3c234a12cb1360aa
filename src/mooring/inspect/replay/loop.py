"""An event loop whose time a record says: nothing is waited for, and timers end when somebody lets them."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import selectors
from collections.abc import Callable
from typing import Any

from mooring.base.virtual_loop import LoopWithoutThreads


class _NeverWaits(selectors.SelectSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []


class ReplayLoop(LoopWithoutThreads):
    """now: its time; it never goes back."""

    _ready: Any  # asyncio's own deque of what runs next

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = itertools.count()
        super().__init__(_NeverWaits())

    def time(self) -> float:
        return self.now

    def advance(self, now: float) -> None:
        """Sets the time; no timer ends by that."""
        self.now = max(self.now, now)

    @property
    def is_busy(self) -> bool:
        """True while anything is ready."""
        return bool(self._ready)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def earliest(self, choose: Callable[[asyncio.TimerHandle], bool]) -> asyncio.TimerHandle | None:
        """The chosen timer that ends first, due or not."""
        self._timers = sorted(timer for timer in self._timers if not timer[2].cancelled())
        return next((handle for _, _, handle in self._timers if choose(handle)), None)

    def fire(self, choose: Callable[[asyncio.TimerHandle], bool], early_s: float = 0.0) -> asyncio.TimerHandle | None:
        """Ends the earliest timer that is due, or is so early_s later, and chosen; None where there is none."""
        handle = self.earliest(lambda one: one.when() <= self.now + early_s and choose(one))
        if handle is not None:
            self._timers = [timer for timer in self._timers if timer[2] is not handle]
            self._ready.append(handle)
        return handle


def is_sleep(handle: asyncio.TimerHandle) -> bool:
    """True for the timer of asyncio.sleep()."""
    return getattr(getattr(handle, "_callback", None), "__module__", "") == "asyncio.futures"


def timeout_of(handle: asyncio.TimerHandle) -> asyncio.Task[Any] | None:
    """The task whose asyncio.timeout() this timer is; None for another timer."""
    owner = getattr(getattr(handle, "_callback", None), "__self__", None)
    task: asyncio.Task[Any] | None = getattr(owner, "_task", None)
    return task if isinstance(owner, asyncio.Timeout) else None
