"""A round over many attachments lets others have their turn."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, cast

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.in_process import InProcessDriver
from mooring.sidecars.attacher.drift import SLICE, Rounds
from mooring.sidecars.attacher.memory import Drift
from mooring.sidecars.attacher.options import AttacherOptions
from tests.support.builders import a_csi_node, a_held_pv, an_attached_va
from tests.support.scripted_driver import ScriptedDriver
from tests.support.virtual_loop import in_virtual_time
from tests.unit.attacher.views import a_view

COUNT = 5 * SLICE


class Woken:
    """Keys that were added, none in hand."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str) -> None:
        self.names.append(name)

    def in_hand(self, name: str) -> bool:
        return False


@pytest.mark.slow
@in_virtual_time
async def test_a_report_about_many_volumes_is_taken_in_by_slices() -> None:
    """Tens of thousands at once would keep Lease, health and calls waiting for seconds."""
    vas = [an_attached_va(f"va{number}", f"pv{number}") for number in range(COUNT)]
    view = a_view(
        vas=vas, pvs=[a_held_pv(f"pv{number}", f"h{number}") for number in range(COUNT)], nodes=[a_csi_node()]
    )
    driver = ScriptedDriver()
    for number in range(COUNT):
        driver.published[f"h{number}"] = {"nodeID1"} if number % 2 else set()
    woken, clock = Woken(), LoopClock()
    port = InProcessDriver(driver, clock=clock)
    rounds = Rounds(port, view, cast(Any, view.attachments), cast(Any, woken), AttacherOptions(), clock)
    task = asyncio.create_task(rounds.run(), name="rounds")
    seen = []
    while len(woken.names) < COUNT / 2:
        await asyncio.sleep(0)
        seen.append(len(woken.names))
        assert len(seen) < 1000, "it comes to no end"
    task.cancel()
    assert SLICE / 2 == max(after - before for before, after in itertools.pairwise(seen))
    assert (Drift.MISSING, None) == (view.memory.drift.get("va0"), view.memory.drift.get("va1"))
