"""The time until a detach is forced outlasts the controller: it is written down on the Node, and is never shorter for that."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.cluster.attachdetach.identity import WAITED
from mooring.cluster.attachdetach.waited import waited_before
from tests.support.attachdetaching import PATCH_NODE, AttachDetachWorld, Vol
from tests.support.builders import a_node, typed
from tests.support.cluster_world import HeldWatch
from tests.support.virtual_loop import in_virtual_time


async def dead(world: AttachDetachWorld) -> tuple[Vol, str]:
    """A volume that no pod wants any more, mounted on a node that is not ready."""
    volume = await world.volume()
    node = await world.node(in_use=[volume], reported=[volume])
    await world.make_va(volume, node)
    await world.set_ready(node, False)
    return volume, node


async def note(world: AttachDetachWorld, node: str) -> Any:
    """The seconds that are written down, by volume."""
    text = ((await world.get(NODES, node))["metadata"].get("annotations") or {}).get(WAITED)
    return None if text is None else json.loads(text)["seconds"]


@in_virtual_time
async def test_each_quarter_of_the_wait_is_written_down_and_goes_with_the_report() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        for waited_s in (0, 90, 180, 270):
            await world.settle(45)
            assert ({volume.unique: waited_s} if waited_s else None) == await note(world, node)
            assert [volume.unique] == await world.reported(node)
            await world.settle(45)
        await world.wait_no_va(volume, node)
        assert (None, []) == (await note(world, node), await world.reported(node))
        assert 4 == len(world.of(PATCH_NODE)), "three quarters, and the report with the end of the note"


@pytest.mark.parametrize("lived_s", [80, 100, 300])
@in_virtual_time
async def test_a_restart_goes_on_with_the_quarters_that_are_over(lived_s: int) -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(lived_s)
    await world.settle(1000)
    counted_s = lived_s // 90 * 90
    async with world.controlling():
        await world.settle(360 - counted_s - 2)
        assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None
        assert 1 == world.forced("timeout")


@in_virtual_time
async def test_a_silence_that_does_not_say_since_when_counts_anew_after_a_restart() -> None:
    """It might be another one: the node may have been back meanwhile."""
    world = AttachDetachWorld()
    volume, node = await dead(world)
    await world.node_status(node, conditions=[{"type": "Ready", "status": "Unknown"}])
    async with world.controlling():
        await world.settle(300)
        assert [] == world.of(PATCH_NODE), "there is nothing to be written down"
    async with world.controlling():
        await world.settle(358)
        assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
@in_virtual_time
async def test_no_clock_of_the_wall_counts(jump_s: float) -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(100)
    world.clock._epoch_s = (world.clock._epoch_s or 0.0) + jump_s
    async with world.controlling():
        await world.settle(268)
        assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_another_silence_of_the_node_begins_anew() -> None:
    """It was ready in between, while the controller was away."""
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
    await world.set_ready(node, True)
    await world.settle(10)
    await world.set_ready(node, False)
    async with world.controlling():
        await world.settle(1)
        assert await note(world, node) is None
        await world.settle(355)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)


@pytest.mark.parametrize("recreated", [False, True], ids=["ready-again", "another-node"])
@in_virtual_time
async def test_a_return_of_the_node_that_nobody_has_looked_at_begins_anew(recreated: bool) -> None:
    """It was ready in between, and all of it is shown at once: what the Node says of its last transition, or its uid, tells it."""
    watch = HeldWatch("nodes")
    world = AttachDetachWorld(watch)
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        watch.hold()
        conditions = (await world.get(NODES, node))["status"]["conditions"]
        if recreated:
            await world.remove(NODES, node)
            await world.node(node, in_use=[volume], reported=[volume])
        else:
            await world.set_ready(node, True)
        await world.settle(30)
        await (world.node_status(node, conditions=conditions) if recreated else world.set_ready(node, False))
        watch.let_go()
        await world.settle(350)
        assert await world.va(volume, node)
        await world.settle(20)
        assert await world.va(volume, node) is None
        assert 1 == world.forced("timeout")


@in_virtual_time
async def test_a_return_that_no_time_tells_of_begins_anew_though_nobody_has_looked_at_it() -> None:
    """The Node has no time of its last transition. All is shown at once."""
    watch = HeldWatch("nodes")
    world = AttachDetachWorld(watch)
    volume, node = await dead(world)
    await world.node_status(node, conditions=[{"type": "Ready", "status": "Unknown"}])
    async with world.controlling():
        await world.settle(300)
        watch.hold()
        await world.node_status(node, conditions=[{"type": "Ready", "status": "True"}])
        await world.settle(30)
        await world.node_status(node, conditions=[{"type": "Ready", "status": "Unknown"}])
        watch.let_go()
        await world.settle(350)
        assert await world.va(volume, node)
        await world.settle(20)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_node_that_is_deleted_while_it_is_silent_has_not_come_back() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        await world.remove(NODES, node)
        await world.settle(58)
        assert await world.va(volume, node)
        await world.settle(4)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_return_that_the_answer_to_a_report_has_told_counts_though_the_node_is_deleted_next() -> None:
    """Both before and after it the node is not ready: only the time of its last transition tells the return."""
    watch = HeldWatch("nodes")
    world = AttachDetachWorld(watch)
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(181)
        watch.hold()
        await world.set_ready(node, True)
        await world.settle(10)
        await world.set_ready(node, False)
        await world.settle(100)
        assert world.of(PATCH_NODE), "the wait is written down, and the answer shows the Node"
        watch.let_go()
        await world.remove(NODES, node)
        await world.settle(100)
        assert await world.va(volume, node), "six minutes have passed since the first silence"
        await world.settle(360)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_volume_that_is_wanted_in_between_begins_anew() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        pod = await world.pod(node, volume)
        await world.settle(1)
        assert await note(world, node) is None
    async with world.controlling():
        await world.delete_pod(pod)
        await world.settle(355)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_node_that_comes_back_loses_the_note() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(100)
        assert {volume.unique: 90} == await note(world, node)
        await world.set_ready(node, True)
        await world.settle(1)
        assert (None, [volume.unique]) == (await note(world, node), await world.reported(node))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "{}",
        '{"silent_since": "then", "seconds": {"v": "x"}}',
        '{"silent_since": "then", "seconds": {"v": -1}}',
    ],
)
def test_a_note_that_can_not_be_read_counts_for_nothing(text: str) -> None:
    silence = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "then"}
    assert {} == waited_before(
        typed({**a_node(conditions=[silence]), "metadata": {"name": "n1", "annotations": {WAITED: text}}})
    )


@pytest.mark.parametrize(
    ("status", "since", "counts"),
    [
        ("Unknown", "then", True),
        ("False", "then", True),
        ("True", "then", False),
        ("Unknown", "later", False),
        ("Unknown", "", False),
        ("True", "", False),
    ],
)
def test_a_note_holds_for_the_silence_in_which_it_was_written(status: str, since: str, counts: bool) -> None:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": since or None}
    node = typed(a_node(conditions=[condition]))
    assert {} == waited_before(node)
    noted = typed(
        {
            **a_node(conditions=[condition]),
            "metadata": {
                "name": "n1",
                "annotations": {WAITED: json.dumps({"silent_since": since and "then", "seconds": {"v": 90}})},
            },
        }
    )
    assert ({"v": 90} if counts else {}) == waited_before(noted)
