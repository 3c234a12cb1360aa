"""A driver that hangs holds up its own volumes, and nobody else: not with however many of them, nor in whichever
call.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.base.clock import Clock
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.node.volumes.steps.run import StepTasks
from mooring.node.volumes.steps.threads import WAIT_S, DaemonPool, Threads
from mooring.wire.grpc.codes import Code
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import PUBLISH, STAGE, STATS, UNPUBLISH, UNSTAGE, NodeDriver
from tests.support.rows import each_row
from tests.support.scripted_driver import Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.test_stats_life import ABLE, BYTES, StatsWorld
from tests.unit.node.volume_world import Bound, RegisteredDriver, VolumesWorld, world

MANY = 260
FOR_EVER = Wait(100_000.0)


async def pods_of_many(world: VolumesWorld) -> list[dict[str, Any]]:
    volumes = [await world.volume(f"h{number}", attached=False) for number in range(MANY)]
    return [await world.pod(*volumes[first : first + 65]) for first in range(0, MANY, 65)]


@pytest.mark.slow
@each_row("method", [STAGE, UNPUBLISH], fresh=[world])
@in_virtual_time
async def test_volumes_of_a_driver_that_hangs_hold_up_no_other_driver_s(world: VolumesWorld, method: str) -> None:
    await world.no_attach()
    world.driver.always(method, FOR_EVER)
    other = NodeDriver(world.mounts, "d2", story=world.story)
    async with world.agent():
        await world.register(other)
        pods = await pods_of_many(world)
        await world.settle(5.0)
        if method == UNPUBLISH:
            for pod in pods:
                await world.delete_pod(pod)
            await world.settle(5.0)
        assert MANY == len(world.driver.made(method))
        fine, began = await world.volume("fine", driver="d2"), asyncio.get_running_loop().time()
        pod = await world.running_pod(fine)
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until(lambda: _has_left(other), what="unstaged")
        assert asyncio.get_running_loop().time() - began < 5.0


async def _has_left(driver: NodeDriver) -> bool:
    return bool(driver.made(UNSTAGE))


@in_virtual_time
async def test_a_driver_that_hangs_in_statistics_holds_up_no_other_driver_s(world: VolumesWorld) -> None:
    world.driver.able = ABLE
    other = NodeDriver(world.mounts, "d2", ABLE, world.story)
    other.usage = type(other.usage)(usage=[BYTES])
    async with world.agent():
        await world.register(other)
        await world.running_pod(*[await world.volume(f"h{number}") for number in range(3)])
        await world.running_pod(await world.volume("fine", driver="d2"))
        world.driver.always(STATS, FOR_EVER)
        async with world.running(StatsWorld(world).stats.run()):
            await world.settle(1200.0)
            asked = [call.started_s for call in world.driver.made(STATS)]
            assert len(other.made(STATS)) >= 10
            assert all(later - earlier >= 119.0 for earlier, later in itertools.pairwise(asked)), "one call at a time"


async def two_pods(world: VolumesWorld, *, is_block: bool) -> tuple[Bound, dict[str, Any], dict[str, Any]]:
    volume = await world.volume(modes=("ReadWriteMany",), mode="Block" if is_block else "Filesystem")
    return volume, await world.running_pod(volume, devices=is_block), await world.running_pod(volume, devices=is_block)


@each_row("is_block", [False, True], ids=["file-system", "device"], fresh=[world, tools])
@in_virtual_time
async def test_a_pod_s_unpublish_that_hangs_holds_up_no_other_pod_s_end(
    world: VolumesWorld, tools: FakeTools, is_block: bool
) -> None:
    """Only what concerns the volume as a whole waits: a publish, and the unstage."""
    async with world.agent():
        volume, first, second = await two_pods(world, is_block=is_block)
        world.driver.always(
            UNPUBLISH, lambda request: Wait(60.0) if first["metadata"]["uid"] in request.target_path else None
        )
        for pod in (first, second):
            await world.delete_pod(pod)
            await world.settle(1.0)
        third = await world.pod(volume, devices=is_block)
        await world.settle(10.0)
        assert (None, True) == (
            await world.find(PODS, second["metadata"]["name"]),
            await world.find(PODS, first["metadata"]["name"]) is not None,
        )
        assert 2 == len(world.driver.made(PUBLISH))
        await world.gone(PODS, first["metadata"]["name"])
        await world.shown(PODS, third["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
        assert ([STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH, PUBLISH], 1) == (
            world.driver.calls_for_volumes(),
            len(world.driver.overlaps),
        )


@each_row("is_block", [False, True], ids=["file-system", "device"], fresh=[world, tools])
@in_virtual_time
async def test_a_disk_that_hangs_for_one_pod_holds_up_no_other_pod_s_end(
    world: VolumesWorld, tools: FakeTools, monkeypatch: pytest.MonkeyPatch, is_block: bool
) -> None:
    """Its thread is left to itself, and what comes next in that pod's folder waits for it."""
    loop = asyncio.get_running_loop()
    do = loop.run_in_executor

    def hangs_in(uid: str) -> Any:
        return lambda pool, work, *args: loop.create_future() if uid in str(args) else do(pool, work, *args)

    async with world.agent():
        _, first, second = await two_pods(world, is_block=is_block)
        monkeypatch.setattr(loop, "run_in_executor", hangs_in(first["metadata"]["uid"]))
        await world.delete_pod(first)
        await world.settle(2 * WAIT_S)
        await world.delete_pod(second)
        await world.gone(PODS, second["metadata"]["name"], wait_s=2 * WAIT_S)
        assert await world.find(PODS, first["metadata"]["name"]) is not None
        monkeypatch.setattr(loop, "run_in_executor", do)


@in_virtual_time
async def test_steps_under_way_end_before_the_agent_does_and_no_new_one_begins() -> None:
    ended: list[str] = []

    async def step() -> None:
        await asyncio.sleep(10.0)
        ended.append("step")

    steps = StepTasks(ended.append)
    assert not steps.is_open
    async with asyncio.TaskGroup() as group:
        group.create_task(steps.run(), name="test/steps")
        await asyncio.sleep(1.0)
        steps.begin("v", "stage", step)
        await asyncio.sleep(1.0)
        assert not await steps.drain(1.0)
        assert not steps.is_open
        assert await steps.drain(10.0)
    assert ["step"] == ended


@in_virtual_time
async def test_a_step_that_fails_unexpectedly_ends_no_other(caplog: pytest.LogCaptureFixture) -> None:
    failed, ended = list[str](), list[str]()

    async def wrong() -> None:
        raise ZeroDivisionError("oh")

    async def right() -> None:
        await asyncio.sleep(1.0)
        ended.append("right")

    steps = StepTasks(failed.append)
    async with asyncio.TaskGroup() as group:
        group.create_task(steps.run(), name="test/steps")
        await asyncio.sleep(1.0)
        steps.begin("v", "stage", wrong)
        steps.begin("w", "stage", right)
        await steps.drain(10.0)
    assert (["v"], ["right"]) == (failed, ended)
    assert "ZeroDivisionError" in caplog.text


@in_virtual_time
async def test_a_step_that_fails_unexpectedly_is_tried_again(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, failures = Threads.run, [ZeroDivisionError("oh")]

    async def fails_once(self: Threads, *args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return await run(self, *args, **options)

    monkeypatch.setattr(Threads, "run", fails_once)
    async with world.agent():
        await world.running_pod(await world.volume())
    assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()


class DiesAt(RegisteredDriver):
    """The connection with a driver that dies when it is to stage one volume, and is back after 2 s. To stage another
    one takes it 3 s.
    """

    def __init__(self, driver: NodeDriver, handle: str, clock: Clock) -> None:
        super().__init__(driver, clock=clock)
        self._handle, self._up, self._down = handle, asyncio.Event(), asyncio.Event()
        self._up.set()
        self.deaths = 0

    async def lost(self) -> None:
        await self._down.wait()

    async def reconnected(self) -> None:
        await self._up.wait()

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if not self._up.is_set():
            raise DriverError(Code.UNAVAILABLE, "nobody listens", unsent=True)
        if rpc.name == STAGE:
            if getattr(request, "volume_id", "") == self._handle:
                self.deaths += 1
                self.go_away()
                asyncio.get_running_loop().call_later(2.0, self.come_back)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._down.wait(), 3.0)
                raise DriverError(Code.UNAVAILABLE, "connection lost")
        return await super()._send(rpc, request, call)

    def go_away(self) -> None:
        self._up.clear()
        self._down.set()

    def come_back(self) -> None:
        self._down.clear()
        self._up.set()


@in_virtual_time
async def test_a_volume_at_which_its_driver_dies_starves_no_other(world: VolumesWorld) -> None:
    async with world.agent(is_registered=False):
        client = DiesAt(world.driver, "handle-deadly", world.clock)
        await world.register(client=client)
        await world.pod(await world.volume("deadly"))
        for name in ("one", "two"):
            await world.pod(await world.volume(name))
        await world.settle(600.0)
    assert {"handle-one", "handle-two"} == {call.request.volume_id for call in world.driver.made(STAGE)}
    assert 8 <= client.deaths <= 15, "0.4 to 122 s apart, about"


@in_virtual_time
async def test_a_driver_that_was_away_is_asked_at_once_when_it_is_back(world: VolumesWorld) -> None:
    async with world.agent(is_registered=False):
        client = DiesAt(world.driver, "", world.clock)
        await world.register(client=client)
        client.go_away()
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "nobody listens")
        await world.settle(300.0)
        client.come_back()
        await world.settle(4.0)
        assert [PUBLISH] == [call.method for call in world.driver.made(STAGE, PUBLISH)][-1:]


def test_a_driver_gets_its_threads_once_the_system_has_some_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = DaemonPool(4, "node/d1")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more_threads)
        for _ in range(5):
            with pytest.raises(RuntimeError, match="new thread"):
                pool.submit(len, "")
    assert 3 == pool.submit(len, "abc").result(10)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_more_threads)
        assert 2 == pool.submit(len, "ab").result(10), "by the one that there is"
    pool.shutdown()


def no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
