"""Publishes that may have happened: when that is settled, and what comes of those that are still to be undone."""

from __future__ import annotations

from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.kube.errors import ServerError
from tests.support.attaching import PATCH_STATUS, UNPUBLISH, AttacherWorld
from tests.support.builders import a_va
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
DAY_S = 86_400.0
LOST = ServerError("etcdserver: request timed out")


async def test_what_the_cache_has_shown_as_attached_is_not_undone_when_its_attachment_is_torn_away(world: AttacherWorld):
    """The answer to the status patch was lost, and the patch was stored: a pod has the volume mounted since."""
    world.cluster.refuse(PATCH_STATUS, error=LOST, after=True)
    async with world.attaching(a_va()):
        await world.attached()
        await world.settle(DAY_S)
        await world.tear_away("pv1-node1")
        await world.settle(60.0)
    assert UNPUBLISH not in world.story
    assert {"nodeID1"} == world.driver.published["handle1"]


async def test_a_detach_settles_a_publish_whose_status_was_never_stored(world: AttacherWorld):
    world.cluster.refuse(PATCH_STATUS, error=LOST, times=None)
    async with world.attaching(a_va()):
        await world.settle(1.0)
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.settle(60.0)
    assert 1 == world.story.count(UNPUBLISH)
