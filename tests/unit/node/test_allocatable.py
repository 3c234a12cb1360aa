"""The count of volumes that a node can hold, asked anew at the pace of the CSIDriver. In virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES
from mooring.api.storage import CSI_DRIVERS, CSI_NODES
from mooring.control.caches import Caches
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime
from mooring.csi.in_process import InProcessDriver
from mooring.csi.wire_driver import WireDriver
from mooring.node.csinode.allocatable import Allocatable
from mooring.node.csinode.reconcile import NodeObjects
from mooring.node.drivers import Drivers, RegisteredDriver
from mooring.node.plugins.controller import told_by
from tests.support.builders import a_csi_driver, a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.plugin_world import NodePlugin

PERIOD = "nodeAllocatableUpdatePeriodSeconds"


class DialledDriver(InProcessDriver):
    """With the end that a connection has."""

    async def close(self) -> None:
        pass

    async def close_after_calls(self) -> None:
        await self.close()


class AllocatableWorld(ClusterWorld):
    def __init__(self) -> None:
        super().__init__()
        runtime = Runtime(self.cluster, self.clock, self.randomness, self.metrics)
        caches = Caches(runtime, "test")
        self.plugin, self.drivers = NodePlugin("d1", limit=5), Drivers()
        self.objects = NodeObjects(self.cluster, "n", clock=self.clock)
        self.allocatable = Allocatable(runtime, caches, self.drivers, self.objects, told_by)
        self.manager = Manager(caches, self.allocatable.controller)

    async def register(self, plugin: NodePlugin | None = None) -> None:
        plugin = plugin or self.plugin
        client = cast(WireDriver, DialledDriver(plugin, clock=self.clock))
        await self.drivers.put(RegisteredDriver(plugin.name, Path("/s"), "/e", (1, 0, 0), client))
        await self.objects.enter(told_by(plugin.name, await plugin.node_get_info(None)))

    async def count(self) -> int:
        (driver,) = (await self.get(CSI_NODES, "n"))["spec"]["drivers"]
        return int(driver["allocatable"]["count"])


@asynccontextmanager
async def registered(period_s: int | None) -> AsyncIterator[AllocatableWorld]:
    world = AllocatableWorld()
    spec: dict[str, Any] = {} if period_s is None else {PERIOD: period_s}
    await world.create(a_node("n"), a_csi_driver("d1", **spec))
    async with world.running(world.manager.run()):
        await world.settle()
        await world.register()
        world.story.clear()
        world.plugin.limit, world.plugin.asked = 7, 0
        yield world
    await world.drivers.close()


@in_virtual_time
async def test_ALC1_a_changed_limit_is_written_after_the_period() -> None:
    async with registered(10) as world:
        await world.settle(9.0)
        assert (5, 0) == (await world.count(), world.plugin.asked)
        await world.settle(2.0)
        assert (7, 1) == (await world.count(), world.plugin.asked)
        await world.settle(100.0)
        assert (11, ["patch csinodes"]) == (
            world.plugin.asked,
            [step for step in world.story if step.startswith("patch")],
        )


@in_virtual_time
@each_row("stop", ["field", "object", "driver"])
async def test_ALC2_it_is_not_asked_any_more(stop: str) -> None:
    async with registered(10) as world:
        match stop:
            case "field":
                await world.patch(CSI_DRIVERS, "d1", {"spec": {PERIOD: None}})
            case "object":
                await world.delete(CSI_DRIVERS, "d1")
            case _:
                await world.drivers.remove("d1")
        await world.settle(100.0)
        assert (0, 5) == (world.plugin.asked, await world.count())


@in_virtual_time
async def test_ALC2_without_a_period_it_is_never_asked() -> None:
    async with registered(None) as world:
        await world.settle(1000.0)
        assert 0 == world.plugin.asked


@each_row(("node_id", "segments"), [("", {"k": "v"}), ("other", {"k": "v"}), ("id-d1", {"zone": "z"})])
@in_virtual_time
async def test_an_answer_about_another_node_changes_nothing_and_is_told(
    caplog: pytest.LogCaptureFixture, node_id: str, segments: dict[str, str]
) -> None:
    """Only a registration changes what the driver's entries in Node and CSINode say."""
    async with registered(10) as world:
        before = await world.get(CSI_NODES, "n"), await world.get(NODES, "n")
        world.plugin.node_id, world.plugin.segments = node_id, segments
        await world.settle(30.0)
        assert before == (await world.get(CSI_NODES, "n"), await world.get(NODES, "n"))
        assert ("gave no node id" if not node_id else "restart its registrar") in caplog.text
        world.plugin.node_id, world.plugin.segments = "id-d1", {"k": "v"}
        await world.settle(150.0)
        assert 7 == await world.count()


@in_virtual_time
async def test_drivers_that_hang_hold_up_no_other_s_count() -> None:
    async with registered(10) as world:
        for number in range(20):
            plugin = NodePlugin(f"hangs{number}")
            await world.create(a_csi_driver(plugin.name, **{PERIOD: 10}))
            await world.register(plugin)
            plugin.hangs_s = 1000.0
            world.allocatable.refresh_now(plugin.name)
        world.plugin.limit = 8
        await world.settle(15.0)
        assert {8} == {
            driver["allocatable"]["count"]
            for driver in (await world.get(CSI_NODES, "n"))["spec"]["drivers"]
            if driver["name"] == "d1"
        }


@in_virtual_time
async def test_a_wrong_count_is_refreshed_at_once() -> None:
    async with registered(600) as world:
        world.allocatable.refresh_now("d1")
        await world.settle(1.0)
        assert 7 == await world.count()
