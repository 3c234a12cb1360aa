"""Publishes that may have happened: when that is settled, and what comes of those that are still to be undone."""

from __future__ import annotations

from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.kube.errors import ServerError
from mooring.wire.grpc.codes import Code
from tests.support.attaching import PATCH_STATUS, PUBLISH, UNPUBLISH, AttacherWorld
from tests.support.builders import DRIVER, NODE_ID_ANNOTATION, a_csi_node, a_held_pv, a_va, an_attached_va
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, ScriptedDriver, Step, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
DAY_S = 86_400.0
LOST = ServerError("etcdserver: request timed out")


async def test_what_the_cache_has_shown_as_attached_is_not_undone_when_its_attachment_is_torn_away(
    world: AttacherWorld,
):
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


async def test_a_detach_elsewhere_does_not_settle_a_publish(world: AttacherWorld):
    """Somebody has changed the node id in the claim: the first call of the detach is about another machine."""
    world.driver.script(PUBLISH, Lose())
    async with world.attaching(a_va(finalizers=["kit/hold"])):
        await world.error()
        world.driver.script(UNPUBLISH, Fail(Code.UNAVAILABLE), None, Fail(Code.UNAVAILABLE))
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.error("detachError")
        await world.patch(
            VOLUME_ATTACHMENTS, "pv1-node1", {"metadata": {"annotations": {NODE_ID_ANNOTATION: "another"}}}
        )
        await world.settle(0.5)
        assert ["nodeID1", "another", "nodeID1"] == [call.request.node_id for call in world.driver.made(UNPUBLISH)]
        assert {"nodeID1"} == world.driver.published["handle1"]
        await world.set_finalizers(VOLUME_ATTACHMENTS, "pv1-node1", [])
        await world.settle(60.0)
    assert set() == world.driver.published["handle1"]


# -- the next attachment of the name


async def torn_away(world: AttacherWorld) -> None:
    """Its publish has happened, without an answer, and can't be undone."""
    world.driver.script(PUBLISH, Lose())
    world.driver.always(UNPUBLISH, Fail(Code.INTERNAL, "node is gone"))
    await world.create(a_va())
    await world.error()
    await world.tear_away("pv1-node1")
    await world.settle(5.0)


async def test_the_next_attachment_of_the_name_supersedes_an_undo_that_fails(world: AttacherWorld):
    """The pod comes back to the node: it needs what could not be taken back, and its end is the detach of that."""
    async with world.attaching():
        await torn_away(world)
        await world.create(a_va())
        await world.attached(wait_s=1.0)
        world.driver.forget_scripts()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
        before = world.story.count(UNPUBLISH)
        await world.settle(600.0)
    assert set() == world.driver.published["handle1"]
    assert before == world.story.count(UNPUBLISH), "the undo is over, too"


@each_row(("volume", "deleted", "field"), [("pv2", False, "attachError"), ("pv1", True, "detachError")])
async def test_an_attachment_hears_that_it_waits_for_an_undo_that_fails(volume: str, deleted: bool, field: str):
    world = await AttacherWorld().base()
    await world.create(a_held_pv("pv2", "handle2"))
    async with world.attaching():
        await torn_away(world)
        await world.create(a_va(pv=volume, finalizers=["kit/hold"] if deleted else None))
        if deleted:
            await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        message = (await world.error(field))["message"]
    assert "waits until what an earlier VolumeAttachment of this name left published is taken back: " in message
    assert message.endswith("node is gone")


async def test_an_undo_goes_on_while_the_next_attachment_of_the_name_can_not_be_attached():
    """Else both would wait for ever: it for the other node, and that one for the undo."""
    world = await AttacherWorld().base(modes=["ReadWriteOnce"])
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}))
    async with world.attaching():
        await torn_away(world)
        await world.create(
            an_attached_va("pv1-node2", node="node2", annotations={NODE_ID_ANNOTATION: "nodeID2"}), a_va()
        )
        await world.settle(5.0)
        world.driver.forget_scripts()
        await world.settle(600.0)
    assert set() == world.driver.published["handle1"]


# -- a machine that is replaced under its node's name


async def replace_machine(world: AttacherWorld) -> None:
    await world.delete(CSI_NODES, "node1")
    await world.create(a_csi_node("node1", {DRIVER: "nodeID9"}))


async def test_a_publish_that_had_no_answer_is_undone_on_the_machine_that_is_replaced(world: AttacherWorld):
    world.driver.script(PUBLISH, Lose())
    async with world.attaching(a_va()):
        await world.error()
        await replace_machine(world)
        await world.attached()
    assert {"nodeID9"} == world.driver.published["handle1"]


async def test_what_was_attached_to_a_machine_that_is_replaced_is_detached_there(world: AttacherWorld):
    async with world.attaching(a_va()):
        await world.attached()
        await replace_machine(world)
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    assert set() == world.driver.published["handle1"]


async def test_a_detach_from_a_replaced_machine_that_fails_is_told_and_keeps_the_attachment(world: AttacherWorld):
    async with world.attaching(a_va()):
        await world.attached()
        await replace_machine(world)
        world.driver.always(
            UNPUBLISH, lambda request: Fail(Code.INTERNAL, "busy") if request.node_id == "nodeID1" else None
        )
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        assert "busy" in (await world.error("detachError"))["message"]
        await world.settle(600.0)
        assert await world.find(VOLUME_ATTACHMENTS, "pv1-node1") is not None


async def test_a_replaced_machine_that_the_driver_does_not_know_any_more_holds_nothing():
    """external-attacher does not ask the driver about it; so its answer must keep nobody from the new machine."""
    world = await AttacherWorld().base(modes=["ReadWriteOnce"])
    world.driver.script(PUBLISH, Fail(Code.INTERNAL, "booting"))
    async with world.attaching(a_va()):
        await world.error()
        await replace_machine(world)
        world.driver.always(
            UNPUBLISH, lambda request: Fail(Code.NOT_FOUND, "gone") if request.node_id == "nodeID1" else None
        )
        await world.attached()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    assert set() == world.driver.published["handle1"]


async def test_a_single_node_volume_leaves_the_replaced_machine_for_the_new_one_when_the_backend_reports_it_there():
    driver = ScriptedDriver(
        controller=(RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
    )

    def refused_elsewhere(request: object) -> Step:
        return Fail(Code.FAILED_PRECONDITION, "in use") if driver.published["handle1"] - {"nodeID9"} else None

    world = await AttacherWorld(driver).base(modes=["ReadWriteOnce"])
    async with world.attaching(a_va()):
        await world.attached()
        await replace_machine(world)
        driver.always(PUBLISH, refused_elsewhere)
        await world.settle(200.0)
    assert {"nodeID9"} == driver.published["handle1"]


async def test_two_calls_of_one_detach_are_one_after_the_other_in_one_slot():
    world = await AttacherWorld(worker_threads=1).base()
    await world.create(a_held_pv("pv2", "handle2"))
    async with world.attaching(a_va()):
        await world.attached()
        await replace_machine(world)
        world.driver.script(UNPUBLISH, None, Wait(5.0))
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.settle(1.0)
        await world.create(a_va("pv2-node1", "pv2"))
        await world.settle(1.0)
        assert 1 == world.story.count(PUBLISH), "as many calls as --worker-threads allows"
        await world.attached("pv2-node1")
