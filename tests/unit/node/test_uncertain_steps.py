"""A step that may have happened is taken back, also where its repetition was refused for good: the refusal is of the
repetition alone.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from mooring.api.pods import PODS
from mooring.node.volumes.steps.threads import Threads
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.test_block_life import tools
from tests.unit.node.volume_world import Bound, VolumesWorld, world

__all__ = ["tools"]

UNCERTAIN = each_row(
    "first",
    [Lose(Code.UNAVAILABLE), Fail(Code.UNAVAILABLE), Fail(Code.DEADLINE_EXCEEDED)],
    ids=repr,
    fresh=[world, tools],
)
"""Carried out, or not, or in part: the second two leave no mount that would tell."""
MODES = each_row("mode", ["Filesystem", "Block"])


async def failing(world: VolumesWorld, mode: str, step: str, first: Any) -> tuple[Bound, Json]:
    """A pod whose volume's step may have happened, and is refused for good since."""
    world.driver.script(step, first)
    world.driver.always(step, Fail(Code.INTERNAL))
    volume = await world.volume(mode=mode)
    pod = await world.pod(volume, devices=mode == "Block")
    await world.until_called(step, 2)
    await world.settle(5.0)
    assert [volume.unique] == await world.in_use()
    return volume, pod


STEPS = each_row(("step", "undo"), [(STAGE, UNSTAGE), (PUBLISH, UNPUBLISH)])


@pytest.mark.slow
@UNCERTAIN
@MODES
@STEPS
@in_virtual_time
async def test_what_was_refused_for_good_after_it_may_have_happened_is_taken_back(
    world: VolumesWorld, mode: str, step: str, undo: str, first: Any
) -> None:
    async with world.agent():
        _, pod = await failing(world, mode, step, first)
        await world.delete_pod(pod)
        await world.until_called(undo)


@pytest.mark.slow
@UNCERTAIN
@MODES
@STEPS
@in_virtual_time
async def test_it_is_taken_back_by_the_next_agent_too(
    world: VolumesWorld, mode: str, step: str, undo: str, first: Any
) -> None:
    """Which knows of it by the records alone."""
    async with world.agent():
        volume, pod = await failing(world, mode, step, first)
    await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
    assert not world.driver.made(undo)
    async with world.agent():
        await world.until_called(undo)
        await world.settle(5.0)
        assert ([], []) == (world.left(), await world.in_use()), volume


async def test_work_that_was_left_to_itself_ends_before_the_next_about_its_volume_begins() -> None:
    """Other volumes of the driver go on meanwhile."""
    threads, story, may_end, has_begun = Threads(), list[str](), threading.Event(), threading.Event()

    def slow() -> None:
        has_begun.set()
        assert may_end.wait(20.0)
        story.append("slow")

    left = asyncio.ensure_future(threads.run("d1", slow, about="vol-1"))
    await asyncio.to_thread(has_begun.wait, 20.0)
    left.cancel()
    await asyncio.wait([left])
    following = asyncio.ensure_future(threads.run("d1", story.append, "next", about="vol-1"))
    for number in range(3):
        await threads.run("d1", story.append, f"other {number}", about="vol-2")
    may_end.set()
    await following
    assert ["other 0", "other 1", "other 2", "slow", "next"] == story
    threads.close()
