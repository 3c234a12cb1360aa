"""Events about failed attaches and detaches, on the attachments themselves (27 A2)."""

from __future__ import annotations

from mooring.api.core import EVENTS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.wire.grpc.codes import Code
from tests.support.attaching import PUBLISH, UNPUBLISH, AttacherWorld
from tests.support.builders import a_va
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


async def test_a_failed_attach_is_an_event_on_the_attachment(world: AttacherWorld):
    world.driver.script(PUBLISH, Fail(Code.INTERNAL, "no disk"))
    async with world.attaching(a_va()):
        va = await world.attached()
        assert [("Warning", "FailedAttachVolume", "rpc error: code = Internal desc = no disk", 1)] == await world.told()
    (event,) = await world.list(EVENTS)
    about = event["involvedObject"]
    assert ("storage.k8s.io/v1", "VolumeAttachment", va["metadata"]["uid"]) == (
        about["apiVersion"],
        about["kind"],
        about["uid"],
    )
    assert ("external-attacher csi.test", "default") == (event["source"]["component"], event["metadata"]["namespace"])


async def test_a_failed_detach_is_an_event_of_another_reason(world: AttacherWorld):
    world.driver.script(UNPUBLISH, Fail(Code.INTERNAL, "it is busy"))
    async with world.attaching(a_va()):
        await world.attached()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
        assert [
            ("Warning", "FailedDetachVolume", "rpc error: code = Internal desc = it is busy", 1)
        ] == await world.told()


async def test_the_same_failure_again_is_counted_in_the_same_event(world: AttacherWorld):
    """An hour of one failure is one Event, which shows that it goes on."""
    world.driver.script(PUBLISH, *(Fail(Code.INTERNAL, "no disk") for _ in range(1000)))
    async with world.attaching(a_va()):
        await world.settle(600)
        made = len(world.driver.made(PUBLISH))
        assert 8 < made < 25
        assert [
            ("Warning", "FailedAttachVolume", "rpc error: code = Internal desc = no disk", made)
        ] == await world.told()


async def test_failures_of_many_words_are_combined_and_do_not_flood(world: AttacherWorld):
    """A driver that puts a number into each error."""
    world.driver.script(PUBLISH, *(Fail(Code.INTERNAL, f"request {number}") for number in range(1000)))
    async with world.attaching(a_va()):
        await world.settle(1800)
        assert 12 < len(world.driver.made(PUBLISH))
        found = await world.told()
        assert 10 == len(found)
        assert found[-1][2].startswith("(combined from similar events): ")


async def test_what_lacks_is_told_too(world: AttacherWorld):
    async with world.attaching(a_va(pv="nowhere")):
        await world.error()
        assert [("Warning", "FailedAttachVolume", 'persistentvolume "nowhere" not found', 1)] == [
            (*one[:3], 1) for one in await world.told()
        ]


async def test_what_goes_well_sends_nothing(world: AttacherWorld):
    async with world.attaching(a_va()):
        await world.attached()
        assert [] == await world.told()
