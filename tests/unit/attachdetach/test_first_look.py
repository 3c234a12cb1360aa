"""The first look of a term: everything once, the newest first, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from mooring.api.core import NODES
from tests.support.attachdetaching import AttachDetachWorld, Vol
from tests.support.binding import Forbids
from tests.support.explained import Explained
from tests.support.virtual_loop import in_virtual_time
from tests.unit.attachdetach.test_bad_input import import_again

pytestmark = in_virtual_time

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
    async with world.controlling():
        await world.settle(5)
    counts = Counter(world.decided)
    assert {1} == set(counts.values())
    assert COUNT == len(world.looked_at())
    assert COUNT // 2 == sum(controller == REPORTS for controller, _ in counts)
    assert {one.unique for one in volumes[-2:]} == set(world.looked_at()[:2]), "the newest first"


async def test_news_does_not_wait_for_the_first_look() -> None:
    world = ExplainedWorld(workers=1)
    volumes = await world.settled()
    async with world.controlling() as controller:
        await world.has_looked.wait()
        begun = len(world.looked_at())
        controller._volumes.add(volumes[0].unique)  # as a change wakes it; the oldest: last of all that wait
        await world.settle(5)
    assert begun == world.looked_at().index(volumes[0].unique) < COUNT - 1
    assert COUNT == len(world.looked_at()), "its first look was that"


async def test_an_attachment_without_its_volume_is_known_before_anything_is_attached() -> None:
    """Its PersistentVolume has another name by now, and a pod elsewhere wants that; the attachment is the oldest of all."""
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


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_driver_that_is_described_late_is_looked_at_volume_by_volume(is_known: bool) -> None:
    world = ExplainedWorld()
    await world.settled()
    async with world.controlling():
        await world.settle(5)
        world.decided.clear()
        await world.csi_driver(**({"attachRequired": True} if is_known else {}))
        await world.settle(5)
    assert COUNT == len(world.looked_at())
