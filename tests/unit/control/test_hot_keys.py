"""Keys that go round are held back, whatever the room returns; those that go on, or come later, are never late."""

from __future__ import annotations

import asyncio
import io
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.base import log
from mooring.base.clock import LoopClock, rfc3339
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.controller import Controller
from mooring.control.decision import Deciding, Decision
from mooring.control.hot_keys import FORGOTTEN_S, HELD, HotKeys
from mooring.control.object_writer import FENCED
from mooring.control.reasons import reason
from mooring.control.result import Result, Retry
from mooring.control.runtime import Runtime
from mooring.csi.driver import Call
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Patch, PatchType
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.kube.fake_cluster import FakeCluster

pytestmark = in_virtual_time
PLACE = (NODES.plural, "", "n1")
STEPS_MAX = 1000


@reason("as ever")
class AsEver: ...


class Plugin:
    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()


class World:
    """One controller on one Node. A step does something, and says how the key comes again."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.put(NODES, "n1")
        self.runtime = Runtime(self.cluster, LoopClock(0.0), Random(1), Metrics())
        self.driver = InProcessDriver(Plugin(), clock=self.runtime.clock)
        self.numbers = itertools.count()
        self.controller: Controller[str] | None = None
        self.times: list[float] = []

    async def label(self, value: str) -> None:
        await self.patch({"labels": {"a": value}})

    async def patch(self, metadata: dict[str, Any]) -> None:
        body = {"metadata": {**metadata, "resourceVersion": self.version}}
        await self.cluster.patch(NODES, "n1", Patch(PatchType.MERGE, body))

    @property
    def version(self) -> str:
        version: str = self.cluster.objects[PLACE]["metadata"]["resourceVersion"]
        return version

    async def does_nothing(self) -> None: ...

    async def writes_the_same(self) -> None:
        await self.label("one")

    async def writes_the_time(self) -> None:
        await self.patch({"annotations": {"at": rfc3339(self.runtime.clock.wall_s())}})

    async def fences_and_calls(self) -> None:
        await self.patch({"annotations": {FENCED: self.version}})
        await self.calls_the_driver()

    async def writes_in_turns(self) -> None:
        await self.label(str(next(self.numbers) % 3))

    async def writes_another_each_time(self) -> None:
        await self.label(str(next(self.numbers)))

    async def calls_the_driver(self) -> None:
        await self.driver.delete_volume(csi.DeleteVolumeRequest(volume_id="v"), Call(1.0))

    async def calls_in_a_task(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.calls_the_driver())

    async def calls_about_another_each_time(self) -> None:
        await self.driver.delete_volume(csi.DeleteVolumeRequest(volume_id=str(next(self.numbers))), Call(1.0))

    async def lives(
        self, does: Callable[[World], Awaitable[None]], comes: str, seconds: float, *, decides: bool
    ) -> int:
        """The number of steps within so many seconds."""

        async def step(key: str) -> Result:
            self.times.append(self.runtime.clock.now())
            await does(self)
            if len(self.times) == STEPS_MAX:  # at full speed time would never pass
                return Result(AsEver())
            assert self.controller is not None
            if comes in ("woken", "failing", "buggy"):
                self.controller.add(key)
            if comes == "told":
                self.controller.tell("news")
                return Result(AsEver(), waits_for=frozenset({"news"}))
            if comes == "failing":
                raise Retry("no")
            if comes == "buggy":
                raise KeyError("no")
            return Result(AsEver(), again=comes == "again", after_s=float(comes) if comes[0].isdigit() else None)

        async def perform(key: str, decision: Decision[str]) -> Result:
            return await step(key)

        how = Deciding(lambda key: Decision(AsEver(), ("act",)), perform) if decides else step
        self.controller = Controller(self.runtime, "test", how, workers=2)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.controller.run())
            self.controller.add("n1")
            await asyncio.sleep(seconds)
            task.cancel()
        return len(self.times)


@each_row("decides", [True, False])
@each_row("comes", ["again", "woken", "failing", "buggy", "told", "0.001"])
@each_row(
    "does",
    [
        World.writes_the_same,
        World.writes_the_time,
        World.writes_in_turns,
        World.fences_and_calls,
        World.calls_the_driver,
        World.calls_in_a_task,
    ],
)
async def test_who_goes_round_is_held_back_whatever_it_returns(
    does: Callable[[World], Awaitable[None]], comes: str, decides: bool
) -> None:
    world = World()
    assert 60 > await world.lives(does, comes, 300.0, decides=decides)
    assert HELD.cap_s == pytest.approx(world.times[-1] - world.times[-2], abs=0.1)


@each_row("comes", ["again", "failing", "buggy", "told", "0.001"])
async def test_who_does_nothing_and_comes_at_once_is_held_back(comes: str) -> None:
    assert 60 > await World().lives(World.does_nothing, comes, 300.0, decides=True)


@each_row(
    ("does", "comes", "steps"),
    [
        (World.writes_another_each_time, "woken", STEPS_MAX),
        (World.calls_about_another_each_time, "again", STEPS_MAX),
        (World.writes_the_same, "5", 20),
        (World.calls_the_driver, "0.5", 200),
        (World.does_nothing, "0.5", 200),
    ],
)
async def test_who_goes_on_or_comes_by_itself_is_never_late(
    does: Callable[[World], Awaitable[None]], comes: str, steps: int
) -> None:
    assert steps == await World().lives(does, comes, 99.9, decides=True)


@each_row(
    ("does", "logged"),
    [(World.does_nothing, False), (World.writes_the_same, True), (World.calls_the_driver, True)],
)
async def test_done_is_said_of_what_was_written_or_called_alone(
    does: Callable[[World], Awaitable[None]], logged: bool
) -> None:
    world, lines = World(), io.StringIO()

    async def reconcile(key: str) -> Result:
        await does(world)
        return Result(AsEver(), done="labelled the node")

    controller: Controller[str] = Controller(world.runtime, "test", reconcile, workers=1)
    log.configure(stream=lines, verbosity=2)
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(controller.run())
            controller.add("n1")
            await asyncio.sleep(1)
            task.cancel()
    finally:
        log.configure()
    assert logged is ("labelled the node" in lines.getvalue())


async def test_it_is_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    steps = await world.lives(World.writes_the_same, "woken", 100.0, decides=True)
    held = world.runtime.metrics.registry.get_sample_value("mooring_workqueue_held_total", {"name": "test"})
    assert steps - 2 == held, "the first two are not held"
    assert 1 == sum("again and again" in message for message in caplog.messages)


async def test_a_key_that_is_at_rest_in_between_does_not_go_round() -> None:
    """As a room whose work another undoes: upstream's would do it again at once, too."""
    keys: HotKeys[str] = HotKeys(LoopClock())
    for _ in range(10):
        assert 0 == keys.ended("k", 0.0, ("same",))
        assert 0 == keys.ended("k", 0.0, ())


async def test_what_is_held_is_forgotten_with_its_object_and_with_time() -> None:
    clock = LoopClock()
    keys: HotKeys[str] = HotKeys(clock)
    for _ in range(3):
        keys.ended("k", clock.now(), ("same",))
    assert keys.left_s("k") > 0
    keys.forget("k")
    assert 0 == keys.left_s("k")
    for number in range(1000):
        keys.ended(str(number), clock.now(), ("same",))
    await asyncio.sleep(FORGOTTEN_S + 1)
    keys.ended("k", clock.now(), ("same",))
    assert 1 == len(keys._rounds)
