"""The first look of a term: everything once, the newest first, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.cluster.attachdetach import controller as module
from mooring.cluster.attachdetach.identity import OnNode
from mooring.kube.errors import TooManyRequests
from tests.support.attachdetaching import PATCH_NODE, AttachDetachWorld, Vol
from tests.support.binding import Forbids
from tests.support.explained import Explained
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.attachdetach.test_bad_input import import_again

pytestmark = in_virtual_time

GONE = Vol("gone", "gone", "csi.test", "h-gone", "default")
COUNT, LOOKS, REPORTS = 60, "attachdetach-volumes", "attachdetach-nodes"


class ExplainedWorld(Explained, AttachDetachWorld):
    """has_looked: at a volume."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.has_looked = asyncio.Event()

    def explains(self, controller: str, key: object, because: object) -> None:
        super().explains(controller, key, because)
        if controller == LOOKS:
            self.has_looked.set()

    def looked_at(self) -> list[str]:
        """The volumes among them."""
        return self.keys_of(LOOKS)

    async def settled(self, count: int = COUNT) -> list[Vol]:
        """Volumes that are attached and reported, each with its pod, two on a node."""
        async with self.controlling():
            volumes = [await self.volume() for _ in range(count)]
            nodes = [await self.node() for _ in range(count // 2)]
            for number, volume in enumerate(volumes):
                await self.pod(nodes[number // 2], volume)
                await self.attach(volume, nodes[number // 2])
            await self.settle(100)
        self.decided.clear()
        self.has_looked.clear()
        return volumes


async def test_each_volume_and_each_report_is_looked_at_once() -> None:
    """Pods, claims, PersistentVolumes, attachments and Nodes all would have woken it."""
    world = ExplainedWorld()
    volumes = await world.settled()
    before = world.worked_on()
    async with world.controlling():
        await world.settle(5)
    counts = Counter(world.decided)
    assert {1} == set(counts.values())
    assert COUNT == len(world.looked_at())
    assert COUNT // 2 == sum(controller == REPORTS for controller, _ in counts)
    newest = {one.partition(" on ")[0] for one in world.looked_at()[:2]}
    assert {one.unique for one in volumes[-2:]} == newest, "the newest first"
    assert COUNT == world.worked_on() - before, (
        "all reports are right, and no pod lacks a volume: only the volumes are work"
    )


@each_row("how", ["missing", "gone", "twice"])
async def test_a_report_that_is_wrong_is_looked_at_once_and_mended(how: str) -> None:
    world = ExplainedWorld()
    volumes = await world.settled()
    node = (await world.list(NODES))[0]["metadata"]["name"]
    entries, before = await world.entries(node), len(world.of(PATCH_NODE, node))
    lists = {
        "missing": entries[:1],
        "gone": [*entries, {"name": GONE.unique, "devicePath": ""}],
        "twice": [*entries, *entries],
    }
    await world.node_status(node, volumesAttached=lists[how])
    async with world.controlling():
        await world.settle(5)
        assert sorted(one.unique for one in volumes[:2]) == await world.reported(node)
    assert 1 == len(world.of(PATCH_NODE, node)) - before


async def test_what_is_not_wanted_any_more_is_taken_off_a_report_that_lists_what_is_attached() -> None:
    world = ExplainedWorld()
    volumes = await world.settled()
    node = (await world.list(NODES))[0]["metadata"]["name"]
    for pod in [one["metadata"]["name"] for one in await world.list(PODS) if one["spec"]["nodeName"] == node]:
        await world.delete_pod(pod)
    async with world.controlling():
        for volume in volumes[:2]:
            await world.wait_no_va(volume, node)
    assert [] == await world.reported(node)


async def test_news_does_not_wait_for_the_first_look() -> None:
    world = ExplainedWorld(workers=1)
    volumes = await world.settled()
    async with world.controlling() as controller:
        await world.has_looked.wait()
        begun = len(world.looked_at())
        (node,) = controller.view.nodes_of(volumes[0].unique)
        key = OnNode(volumes[0].unique, node)
        controller._places.add(key)  # as a change wakes it; the oldest: last of all that wait
        await world.settle(5)
    assert begun == world.looked_at().index(str(key)) < COUNT - 1
    assert COUNT == len(world.looked_at()), "its first look was that"


async def test_an_attachment_without_its_volume_is_known_before_anything_is_attached() -> None:
    """Its PersistentVolume has another name by now, and a pod elsewhere wants that; the attachment is the oldest of
    all.
    """
    world = ExplainedWorld(workers=1)
    node, other = await world.node(), await world.node()
    held, *others = [await world.volume() for _ in range(COUNT)]
    for volume in (held, *others):
        await world.make_va(volume, node, hold=True)
    again = await import_again(world, held)
    await world.pod(other, again)
    async with world.controlling():
        await world.wait_deleting(held, node)
        await world.settle(50)
        assert await world.va(again, other) is None


async def test_a_node_that_was_managed_when_it_was_first_seen_stays_so_though_the_caches_were_not_filled() -> None:
    faults = Forbids("persistentvolumes")
    world = AttachDetachWorld(faults)
    volume, node = await world.volume(), await world.node()
    async with world.controlling():
        await world.settle(30)
        await world.patch(NODES, node, {"metadata": {"annotations": None}})
        await world.settle(30)
        faults.plurals = ()
        await world.pod(node, volume)
        await world.settle(60)
        assert await world.va(volume, node)


@each_row("is_known", [True, False])
async def test_a_driver_that_is_described_late_is_looked_at_volume_by_volume(is_known: bool) -> None:
    world = ExplainedWorld()
    await world.settled()
    async with world.controlling():
        await world.settle(5)
        world.decided.clear()
        await world.csi_driver(**({"attachRequired": True} if is_known else {}))
        await world.settle(5)
    assert COUNT == len(world.looked_at())


async def test_a_mark_outlives_a_refused_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report is tried again after its Node had its turn in the first look: another attacher has an attachment under
    our name.
    """
    monkeypatch.setattr(module, "REPORT_WORKERS", 1)
    world = AttachDetachWorld()
    volume, node = await world.volume(), "first"
    await world.node(node, reported=[volume])
    await world.make_va(volume, node, attacher="other")
    for _ in range(300):
        await world.node()
    world.cluster.refuse(PATCH_NODE, error=TooManyRequests("later"))
    async with world.controlling():
        await world.settle(600)
        assert [] == await world.reported(node)


async def test_nothing_is_kept_of_a_node_that_goes_before_its_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPORT_WORKERS", 1)
    world = AttachDetachWorld()
    node = await world.node("oldest")
    for _ in range(3000):
        await world.node()
    async with world.controlling() as controller:
        while not controller.has_synced or not controller._nodes._queue._backlog:
            await world.clock.sleep(0)
        for _ in range(3):
            await world.clock.sleep(0)
        assert node in controller.view.memory._nodes
        await world.delete(NODES, node)
        await world.settle(60)
        assert node not in controller.view.memory._nodes
