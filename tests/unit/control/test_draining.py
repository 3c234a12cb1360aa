"""A shift: over once its last worker has ended."""

from __future__ import annotations

import asyncio

import pytest

from mooring.control.draining import Shift
from tests.support.virtual_loop import in_virtual_time


async def a_day(shift: Shift, seconds: float) -> None:
    async with shift.workers() as group:
        group.create_task(asyncio.sleep(seconds))
        group.create_task(asyncio.sleep(seconds / 2))


@in_virtual_time
async def test_over_when_the_last_has_ended():
    shift = Shift()
    assert await shift.over(1), "nobody has come to work"
    working = asyncio.create_task(a_day(shift, 10))
    await asyncio.sleep(0)
    assert not await shift.over(9)
    assert await shift.over(2)
    await working
    assert await shift.over(0)


@in_virtual_time
async def test_what_breaks_a_worker_is_not_swallowed_and_the_shift_is_not_over():
    async def broken() -> None:
        raise ValueError("a bug")

    shift = Shift()
    with pytest.raises(ExceptionGroup):
        async with shift.workers() as group:
            group.create_task(broken())
    assert not await shift.over(1)
