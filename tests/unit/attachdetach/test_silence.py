"""The time until a detach is forced, and what a Node that was made anew leaves unsaid: both are read from objects, so a
controller in a crash loop comes to the same end.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base.clock import rfc3339, rfc3339_micro
from mooring.cluster.attachdetach.memory import NodeRecord
from mooring.cluster.attachdetach.silence import WAITS_SINCE, Moment, mark_of, mark_on, unsaid_s, waited_s
from mooring.kube.errors import Forbidden, Unreachable
from tests.support.attachdetaching import FENCE, AttachDetachWorld, Vol
from tests.support.builders import a_node, a_va, typed
from tests.support.cluster_world import HeldWatch
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


async def dead(world: AttachDetachWorld) -> tuple[Vol, str]:
    """A volume that no pod wants any more, mounted on a node that is not ready."""
    volume = await world.volume()
    node = await world.node(in_use=[volume], reported=[volume])
    await world.make_va(volume, node)
    await world.set_ready(node, False)
    return volume, node


async def mark(world: AttachDetachWorld, volume: Vol, node: str) -> Any:
    return ((await world.wait_va(volume, node))["metadata"].get("annotations") or {}).get(WAITS_SINCE)


async def forced_after(world: AttachDetachWorld, volume: Vol, node: str, seconds: float) -> None:
    await world.settle(seconds - 2)
    assert await world.va(volume, node), "it was forced too early"
    await world.settle(4)
    assert await world.va(volume, node) is None
    assert 1 == world.forced("timeout")


@in_virtual_time
async def test_the_wait_is_written_down_once_and_the_report_stays() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        assert await mark(world, volume, node)
        assert [volume.unique] == await world.reported(node)
        await forced_after(world, volume, node, 60)
        assert 1 == len(world.of(FENCE))


@each_row("lived_s", [5, 80])
@in_virtual_time
async def test_a_crash_loop_does_not_begin_it_anew(lived_s: int) -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    for _ in range(355 // lived_s):
        async with world.controlling():
            await world.settle(lived_s)
            assert await world.va(volume, node)
    async with world.controlling():
        await forced_after(world, volume, node, 360 - 355 // lived_s * lived_s)
        assert 1 == len(world.of(FENCE))


@in_virtual_time
async def test_the_time_that_nobody_controls_counts() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(10)
    await world.settle(1000)
    async with world.controlling():
        await world.settle(2)
        assert await world.va(volume, node) is None


@each_row("error", [Forbidden("not now"), Unreachable("lost")])
@in_virtual_time
async def test_a_mark_that_can_not_be_written_is_tried_again_and_nothing_is_forced_meanwhile(error: Any) -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    rule = world.cluster.refuse(FENCE, times=None, error=error)
    async with world.controlling():
        await world.settle(1000)
        assert await world.va(volume, node)
        assert 3 < rule.hits < 20
        rule.times = 0
        await world.settle(130)  # the next try
        assert await mark(world, volume, node)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_mark_of_a_time_that_is_yet_to_come_counts_for_nothing() -> None:
    """A clock was wrong when it was written, or is now."""
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(100)
    world.clock._epoch_s = (world.clock._epoch_s or 0.0) - 86_400.0
    async with world.controlling():
        await forced_after(world, volume, node, 360)


@in_virtual_time
async def test_a_return_that_was_seen_counts_though_the_node_is_deleted_next() -> None:
    """It was ready for a moment, and its mark is still that of the silence before."""
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        world.cluster.refuse(FENCE, times=1, error=Forbidden("not now"))  # the mark can't be taken away
        await world.set_ready(node, True)
        await world.settle(1)
        await world.set_ready(node, False)
        await world.remove(NODES, node)
        await world.settle(100)
        assert await world.va(volume, node), "six minutes have passed since the first silence"
        await world.wait_no_va(volume, node)


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
        await forced_after(world, volume, node, 360)


@each_row("recreated", [False, True], ids=["ready-again", "another-node"])
@in_virtual_time
async def test_a_return_of_the_node_that_nobody_has_looked_at_begins_anew(recreated: bool) -> None:
    """It was ready in between, and all of it is shown at once."""
    watch = HeldWatch("nodes")
    world = AttachDetachWorld(watch)
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        watch.hold()
        if recreated:
            await world.remove(NODES, node)
            await world.node(node, in_use=[volume], reported=[volume])
        else:
            await world.set_ready(node, True)
        await world.settle(30)
        await world.set_ready(node, False)
        watch.let_go()
        await forced_after(world, volume, node, 360)


@in_virtual_time
async def test_a_node_that_is_deleted_while_it_is_silent_has_not_come_back() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        await world.remove(NODES, node)
        await forced_after(world, volume, node, 60)


@in_virtual_time
async def test_a_node_that_was_deleted_while_no_controller_was_there_waits_through_a_crash_loop() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    await world.remove(NODES, node)
    for _ in range(71):
        async with world.controlling():
            await world.settle(5)
            assert await world.va(volume, node)
    async with world.controlling():
        await world.settle(8)
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_a_volume_that_is_wanted_in_between_begins_anew() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(300)
        pod = await world.pod(node, volume)
        await world.settle(1)
        assert await mark(world, volume, node) is None
    async with world.controlling():
        await world.delete_pod(pod)
        await forced_after(world, volume, node, 360)


@in_virtual_time
async def test_a_node_that_comes_back_loses_the_mark() -> None:
    world = AttachDetachWorld()
    volume, node = await dead(world)
    async with world.controlling():
        await world.settle(100)
        assert await mark(world, volume, node)
        await world.set_ready(node, True)
        await world.settle(1)
        assert (None, [volume.unique]) == (await mark(world, volume, node), await world.reported(node))


T0 = 1_000_000.0
THEN, LATER = rfc3339(T0 - 500), rfc3339(T0 - 50)
MARK = f"{rfc3339_micro(T0 - 100)} {THEN}"


def _node(status: str | None, since: str | None, **more: Any) -> Any:
    if status is None:
        return None
    return typed(a_node(conditions=[{"type": "Ready", "status": status, "lastTransitionTime": since}], **more))


def _marked(text: str | None) -> Any:
    return typed(a_va(annotations=None if text is None else {WAITS_SINCE: text}))


@each_row(
    ("status", "since", "text", "waited"),
    [
        ("Unknown", THEN, MARK, 100.0),
        ("False", THEN, MARK, 100.0),
        ("True", THEN, MARK, None),
        ("Unknown", LATER, MARK, None),
        ("Unknown", None, MARK, None),
        ("Unknown", None, rfc3339_micro(T0 - 100), 100.0),
        (None, None, MARK, 100.0),
        (None, None, rfc3339_micro(T0 - 100), 100.0),
        ("Unknown", THEN, None, None),
        ("Unknown", THEN, "", None),
        ("Unknown", THEN, f"soon {THEN}", None),
        ("Unknown", THEN, f"{rfc3339_micro(T0 + 100)} {THEN}", None),
        ("Unknown", THEN, f"{rfc3339_micro(T0 + 0.5)} {THEN}", 0.0),
        ("Unknown", THEN, f"1969-01-01T00:00:00Z {THEN}", None),
    ],
)
def test_a_mark_holds_for_the_silence_in_which_it_was_written(
    status: str | None, since: str | None, text: str | None, waited: float | None
) -> None:
    assert waited == waited_s(mark_on(_marked(text), _node(status, since), NodeRecord()), T0)


@each_row(("status", "since"), [("Unknown", THEN), ("False", None), (None, None)])
def test_a_mark_that_is_written_now_holds(status: str | None, since: str | None) -> None:
    node = _node(status, since)
    marked = _marked(mark_of(node, NodeRecord(), T0))
    found = waited_s(mark_on(marked, node, NodeRecord()), T0 + 7)
    assert found is not None
    assert 7.0 == pytest.approx(found)


BEFORE, MADE = rfc3339(T0 - 1000), rfc3339(T0 - 600)
FOREVER = float("inf")


@each_row(
    ("status", "since", "in_use", "attachment_made", "was_in_use", "left_s"),
    [
        ("True", THEN, (), BEFORE, False, 0.0),
        ("True", rfc3339(T0 - 20), (), BEFORE, False, 40.0),
        ("True", rfc3339(T0 - 20), (), THEN, False, 0.0),
        ("True", rfc3339(T0 - 20), (), MADE, False, 0.0),
        ("True", rfc3339(T0 - 20), (), THEN, True, 40.0),
        ("True", rfc3339(T0 - 20), ("another",), BEFORE, True, 0.0),
        ("Unknown", THEN, (), BEFORE, False, FOREVER),
        ("Unknown", THEN, (), THEN, False, 0.0),
        ("Unknown", THEN, ("another",), BEFORE, False, 0.0),
    ],
)
def test_a_node_that_was_made_anew_says_what_it_has_within_a_minute_in_which_it_is_ready(
    status: str, since: str, in_use: tuple[str, ...], attachment_made: str, was_in_use: bool, left_s: float
) -> None:
    node = a_node(
        conditions=[{"type": "Ready", "status": status, "lastTransitionTime": since}], volumesInUse=list(in_use)
    )
    node["metadata"]["creationTimestamp"] = MADE
    attachment = a_va()
    attachment["metadata"]["creationTimestamp"] = attachment_made
    made = typed(node), typed(attachment)
    assert left_s == unsaid_s(*made, NodeRecord(), Moment(9.0, T0), was_in_use=was_in_use)
    assert 0.0 == unsaid_s(*made, NodeRecord(has_said=True), Moment(9.0, T0), was_in_use=was_in_use)


def test_the_minute_of_a_node_that_the_process_saw_become_ready_is_over_whatever_the_wall_clock_says() -> None:
    node = a_node(conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(T0)}])
    node["metadata"]["creationTimestamp"] = MADE
    attachment = a_va()
    attachment["metadata"]["creationTimestamp"] = BEFORE
    made, record = (typed(node), typed(attachment)), NodeRecord(was_ready=True, unchanged_since=100.0)
    for wall_s in (T0 - 9000, T0 + 9000):
        assert [60.0, 1.0, 0.0] == [unsaid_s(*made, record, Moment(now, wall_s)) for now in (100.0, 159.0, 160.0)]


@each_row(("silence", "holds"), [(THEN, True), (LATER, False), ("", False), (None, True)])
def test_of_a_node_that_is_gone_the_mark_of_its_last_silence_holds(silence: str | None, holds: bool) -> None:
    record = NodeRecord(last_silence=silence)
    assert (MARK if holds else "") == mark_on(_marked(MARK), None, record)
    assert mark_on(_marked(mark_of(None, record, T0)), None, record)


@in_virtual_time
async def test_a_node_made_anew_is_waited_for_through_a_crash_loop() -> None:
    """Its kubelet is ready, and lists nothing: the attachment that is older goes after a minute, whoever counts it."""
    world = AttachDetachWorld()
    volume, node = await world.volume(), "n"
    await world.make_va(volume, node)
    await world.settle(10)
    await world.node(node)
    for _ in range(11):
        async with world.controlling():
            await world.settle(5)
            assert await world.va(volume, node)
    async with world.controlling():
        await world.settle(8)
        assert await world.va(volume, node) is None
    assert [] == await world.list(VOLUME_ATTACHMENTS)


@in_virtual_time
async def test_an_attachment_without_a_volume_waits_for_a_node_made_anew_too() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), "n"
    await world.make_va(volume, node)
    await world.patch(PERSISTENT_VOLUMES, volume.pv, {"metadata": {"finalizers": None}})
    await world.remove(PERSISTENT_VOLUMES, volume.pv)
    await world.settle(10)
    await world.node(node)
    async with world.controlling():
        await world.settle(45)
        assert await world.va(volume, node)
        await world.settle(30)
        assert await world.va(volume, node) is None
