"""An event loop with time of its own: hours pass in milliseconds, and every run repeats exactly.

Time stands still while anything is ready, and jumps to the next timer when nothing is. A seed shuffles what is ready in
each turn of the loop, timers that fall due together included: whatever holds for all seeds does not hang on luck. When
nothing is ready and no timer is left, nothing will ever happen again: the loop raises Deadlock and names the tasks that
wait.

Tasks are numbered, and the number is their hash: task groups keep their tasks in sets, and cancel them in the order of
these.

For code on in-process ports only. Work for a thread is done at once on the loop's own thread, for no other would be
waited for; nor would be a socket of the outside world.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Deadlock(Exception):
    """Every task waits, and no timer will wake any of them."""


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting for a while, moves the clock on by it. listens: signals are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.listens = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The outside world is asked where signals are waited for, else only where nothing else can happen any more."""
        if timeout is not None:
            self.now += timeout
            return super().select(0) if self.listens else []
        if not (ready := super().select(0)):
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(asyncio.get_running_loop()))
            raise Deadlock(f"nothing is ready and no timer is set; waiting: {', '.join(waiting) or 'nobody'}")
        return ready


class _NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not depend on its address."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class LoopWithoutThreads(asyncio.SelectorEventLoop):
    """Work for a thread is done at once."""

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """The work is done before this returns."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class VirtualLoop(LoopWithoutThreads):
    """seed: None keeps asyncio's own order."""

    _ready: Any  # asyncio's own deque of handles that run in the next turn
    _scheduled: Any  # asyncio's own heap of timers

    def __init__(self, seed: int | None = None) -> None:
        self._time = _JumpingSelector()
        self._order = None if seed is None else random.Random(seed)
        super().__init__(self._time)
        self._numbers = itertools.count(1)
        self.set_task_factory(self._numbered)
        self._clock_resolution = 1e-9  # two timers nearer than this fall due together

    def time(self) -> float:
        return self._time.now

    def stand_still(self, seconds: float) -> None:
        """Behave as a process that is stopped (SIGSTOP): time goes on, nothing runs, and what was ready is still the
        next to run.
        """
        self._time.now += seconds

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._time.listens = True
        super().add_signal_handler(sig, callback, *args)

    def _numbered(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return _NumberedTask(next(self._numbers), coro, loop=loop, **options)

    def _process_events(self, event_list: Any) -> None:
        """The loop calls this once a turn, between waiting and running: the place to reorder."""
        if event_list:
            super()._process_events(event_list)  # type: ignore[misc]
        if self._order is None:
            return
        due = self._time.now + self._clock_resolution
        while self._scheduled and self._scheduled[0].when() < due:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            self._ready.append(timer)
        if len(self._ready) > 1:
            handles = list(self._ready)
            self._order.shuffle(handles)
            self._ready.clear()
            self._ready.extend(handles)


def run_virtual(main: Coroutine[Any, Any, T], seed: int | None = None) -> T:
    """Runs a coroutine to its end in virtual time, which begins at 0.0. Raises Deadlock, or what the coroutine
    raises.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner:
        return runner.run(main)
