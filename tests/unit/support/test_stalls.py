"""What holds a loop is seen, and what only waits is not."""

from __future__ import annotations

import asyncio
import time

from mooring.base.turns import STALL_S
from tests.support.stalls import StallMeter


async def test_a_turn_that_works_for_long_is_a_stall() -> None:
    meter = StallMeter()
    meter.start()
    await asyncio.sleep(0.03)
    end = time.thread_time() + 2 * STALL_S
    while time.thread_time() < end:
        pass
    await asyncio.sleep(0.05)
    meter.stop()
    assert meter.worst_s >= 2 * STALL_S


async def test_a_loop_that_stands_still_without_work_is_none() -> None:
    meter = StallMeter()
    meter.start()
    time.sleep(2 * STALL_S)  # noqa: ASYNC251  (the machine, which has no time for us)
    await asyncio.sleep(0.05)
    meter.stop()
    assert meter.worst_s < STALL_S
