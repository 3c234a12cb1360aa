"""What the log says of work that is done."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator

import pytest

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.base import log
from tests.support.attaching import PUBLISH, UNPUBLISH, AttacherWorld
from tests.support.builders import a_va
from tests.support.scripted_driver import RPC, ScriptedDriver, Wait
from tests.support.virtual_loop import in_virtual_time

VA = "pv1-node1"


@pytest.fixture
def lines() -> Iterator[Callable[[], list[str]]]:
    """The log at level 2."""
    stream = io.StringIO()
    log.configure(verbosity=2, stream=stream)
    yield lambda: [line for line in stream.getvalue().splitlines() if '"done"' in line]
    log.configure()


@in_virtual_time
async def test_the_line_of_a_finished_attach_says_what_is_true_by_then_and_how_long_it_took(
    world, lines: Callable[[], list[str]]
) -> None:
    """Not "being attached: waiting for the driver", which it was before."""
    world.driver.script(PUBLISH, Wait(0.016))
    world.driver.script(UNPUBLISH, Wait(0.002))
    async with world.attaching(a_va()):
        await world.attached()
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.settle()
    attached, detached = lines()
    assert attached.endswith(f'"done" VolumeAttachment="{VA}" result="attached to node1 in 16 ms" node_id="nodeID1"')
    assert detached.endswith(f'"done" VolumeAttachment="{VA}" result="detached from node1 in 2 ms" node_id="nodeID1"')


@in_virtual_time
async def test_the_line_of_an_attach_that_the_backend_had_lost_says_so(lines: Callable[[], list[str]]) -> None:
    listing = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
    world = await AttacherWorld(ScriptedDriver(controller=listing), reconcile_sync_s=60.0).base()
    async with world.attaching(a_va()):
        await world.attached()
        world.driver.published.clear()
        await world.settle(130)
    assert ["attached to node1 in 0 ms", "attached to node1 again, where the backend had lost it, in 0 ms"] == [
        re.findall('result="(.*?)"', line)[0] for line in lines()
    ]
