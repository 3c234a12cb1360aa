"""A loop whose time can be sped up."""

from __future__ import annotations

import asyncio
import time

import pytest

from mooring.base.clock import LoopClock
from mooring.dev.pace import PacedLoop
from tests.support.rows import each_row


async def _sleeps(speed: float, seconds: float) -> tuple[float, float]:
    """How long a sleep took, by the loop's time and by ours."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PacedLoop)
    loop.set_speed(speed)
    began, real = loop.time(), time.monotonic()
    await asyncio.sleep(seconds)
    return loop.time() - began, time.monotonic() - real


@each_row(("speed", "seconds"), [(1, 0.05), (100, 5.0)])
def test_a_sleep_takes_its_time_on_the_loop_and_less_of_ours(speed: float, seconds: float) -> None:
    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        own, real = runner.run(_sleeps(speed, seconds))
    assert own >= seconds
    assert own == pytest.approx(real * speed, rel=0.05, abs=0.02 * speed)


async def _changes() -> list[float]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PacedLoop)
    times = [loop.time()]
    for speed in (60, 1, 10):
        loop.set_speed(speed)
        times.append(loop.time())
    return times


def test_a_change_of_speed_makes_time_neither_jump_nor_go_back() -> None:
    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        times = runner.run(_changes())
    assert times == sorted(times)
    assert times[-1] - times[0] < 60


async def _soon() -> float:
    """A timer that was set before the change goes off by the new speed."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, PacedLoop)
    real, done = time.monotonic(), asyncio.Event()
    loop.call_later(30.0, done.set)
    loop.set_speed(1000)
    await done.wait()
    return time.monotonic() - real


def test_timers_that_were_set_before_go_along() -> None:
    with asyncio.Runner(loop_factory=PacedLoop) as runner:
        assert runner.run(_soon()) < 10


async def test_a_clock_with_an_epoch_goes_with_the_loop() -> None:
    clock = LoopClock(1000.0)
    assert clock.wall_s() == pytest.approx(1000.0 + clock.now(), abs=0.1)
