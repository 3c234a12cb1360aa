"""Item A6 of issue 27: an entry of CSINode that nobody registers leaves after a grace period, also one from before the
agent's start.

One that a registered driver has lost is made again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from mooring.api.core import NODES
from mooring.api.storage import CSI_NODES
from mooring.csi.wire_driver import WireDriver
from mooring.kube.errors import ServerError
from mooring.node.agent import AgentSockets, NodeAgent
from mooring.node.csinode.decide import NODE_IDS
from mooring.node.csinode.entries import (
    GRACE_S,
    LOOK_S,
    SETTLED_S,
    EnterAgain,
    Entries,
    TakeOff,
    decide_entries,
    missing_since,
)
from mooring.node.csinode.reconcile import NodeObjects, WriteRefused
from mooring.node.drivers import DriverOnNode, Drivers, RegisteredDriver
from mooring.node.options import AgentOptions
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.plugin_world import NodePlugin, NoSockets
from tests.unit.node.test_plugins_at_once import Connection


class EntriesWorld(ClusterWorld):
    """coming: drivers that are being registered."""

    def __init__(self) -> None:
        super().__init__()
        self.objects, self.drivers, self.coming = (
            NodeObjects(self.cluster, "n", clock=self.clock),
            Drivers(),
            set[str](),
        )
        self.entries = Entries(self.runtime, "n", self.drivers, self.objects, self._is_there, self.enter, GRACE_S)

    def _is_there(self, name: str) -> bool:
        return name in self.coming or self.drivers.find(name) is not None

    async def enter(self, name: str) -> None:
        await self.objects.enter(DriverOnNode(name, f"id-{name}", 0, {"k": "v"}))

    async def register(self, name: str) -> None:
        await self.enter(name)
        await self.put(name)

    async def put(self, name: str) -> None:
        client = cast(WireDriver, Connection(NodePlugin(name), clock=self.clock))
        await self.drivers.put(RegisteredDriver(name, Path("/s"), "/e", (1, 0, 0), client))

    async def names(self) -> tuple[list[str], list[str]]:
        """Those of CSINode, and of the Node's annotation."""
        ids = (await self.get(NODES, "n"))["metadata"].get("annotations", {}).get(NODE_IDS, "{}")
        return [driver["name"] for driver in (await self.get(CSI_NODES, "n"))["spec"].get("drivers") or []], sorted(
            json.loads(ids)
        )


@asynccontextmanager
async def a_node_with(*entered: str, starts: bool = True) -> AsyncIterator[EntriesWorld]:
    world = EntriesWorld()
    await world.create(a_node("n"))
    for name in entered:
        await world.enter(name)
    async with world.running(world.entries.controller.run()):
        if starts:
            world.entries.start()
        yield world
    await world.drivers.close()


@in_virtual_time
async def test_CSN14_an_entry_from_before_the_start_leaves_once_its_grace_period_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_node_with("d1", "gone") as world:
        await world.settle(5.0)
        await world.register("d1")
        await world.settle(GRACE_S - 10.0)
        assert ["d1", "gone"] == (await world.names())[0]
        await world.settle(6.0)
        assert (["d1"], ["d1"]) == await world.names()
        assert "Nobody registers this driver any more" in caplog.text
        assert 1 == len(world.cluster.writes("patch csinodes")) - 2


@in_virtual_time
async def test_nothing_is_missing_before_sockets_are_looked_for() -> None:
    async with a_node_with("d1", starts=False) as world:
        await world.settle(10 * GRACE_S)
        assert ["d1"] == (await world.names())[0]
        world.entries.start()
        await world.settle(GRACE_S - 5.0)
        assert ["d1"] == (await world.names())[0]


@in_virtual_time
async def test_a_driver_that_is_being_registered_stays() -> None:
    """Its NodeGetInfo may take longer than the grace period."""
    async with a_node_with("d1") as world:
        world.coming.add("d1")
        await world.settle(GRACE_S + LOOK_S)
        assert ["d1"] == (await world.names())[0]


@in_virtual_time
async def test_each_absence_has_a_whole_grace_period() -> None:
    """Also after a registration during which no look at the CSINode succeeded."""
    async with a_node_with("d1") as world:
        for _ in range(3):
            await world.settle(GRACE_S - 5.0)
            world.cluster.refuse("get csinodes", error=ServerError("busy"))
            await world.put("d1")
            await world.settle(0.01)
            await world.drivers.remove("d1")
        assert ["d1"] == (await world.names())[0]


@in_virtual_time
async def test_an_entry_that_comes_by_another_hand_is_seen_and_a_refused_write_is_tried_again() -> None:
    async with a_node_with("d1") as world:
        await world.register("d1")
        await world.settle(1.0)
        await world.enter("d2")
        world.cluster.refuse("patch csinodes", times=5, error=ServerError("busy"))
        await world.settle(LOOK_S + GRACE_S + 60.0)
        assert (["d1"], ["d1"]) == await world.names()


@in_virtual_time
async def test_a_driver_that_comes_while_another_is_taken_off_stays() -> None:
    async with a_node_with("d1", "d2") as world:
        hold = world.cluster.hold("patch csinodes")
        await world.settle(GRACE_S + 1.0)
        assert hold.begun.is_set()
        world.coming.add("d2")
        hold.go.set()
        await world.settle(10.0)
        assert ["d2"] == (await world.names())[0]


@each_row(
    ("entered", "missing", "stale", "kept", "after_s"),
    [
        ((), {"d1": 0.0}, (), {}, LOOK_S),
        (("here",), {"here": 0.0}, (), {}, LOOK_S),
        (("d1",), {}, (), {"d1": GRACE_S}, GRACE_S),
        (("d1", "d2"), {"d1": 0.0, "d2": 1.0}, ("d1",), {"d1": 0.0, "d2": 1.0}, 1.0),
    ],
)
def test_what_is_stale(
    entered: tuple[str, ...], missing: dict[str, float], stale: tuple[str, ...], kept: dict[str, float], after_s: float
) -> None:
    since = missing_since(entered, lambda name: name == "here", missing, GRACE_S)
    decision = decide_entries(entered, (), since, GRACE_S, GRACE_S)
    assert (tuple(map(TakeOff, stale)), kept, after_s) == (decision.actions, since, decision.after_s)


def test_what_is_lost() -> None:
    assert (EnterAgain("a"), EnterAgain("b")) == decide_entries(("c",), ("b", "c", "a"), {}, 0.0, GRACE_S).actions


@in_virtual_time
async def test_CSN15_a_driver_that_a_late_write_took_off_is_entered_again(caplog: pytest.LogCaptureFixture) -> None:
    """Seed 1125 of the node: a removal that was given up is carried out after the driver has come back, unchanged."""
    async with a_node_with() as world:
        await world.register("d1")
        await world.settle(30.0)
        await world.objects.take_off("d1")
        await world.settle(SETTLED_S - 35.0)
        assert ([], []) == await world.names()
        await world.settle(10.0)
        assert (["d1"], ["d1"]) == await world.names()
        assert "lost its entry in CSINode" in caplog.text
        writes = len(world.cluster.writes("patch csinodes"))
        await world.settle(3 * LOOK_S)
        assert writes == len(world.cluster.writes("patch csinodes"))


@in_virtual_time
async def test_a_new_count_makes_no_entry() -> None:
    """Seed 616 of the node: the driver has come to say that it is on another machine."""
    async with a_node_with("d1") as world:
        await world.objects.take_off("d1")
        with pytest.raises(WriteRefused, match="has no entry in CSINode"):
            await world.objects.refresh(DriverOnNode("d1", "elsewhere", 1000, {"k": "v"}))
        assert ([], []) == await world.names()


@in_virtual_time
async def test_a_lost_entry_that_can_t_be_made_is_tried_again() -> None:
    async with a_node_with() as world:
        await world.register("d1")
        await world.settle(SETTLED_S + 1.0)
        await world.objects.take_off("d1")
        world.cluster.refuse("patch csinodes", times=8, error=ServerError("busy"))
        await world.settle(LOOK_S + 60.0)
        assert (["d1"], ["d1"]) == await world.names()


@in_virtual_time
async def test_the_agent_drops_what_its_forerunner_left(tmp_path: Path) -> None:
    world = EntriesWorld()
    await world.create(a_node("n"))
    await world.enter("gone")
    agent = NodeAgent(
        world.runtime, AgentOptions("n", tmp_path / "root"), sockets=AgentSockets(watch=cast(Any, NoSockets))
    )

    async def is_gone() -> bool:
        return ([], []) == await world.names()

    async with world.running(agent.run()):
        await world.until(is_gone, 2 * GRACE_S, "the entry has left")
