"""How time passes for a plane under test: virtually, in the test's own thread, or on a real loop in a thread beside it.

| parts                                 | time |
| --- | --- |
| a driver class, all in this process   | virtual: it stands still while anybody works, and jumps to what comes next |
| a command, a socket, clients over TLS | real; it leaps over idle moments while a method of the cluster waits |
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, Protocol, TypeVar

from mooring.base.clock import LoopClock
from mooring.base.errors import first_of
from mooring.base.leaping_loop import LeapingLoop
from mooring.base.virtual_loop import VirtualLoop

T = TypeVar("T")
U = TypeVar("U")

EPOCH_S: Final = 1_780_000_000.0
"""The wall time at which virtual time begins."""
_TICK_S: Final = 1e-6


class TellingClock(LoopClock):
    """The running loop's, whose wall time is never the same twice: names that are made from it collide otherwise.

    wall: None for virtual time.
    """

    def __init__(self, wall: Callable[[], float] | None = None) -> None:
        super().__init__(EPOCH_S)
        self._wall, self._last_s = wall, 0.0

    def wall_s(self) -> float:
        now_s = self._wall() if self._wall is not None else super().wall_s()
        self._last_s = max(now_s, self._last_s + _TICK_S)
        return self._last_s


class PlaneTime(Protocol):
    """A loop, and the way to it from a test."""

    clock: TellingClock

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the work, done on the loop. Raises what it raises."""

    def begin(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, at the start: nothing leaps over the start of other people's programs."""

    def close(self) -> None: ...


class VirtualTime:
    """In the test's thread: the loop runs while the test waits for something, and at no other time. seed: of the order
    of what is ready.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(seed))
        self.clock = TellingClock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def begin(self, work: Coroutine[Any, Any, T]) -> T:
        return self.run(work)

    def close(self) -> None:
        self._runner.close()


class RealTime:
    """In a thread of its own: programs and clients outside are answered at any time. Time leaps while `run` waits."""

    def __init__(self) -> None:
        self.loop = LeapingLoop()
        self.clock = TellingClock(self.loop.wall_s)
        self._thread = threading.Thread(target=self._live, name="mooring", daemon=True)
        self._thread.start()

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        self._stopped = asyncio.Event()
        await self._stopped.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.begin(self._leaping(work))

    def begin(self, work: Coroutine[Any, Any, T]) -> T:
        waiting = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return waiting.result()
        except BaseException:
            waiting.cancel()
            raise

    async def _leaping(self, work: Coroutine[Any, Any, T]) -> T:
        self.loop.leap()
        try:
            return await work
        finally:
            self.loop.stop_leaping()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(lambda: self._stopped.set())
        self._thread.join()


class Life(Generic[T]):
    """A context that lasts over several waits of a test, which no block spans."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._context = context
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> T:
        """Returns when it has begun. Raises what keeps it from that."""
        self._end, begun = asyncio.Event(), asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(begun), name="testing/life")
        await asyncio.wait((self._task, begun), return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            self._raise()
        found: T = begun.result()
        return found

    async def _live(self, begun: asyncio.Future[T]) -> None:
        async with self._context as found:
            begun.set_result(found)
            await self._end.wait()

    async def during(self, work: Coroutine[Any, Any, U]) -> U:
        """The result of the work. Raises the error of the context where that ends first."""
        assert self._task is not None
        doing = asyncio.create_task(work, name="testing/wait")
        try:
            await asyncio.wait((doing, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                self._raise()
            return doing.result()
        finally:
            doing.cancel()

    async def end(self) -> None:
        """Raises the error that it has ended with."""
        if self._task is not None:
            self._end.set()
            await asyncio.wait((self._task,))
            self._raise()

    def _raise(self) -> None:
        assert self._task is not None
        try:
            self._task.result()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors
