"""Time in which this process ran, as conform counts it, on a clock that goes on meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.conform.running_time import running_time
from tests.support.virtual_loop import in_virtual_time


class Starved(LoopClock):
    """A real clock that is so much ahead: what passed while nobody let this process run."""

    def __init__(self) -> None:
        super().__init__()
        self.held_s = 0.0

    def now(self) -> float:
        return super().now() + self.held_s


@in_virtual_time
async def test_it_goes_as_the_clock_does() -> None:
    clock = LoopClock()
    async with running_time(clock) as ran:
        began_s, ran_s = clock.now(), ran.now()
        await ran.sleep(10.0)
        assert 10.0 == pytest.approx(clock.now() - began_s, abs=0.2)
        assert 10.0 == pytest.approx(ran.now() - ran_s, abs=0.2)


@in_virtual_time
async def test_it_leaves_out_what_this_process_did_not_run() -> None:
    clock = Starved()
    async with running_time(clock) as ran:
        await clock.sleep(1.0)
        ran_s = ran.now()
        clock.held_s += 30.0
        await clock.sleep(1.0)
        assert 1.0 == pytest.approx(ran.now() - ran_s, abs=0.2)


@in_virtual_time
async def test_a_pause_lasts_until_this_process_ran_so_long() -> None:
    clock = Starved()
    async with running_time(clock) as ran, asyncio.TaskGroup() as group:
        pausing = group.create_task(ran.sleep(2.0), name="pause")
        for _ in range(10):
            await clock.sleep(0.05)
            clock.held_s += 5.0
        assert not pausing.done()
        began_s = ran.now()
        await pausing
        assert 1.0 < ran.now() - began_s < 2.0


@in_virtual_time
async def test_an_error_of_the_block_is_its_own() -> None:
    with pytest.raises(ConfigError):
        async with running_time(LoopClock()):
            raise ConfigError("no driver")
