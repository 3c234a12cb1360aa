"""A group of workers is drained once its last one has ended."""

from __future__ import annotations

import asyncio

import pytest

from mooring.control.queue import WorkerGroup
from tests.support.virtual_loop import in_virtual_time


async def working_in(workers: WorkerGroup, seconds: float) -> None:
    async with workers.workers() as group:
        group.create_task(asyncio.sleep(seconds))
        group.create_task(asyncio.sleep(seconds / 2))


@in_virtual_time
async def test_drained_when_the_last_has_ended():
    workers = WorkerGroup()
    assert await workers.drained(1), "nobody has come to work"
    working = asyncio.create_task(working_in(workers, 10))
    await asyncio.sleep(0)
    assert not await workers.drained(9)
    assert await workers.drained(2)
    await working
    assert await workers.drained(0)


@in_virtual_time
async def test_what_breaks_a_worker_is_not_swallowed_and_the_group_is_not_drained():
    async def broken() -> None:
        raise ValueError("a bug")

    workers = WorkerGroup()

    async def life() -> None:
        async with workers.workers() as group:
            group.create_task(broken())

    with pytest.raises(ExceptionGroup):
        await asyncio.create_task(life())  # Python 3.11.2 leaves its task cancelled
    assert not await workers.drained(1)
