"""The loop that unit tests and the simulation stand on."""

import asyncio

import pytest

from tests.support.virtual_loop import Deadlock, in_virtual_time, run_virtual


async def _arrivals(count: int) -> list[int]:
    order: list[int] = []

    async def arrive(number: int) -> None:
        await asyncio.sleep(1)
        order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(arrive(number))
    return order


def test_time_jumps_to_the_next_timer():
    async def wait_a_day() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(86_400 * 2.5)
        return loop.time() - began

    assert run_virtual(wait_a_day()) == pytest.approx(216_000)


def test_time_stands_still_while_something_is_ready():
    async def spin() -> float:
        for _ in range(100):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run_virtual(spin()) == 0.0


def test_a_timeout_falls_due_in_virtual_time():
    async def hang() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(hang()) == pytest.approx(30)


def test_without_a_seed_every_run_is_the_same():
    assert run_virtual(_arrivals(10)) == run_virtual(_arrivals(10))


def test_a_seed_shuffles_and_repeats():
    orders = [run_virtual(_arrivals(10), seed) for seed in range(20)]
    assert [run_virtual(_arrivals(10), seed) for seed in range(20)] == orders
    assert len({tuple(order) for order in orders}) > 10


def test_a_group_cancels_its_tasks_in_the_same_order_every_time():
    """Groups keep tasks in a set, whose order would else be that of addresses in memory."""
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def cancel() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(wait(number))
            await asyncio.sleep(1)
            raise ValueError

    with pytest.raises(ExceptionGroup):
        run_virtual(cancel())
    assert list(range(50)) == ended


def test_a_deadlock_is_raised_and_names_who_waits():
    async def wait_for_nobody() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait(), name="the/forgotten")

    with pytest.raises(Deadlock, match="the/forgotten"):
        run_virtual(wait_for_nobody())


@in_virtual_time
async def test_a_decorated_test_runs_in_virtual_time():
    assert asyncio.get_running_loop().time() == 0.0
    await asyncio.sleep(3600)
