"""Time as a port: nothing outside `base` reads a clock or sleeps on its own."""

import asyncio
import datetime
import functools
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

T = TypeVar("T")

Instant = float
"""Seconds on the monotonic clock of the running loop. Only differences mean anything."""

ITEMS_IN_TURN: Final = 1000


class Clock(Protocol):
    def now(self) -> Instant:
        """Monotonic seconds; deadlines and back-off are counted on it."""

    def wall_s(self) -> float:
        """Seconds since the Unix epoch, for what is shown to others."""

    async def sleep(self, seconds: float) -> None:
        """Returns after so many seconds of this clock, at once for zero or less."""


class LoopClock:
    """The running event loop's clock, virtual if the loop's is. epoch_s: wall time at loop time zero, for repeatable
    runs; None: real.
    """

    def __init__(self, epoch_s: float | None = None) -> None:
        self._epoch_s = epoch_s

    def now(self) -> Instant:
        return asyncio.get_running_loop().time()

    def wall_s(self) -> float:
        return time.time() if self._epoch_s is None else self._epoch_s + self.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


async def give_way() -> None:
    """Others have their turn. No clock's time passes."""
    await asyncio.sleep(0)


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """These items. Others have their turn after every ITEMS_IN_TURN of them: they may change what the items are
    about.
    """
    for number, item in enumerate(items, start=1):
        yield item
        if number % ITEMS_IN_TURN == 0:
            await give_way()


class Share:
    """The part of one turn of the loop that several tasks have together: after so many steps the others have theirs."""

    def __init__(self, steps: int) -> None:
        self._steps, self._taken = steps, 0

    @property
    def is_taken(self) -> bool:
        return self._taken >= self._steps

    def take(self) -> None:
        """One step."""
        self._taken += 1
        if self._taken == self._steps:
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        self._taken = 0


class SharedClock(LoopClock):
    """The same, of the loop that it is made in, and for other threads, too."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()

    def now(self) -> Instant:
        return self._loop.time()


_ENDS: Final[ContextVar[float | None]] = ContextVar("mooring.deadline", default=None)


@contextmanager
def ending_in(seconds: float | None) -> Iterator[None]:
    """While the block runs, the call ends that soon; None for a call without a deadline."""
    token = _ENDS.set(None if seconds is None else asyncio.get_running_loop().time() + seconds)
    try:
        yield
    finally:
        _ENDS.reset(token)


def time_left_s() -> float | None:
    """Seconds until the caller gives up, 0 at the least; None where it waits without end. Ask on the event loop."""
    ends = _ENDS.get()
    return None if ends is None else max(0.0, ends - asyncio.get_running_loop().time())


def processor_s() -> float:
    """The processor time that this thread has used. Only differences mean anything."""
    return time.thread_time()


def rfc3339(wall_s: float) -> str:
    """Whole seconds, as Kubernetes' Time: `2024-01-02T03:04:05Z`."""
    return _second(math.floor(wall_s))


@functools.lru_cache(maxsize=16)
def _second(wall_s: int) -> str:
    return datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(wall_s: float) -> str:
    """Six decimals, as Kubernetes' MicroTime: `2024-01-02T03:04:05.000000Z`."""
    return datetime.datetime.fromtimestamp(wall_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch. Raises ValueError for anything that is not RFC 3339 with a zone."""
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"time {text!r} has no zone")
    return moment.timestamp()


def seconds_of(text: str | None) -> float:
    """Seconds since the epoch, 0.0 for no time, or a text that is none."""
    try:
        return parse_rfc3339(text) if text else 0.0
    except ValueError:
        return 0.0
