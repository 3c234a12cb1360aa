"""The tasks of steps, by themselves."""

from __future__ import annotations

import asyncio
import contextlib

from mooring.node.volumes.steps.run import StepTasks
from tests.support.virtual_loop import in_virtual_time


@in_virtual_time
async def test_no_step_begins_while_those_under_way_are_cancelled():
    """One that takes its time to end keeps the group, which takes no task any more; a worker may still be at a
    decision.
    """
    steps = StepTasks(lambda unique: None)
    seen: list[str] = []

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            try:
                steps.begin("other", "stage", slow_to_end)
            except asyncio.CancelledError:
                seen.append("not begun")

    running = asyncio.create_task(steps.run(), name="steps")
    await asyncio.sleep(0)
    steps.begin("volume", "stage", slow_to_end)
    await asyncio.sleep(0)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert ["not begun"] == seen
