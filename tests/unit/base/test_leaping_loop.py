"""A clock that leaps over idle moments: it waits for those who are at work, and for a moment where somebody outside may
speak unasked.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.base.leaping_loop import LATELY_S, SILENT_S, STRIDE_S, LeapingLoop


class Waits(list[float]):
    """How long the loop was ready to wait for the outside world, each time that it was not for nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        select = selectors.DefaultSelector.select

        def watched(selector: Any, timeout: float | None = None) -> Any:
            if timeout is None or timeout > 0:
                self.append(math.inf if timeout is None else timeout)
            return select(selector, timeout)

        monkeypatch.setattr(selectors.DefaultSelector, "select", watched)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    return Waits(monkeypatch)


@pytest.fixture
def loop(waits: Waits) -> Iterator[LeapingLoop]:
    loop = LeapingLoop()
    yield loop
    loop.close()


async def ticks(count: int, seconds: float = 1.0) -> float:
    """Sleeps so often. Gives the time that has passed."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop.leap()
    began = loop.time()
    for _ in range(count):
        await asyncio.sleep(seconds)
    loop.stop_leaping()
    return loop.time() - began


def test_nobody_is_waited_for_where_nobody_is(loop: LeapingLoop, waits: Waits) -> None:
    assert loop.run_until_complete(ticks(900)) >= 900
    assert [] == waits


def test_a_connected_client_gets_a_moment_in_each_stride(loop: LeapingLoop, waits: Waits) -> None:
    loop.accompanied = lambda: True
    loop.run_until_complete(ticks(900))
    assert {SILENT_S} == set(waits)
    assert 900 / (STRIDE_S + 2) <= len(waits) <= 900 / STRIDE_S + 1


def test_a_client_that_has_spoken_lately_gets_a_moment_before_each_timer(loop: LeapingLoop, waits: Waits) -> None:
    loop.accompanied = lambda: True
    loop.call_soon_threadsafe(lambda: None)  # which comes in over a socket
    few = int(LATELY_S / SILENT_S / 4)
    loop.run_until_complete(ticks(few, 0.5))
    assert len(waits) >= few - 1


def test_time_stands_while_somebody_is_busy(loop: LeapingLoop) -> None:
    """The next timer is an hour away; the work ends by what comes in from outside."""
    ended = asyncio.Event()
    loop.busy = lambda: not ended.is_set()

    async def work() -> float:
        loop.leap()
        began = loop.time()
        timer = loop.call_later(3600, ended.set)
        threading.Timer(0.05, lambda: loop.call_soon_threadsafe(ended.set)).start()
        await ended.wait()
        timer.cancel()
        return loop.time() - began

    assert loop.run_until_complete(work()) < 3600


def test_a_thread_s_work_is_waited_for(loop: LeapingLoop) -> None:
    async def work() -> float:
        loop.leap()
        began = loop.time()
        timer = loop.call_later(100, lambda: None)
        await loop.run_in_executor(None, lambda: None)
        timer.cancel()
        return loop.time() - began

    assert loop.run_until_complete(work()) < 100


def test_time_stays_where_a_waiter_wants_it_to(loop: LeapingLoop, waits: Waits) -> None:
    async def work() -> float:
        loop.leap()
        began = loop.time()
        loop.stay(0.05)
        await asyncio.sleep(60)
        return loop.time() - began

    assert loop.run_until_complete(work()) >= 60
    assert 1 <= len(waits)
    assert sum(waits) <= 0.06
