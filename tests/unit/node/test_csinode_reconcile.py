"""Node and CSINode on the embedded server, through refusals and foreign objects."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.api.storage import CSI_NODES
from mooring.kube.errors import Conflict, ServerError
from mooring.node.csinode.decide import NODE_IDS
from mooring.node.csinode.reconcile import NodeObjects, WriteRefused
from mooring.node.drivers import DriverOnNode
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

COMING = DriverOnNode("d1", "id1", 0, {"k": "v"})


class NodeWorld(ClusterWorld):
    def __init__(self) -> None:
        super().__init__()
        self.objects = NodeObjects(self.cluster, "n", clock=self.clock)

    async def make_node(self, **labels: str) -> None:
        await self.create(a_node("n", labels=labels))

    async def node(self) -> tuple[dict[str, str], dict[str, str]]:
        """Node ids of the annotation, and labels."""
        metadata = (await self.get(NODES, "n"))["metadata"]
        return json.loads(metadata.get("annotations", {}).get(NODE_IDS, "{}")), metadata.get("labels", {})

    async def drivers(self) -> list[dict[str, Any]]:
        return list((await self.get(CSI_NODES, "n"))["spec"].get("drivers") or [])

    @property
    def writes(self) -> list[str]:
        return [step for step in self.story if not step.startswith("get")]


async def a_world(**labels: str) -> NodeWorld:
    world = NodeWorld()
    await world.make_node(**labels)
    return world


@in_virtual_time
async def test_CSN1_a_first_driver_makes_the_csinode() -> None:
    world = await a_world()
    await world.objects.enter(COMING)
    assert ({"d1": "id1"}, {"k": "v"}) == await world.node()
    assert [{"name": "d1", "nodeID": "id1", "topologyKeys": ["k"]}] == await world.drivers()
    (owner,) = (await world.get(CSI_NODES, "n"))["metadata"]["ownerReferences"]
    assert ("Node", "n", (await world.get(NODES, "n"))["metadata"]["uid"]) == (
        owner["kind"],
        owner["name"],
        owner["uid"],
    )
    assert ["patch nodes/status", "create csinodes", "patch csinodes"] == world.writes


@in_virtual_time
async def test_CSN2_the_same_again_writes_nothing() -> None:
    world = await a_world()
    await world.objects.enter(COMING)
    world.story.clear()
    await world.objects.enter(COMING)
    assert [] == world.writes


@in_virtual_time
async def test_CSN3_a_second_driver_is_last() -> None:
    world = await a_world()
    await world.objects.enter(DriverOnNode("d2", "id2", 0, {}))
    await world.objects.enter(COMING)
    assert ["d2", "d1"] == [driver["name"] for driver in await world.drivers()]


@in_virtual_time
async def test_CSN4_a_collision_writes_neither_object() -> None:
    world = await a_world(k="old")
    with pytest.raises(WriteRefused, match="collision"):
        await world.objects.enter(COMING)
    assert [] == world.writes
    assert ({}, {"k": "old"}) == await world.node()


@in_virtual_time
async def test_CSN5_a_csinode_of_an_earlier_node_is_replaced() -> None:
    world = await a_world()
    await world.objects.enter(DriverOnNode("d2", "id2", 0, {}))
    await world.delete(NODES, "n")
    await world.make_node()
    await world.objects.enter(COMING)
    assert ["d1"] == [driver["name"] for driver in await world.drivers()]
    (owner,) = (await world.get(CSI_NODES, "n"))["metadata"]["ownerReferences"]
    assert (await world.get(NODES, "n"))["metadata"]["uid"] == owner["uid"]
    assert "delete csinodes" in world.writes


@in_virtual_time
async def test_CSN6_a_driver_without_node_id_is_refused_before_any_request() -> None:
    world = await a_world()
    with pytest.raises(WriteRefused, match="no node id"):
        await world.objects.enter(DriverOnNode("d1", "", 0, {}))
    assert [] == world.story


@in_virtual_time
async def test_CSN7_a_limit_of_64_bits_is_capped() -> None:
    world = await a_world()
    await world.objects.enter(DriverOnNode("d1", "id1", 2**31, {}))
    assert [{"count": 2**31 - 1}] == [driver["allocatable"] for driver in await world.drivers()]


@in_virtual_time
async def test_CSN8_taking_off_makes_no_csinode() -> None:
    world = await a_world()
    await world.objects.take_off("d1")
    assert ([], None) == (world.writes, await world.find(CSI_NODES, "n"))


@in_virtual_time
async def test_CSN9_the_last_driver_leaves_labels_and_an_empty_list() -> None:
    world = await a_world()
    await world.objects.enter(COMING)
    await world.objects.take_off("d1")
    assert ({}, {"k": "v"}) == await world.node()
    assert NODE_IDS not in (await world.get(NODES, "n"))["metadata"].get("annotations", {})
    assert [] == await world.drivers()


@in_virtual_time
async def test_CSN10_a_broken_annotation_is_refused_after_four_tries() -> None:
    world = await a_world()
    await world.patch(NODES, "n", {"metadata": {"annotations": {NODE_IDS: "{"}}})
    with pytest.raises(WriteRefused, match="annotation"):
        await world.objects.enter(COMING)
    assert ["get nodes"] * 4 == world.story


@in_virtual_time
@each_row("short", ["patch nodes/status", "patch csinodes"])
async def test_CSN11_conflicts_are_tried_again(short: str) -> None:
    world = await a_world()
    world.cluster.refuse(short, times=2, error=Conflict("moved"))
    await world.objects.enter(COMING)
    assert (["d1"], {"d1": "id1"}) == ([driver["name"] for driver in await world.drivers()], (await world.node())[0])


@in_virtual_time
async def test_CSN11_a_fourth_failure_is_the_last() -> None:
    world = await a_world()
    rule = world.cluster.refuse("patch nodes/status", times=None, error=Conflict("moved"))
    with pytest.raises(Conflict):
        await world.objects.enter(COMING)
    assert 4 == rule.hits


@in_virtual_time
async def test_a_lost_answer_enters_the_driver_once() -> None:
    world = await a_world()
    world.cluster.refuse("patch csinodes", error=ServerError("lost"), after=True)
    await world.objects.enter(COMING)
    assert ["d1"] == [driver["name"] for driver in await world.drivers()]


@in_virtual_time
async def test_a_driver_with_another_node_id_replaces_its_entry() -> None:
    world = await a_world()
    await world.objects.enter(COMING)
    await world.objects.enter(DriverOnNode("d1", "id9", 0, {"k": "v"}))
    assert [("d1", "id9")] == [(driver["name"], driver["nodeID"]) for driver in await world.drivers()]


@in_virtual_time
async def test_drivers_that_come_at_once_do_not_lose_each_other() -> None:
    world = await a_world()
    names = [f"d{number}" for number in range(5)]
    await asyncio.gather(*(world.objects.enter(DriverOnNode(name, "id", 0, {})) for name in names))
    assert (set(names), set(names)) == (
        {driver["name"] for driver in await world.drivers()},
        set((await world.node())[0]),
    )


@in_virtual_time
async def test_the_csinode_is_waited_for_until_the_server_answers() -> None:
    world = await a_world()
    world.cluster.refuse("get nodes", times=30, error=ServerError("starting"))
    await world.objects.prepare()
    assert [] == await world.drivers()


@in_virtual_time
async def test_CSN13_a_server_that_is_away_is_asked_every_second_and_the_csinode_made_then() -> None:
    world = await a_world()
    rule = world.cluster.refuse("get nodes", times=None, error=ServerError("starting"))
    async with world.running(world.objects.prepare()):
        await world.settle(10.0)
        assert 10 <= rule.hits <= 4 * 11, "a second apart, with the tries of one write in each"
        assert await world.find(CSI_NODES, "n") is None
        rule.times = 0
        await world.shown(CSI_NODES, "n", lambda csinode: True)
