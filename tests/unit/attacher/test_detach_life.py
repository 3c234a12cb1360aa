"""Detaching, and the volume's finalizer, from the first event to the last write; and what the backend's reports lead
to.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.errors import Forbidden, NotFound
from mooring.wire.grpc.codes import Code
from tests.support.attaching import (
    GET_NODE,
    GET_PV,
    GET_SECRET,
    GET_VA,
    PATCH_PV,
    PATCH_STATUS,
    PATCH_VA,
    PUBLISH,
    UNPUBLISH,
    AttacherWorld,
)
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    NODE_ID_ANNOTATION,
    a_csi_node,
    a_held_pv,
    a_node,
    a_secret,
    a_va,
    an_attached_va,
)
from tests.support.cluster_world import HeldWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, ScriptedDriver, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
VA = "pv1-node1"
SECRET = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}
LIST = "ListVolumes"


async def attached_world(
    world: AttacherWorld | None = None, pv: dict[str, Any] | None = None, **va: Any
) -> AttacherWorld:
    """Attached by an earlier attacher, also in the backend."""
    world = await (world or AttacherWorld()).base(**(pv or {}))
    await world.create(an_attached_va(**va))
    world.driver.published["handle1"].add("nodeID1")
    return world


async def detached(world: AttacherWorld) -> AttacherWorld:
    """Runs until the deleted attachment is gone."""
    async with world.attaching():
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.settle()
    return world


async def test_DT01_unpublish_then_one_write():
    """The peer also patches the status of the object that is gone by then."""
    world = await detached(await attached_world())
    assert [UNPUBLISH, PATCH_VA] == world.story
    request = world.driver.made(UNPUBLISH)[0].request
    assert ("handle1", "nodeID1") == (request.volume_id, request.node_id)


async def test_DT01_a_surviving_object_is_marked_after_its_finalizer_went():
    world = await attached_world(
        finalizers=[FINALIZER, "kit/hold"], status={"attached": True, "attachmentMetadata": {"a": "b"}}
    )
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        va = await world.status(lambda status: not status["attached"])
        await world.settle()
    assert [UNPUBLISH, PATCH_VA, PATCH_STATUS] == world.story
    assert {"status": {"attached": False, "attachmentMetadata": None}} == world.changes(PATCH_STATUS)[0]
    assert (["kit/hold"], {"attached": False}) == (va["metadata"]["finalizers"], va["status"])


async def test_DT02_an_inline_volume_asks_nothing_about_volumes():
    world = AttacherWorld()
    inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": DRIVER, "volumeHandle": "inline1"}}
    await world.create(a_csi_node(), an_attached_va(pv=None, inline=inline))
    await detached(world)
    assert [UNPUBLISH, PATCH_VA] == world.story
    assert "inline1" == world.driver.made(UNPUBLISH)[0].request.volume_id


async def test_DT03_the_secret_travels_in_the_call():
    world = await attached_world(pv=SECRET)
    await world.create(a_secret(data={"foo": "YmFy"}))
    await detached(world)
    assert [GET_SECRET, UNPUBLISH, PATCH_VA] == world.story
    assert {"foo": "bar"} == dict(world.driver.made(UNPUBLISH)[0].request.secrets)


async def test_DT04_a_missing_secret_is_told_and_keeps_the_finalizer():
    world = await attached_world(pv=SECRET)
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        error = await world.error("detachError")
        await world.settle(20)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert 'failed to load secret "default/secret": secrets "secret" not found' == error["message"]
    assert "errorCode" not in error
    assert FINALIZER in va["metadata"]["finalizers"]
    assert [] == world.driver.made(UNPUBLISH)


@each_row(
    ("step", "message"),
    [
        pytest.param(Fail(Code.INTERNAL, "busy"), "rpc error: code = Internal desc = busy", id="DT05"),
        pytest.param(Wait(60.0), "rpc error: code = DeadlineExceeded desc = context deadline exceeded", id="DT06"),
        pytest.param(
            Fail(Code.NOT_FOUND, "no such volume"), "rpc error: code = NotFound desc = no such volume", id="DT13"
        ),
        pytest.param(Lose(Code.UNAVAILABLE, "lost"), "rpc error: code = Unavailable desc = lost", id="lost-answer"),
    ],
)
async def test_a_failed_detach_is_told_and_tried_again(step, message):
    world = await attached_world(finalizers=[FINALIZER, "kit/hold"])
    world.driver.script(UNPUBLISH, step)
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        error = await world.error("detachError")
        assert message == error["message"]
        assert "errorCode" not in error
        assert FINALIZER in (await world.get(VOLUME_ATTACHMENTS, VA))["metadata"]["finalizers"]
        va = await world.status(lambda status: not status["attached"])
    assert {"attached": False} == va["status"]
    assert [UNPUBLISH, PATCH_STATUS, UNPUBLISH, PATCH_VA, PATCH_STATUS] == world.story


NO_MACHINE = Fail(Code.NOT_FOUND, "no such machine")


async def test_a_detach_from_a_deleted_machine_ends_where_the_driver_does_not_know_it_either():
    """external-attacher keeps such an attachment for ever, but its volume goes to another node all the same."""
    world = await attached_world(pv={"modes": ["ReadWriteOnce"]})
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}))
    world.driver.always(UNPUBLISH, NO_MACHINE)
    async with world.attaching(a_va("pv1-node2", node="node2")):
        await world.delete(VOLUME_ATTACHMENTS, VA)
        assert "no such machine" in (await world.error("detachError"))["message"]
        await world.settle(600.0)  # the node is there: an error, as long as it is
        assert not (await world.get(VOLUME_ATTACHMENTS, "pv1-node2"))["status"]["attached"]
        await world.delete(CSI_NODES, "node1")
        await world.gone(VOLUME_ATTACHMENTS, VA, wait_s=5.0)
        await world.attached("pv1-node2")


@each_row("refused", [False, True], ids=["it-says-so", "it-does-not-say"])
async def test_a_node_that_the_api_server_has_is_no_deleted_machine_though_its_csi_node_is_not_there(refused):
    """It was made anew, and its kubelet has registered no driver yet."""
    world = await attached_world()
    await world.create(a_node("node1"))
    await world.delete(CSI_NODES, "node1")
    world.driver.always(UNPUBLISH, NO_MACHINE)
    rules = [world.cluster.refuse("get nodes", times=None)] if refused else []
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        assert "no such machine" in (await world.error("detachError"))["message"]
        await world.settle(600.0)
        assert await world.find(VOLUME_ATTACHMENTS, VA) is not None
        await world.delete(NODES, "node1")
        for rule in rules:
            rule.times = 0
        await world.gone(VOLUME_ATTACHMENTS, VA)


@each_row(
    ("nodes", "step"),
    [
        pytest.param([a_csi_node(drivers={})], NO_MACHINE, id="the-driver-is-not-registered-on-the-node"),
        pytest.param([], Fail(Code.INTERNAL), id="another-error"),
        pytest.param([], Fail(Code.UNAVAILABLE), id="no-answer"),
    ],
)
async def test_any_other_failed_detach_goes_on(nodes, step):
    world = await attached_world()
    await world.delete(CSI_NODES, "node1")
    await world.create(*nodes)
    world.driver.always(UNPUBLISH, step)
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.settle(600.0)
        assert await world.find(VOLUME_ATTACHMENTS, VA) is not None


async def test_the_machine_is_looked_for_when_the_driver_has_answered():
    """The cache has not seen yet that the node is back; or the API server does not say."""
    faults = HeldWatch("csinodes")
    world = await attached_world(AttacherWorld(faults=faults))
    await world.delete(CSI_NODES, "node1")
    world.driver.always(UNPUBLISH, NO_MACHINE)
    async with world.attaching():
        await world.settle()
        faults.hold()
        await world.create(a_csi_node())
        world.cluster.refuse(GET_NODE)
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.settle(600.0)
        assert await world.find(VOLUME_ATTACHMENTS, VA) is not None


async def test_DT05_the_object_says_attached_while_its_detach_fails():
    """Issue 27, A12."""
    world = await attached_world()
    world.driver.always(UNPUBLISH, Fail(Code.INTERNAL, "busy"))
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.error("detachError")
        await world.settle(60)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert (True, [FINALIZER]) == (va["status"]["attached"], va["metadata"]["finalizers"])


async def test_DT07_without_the_finalizer_no_request(world: AttacherWorld):
    await world.create(a_va(finalizers=["kit/hold"]))
    await world.delete(VOLUME_ATTACHMENTS, VA)
    async with world.attaching():
        await world.patch(VOLUME_ATTACHMENTS, VA, {"metadata": {"labels": {"touched": "yes"}}})
        await world.settle(1300)
    assert [] == world.story


async def test_DT08_a_volume_that_comes_back_lets_the_detach_go_on():
    world = AttacherWorld(retry_interval_start_s=100.0)
    await world.create(a_csi_node(), an_attached_va())
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        assert 'persistentvolume "pv1" not found' == (await world.error("detachError"))["message"]
        await world.settle(700)
        assert [GET_PV, PATCH_STATUS] == world.story
        await world.create(a_held_pv())
        await world.gone(VOLUME_ATTACHMENTS, VA, wait_s=1)


async def test_DT10_no_node_id_anywhere_is_told():
    world = AttacherWorld()
    await world.create(a_held_pv(), an_attached_va(annotations={"a": "b"}))
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        assert 'csinode.storage.k8s.io "node1" not found' == (await world.error("detachError"))["message"]
        await world.settle(100)
    assert [] == world.driver.made(UNPUBLISH)


async def test_DT11_a_node_that_is_gone_is_served_by_the_annotation():
    world = AttacherWorld()
    await world.create(a_held_pv(), an_attached_va(annotations={NODE_ID_ANNOTATION: "annotatedNodeID"}))
    await detached(world)
    assert "annotatedNodeID" == world.driver.made(UNPUBLISH)[0].request.node_id


async def test_DT12_a_refused_release_repeats_the_call():
    world = await attached_world()
    world.cluster.refuse(PATCH_VA)
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        assert "could not mark as detached: not now" == (await world.error("detachError"))["message"]
        await world.gone(VOLUME_ATTACHMENTS, VA)
    assert [UNPUBLISH, PATCH_VA, PATCH_STATUS, UNPUBLISH, PATCH_VA] == world.story


# -- the volume's finalizer


async def pv_world(**pv: Any) -> AttacherWorld:
    """A deleted PV with the finalizer."""
    world = await AttacherWorld().base(**pv)
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    return world


async def test_PV01_a_deleted_volume_without_attachment_is_released():
    world = await pv_world()
    async with world.attaching():
        await world.gone(PERSISTENT_VOLUMES, "pv1")
        await world.settle()
    assert [PATCH_PV] == world.story


async def test_PV05_the_last_attachment_keeps_the_volume():
    world = await attached_world()
    async with world.attaching():
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.settle(700)
        assert [] == world.story
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.gone(PERSISTENT_VOLUMES, "pv1")
    assert [UNPUBLISH, PATCH_VA, PATCH_PV] == world.story


@each_row("attacher", [DRIVER, "other"])
async def test_PV05_an_attachment_of_any_attacher_keeps_it(attacher):
    world = await pv_world()
    await world.create(a_va(attacher=attacher, finalizers=["kit/hold"]))
    async with world.attaching():
        await world.settle(20)
        assert [] == world.cluster.writes(PATCH_PV)
        await world.patch(VOLUME_ATTACHMENTS, VA, {"metadata": {"finalizers": None}})
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.gone(PERSISTENT_VOLUMES, "pv1")


async def test_PV06_only_its_own_entry_goes():
    world = await pv_world(finalizers=[FINALIZER, "kit/second", "kit/third"])
    async with world.attaching():
        await world.settle()
    assert ["kit/second", "kit/third"] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    path = "/metadata/finalizers/0"
    assert [{"op": "test", "path": path, "value": FINALIZER}, {"op": "remove", "path": path}] == world.changes(
        PATCH_PV
    )[0]


async def test_a_finalizer_whose_place_has_changed_is_taken_off_at_once():
    """Provisioner and binder let a volume go in the same moment; nobody waits for a back-off."""
    world = await pv_world(finalizers=["kit/first", "kit/second", FINALIZER])
    hold = world.cluster.hold(PATCH_PV)
    async with world.attaching():
        await hold.begun.wait()
        began = world.clock.now()
        await world.set_finalizers(PERSISTENT_VOLUMES, "pv1", ["kit/second", FINALIZER])
        hold.go.set()
        await world.settle(0.1)
        assert ["kit/second"] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert ["/metadata/finalizers/2", "/metadata/finalizers/1"] == [
        steps[0]["path"] for steps in world.changes(PATCH_PV)
    ]
    assert world.clock.now() - began < 1.0


async def test_PV07_a_refused_release_is_tried_again_after_the_back_off():
    world = await pv_world()
    world.cluster.refuse(PATCH_PV, times=2, error=Forbidden("no", reason="Forbidden"))
    async with world.attaching():
        began = world.clock.now()
        await world.gone(PERSISTENT_VOLUMES, "pv1")
    assert [PATCH_PV] * 3 == world.story
    assert 2.5 <= world.clock.now() - began <= 3.6  # one second, then two


async def test_PV08_a_volume_of_another_driver_causes_no_request():
    world = await pv_world(finalizers=["kit/hold"])
    async with world.attaching():
        await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"labels": {"touched": "yes"}}})
        await world.settle(20)
    assert [] == world.story


@each_row(("migrated_to", "kept"), [pytest.param(None, False, id="PV09"), pytest.param(DRIVER, True, id="PV10")])
async def test_a_rolled_back_volume_is_released(migrated_to, kept):
    annotations = {"pv.kubernetes.io/migrated-to": migrated_to} if migrated_to else None
    world = await AttacherWorld().base(source={"gcePersistentDisk": {"pdName": "d"}}, annotations=annotations)
    async with world.attaching():
        await world.settle()
    assert ([] if kept else [PATCH_PV]) == world.story
    assert kept is (FINALIZER in (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"].get("finalizers", []))


# -- the backend's reports

LISTS = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.PUBLISH_READONLY, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)


def a_listing_world(**options: Any) -> AttacherWorld:
    return AttacherWorld(ScriptedDriver(controller=LISTS), **{"reconcile_sync_s": 10.0, **options})


def work(world: AttacherWorld) -> list[str]:
    return [step for step in world.story if step != LIST]


async def test_RC01_what_the_backend_lost_is_published_once():
    world = await attached_world(a_listing_world())
    world.driver.published["handle1"].clear()
    async with world.attaching():
        await world.settle(50)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert [GET_VA, PUBLISH, GET_VA] == work(
        world
    )  # (nothing to write; but is there somebody who wants it, before and after?)
    assert {"attached": True} == va["status"]
    assert 4 <= world.story.count(LIST) <= 6


async def test_what_is_gone_in_the_api_is_not_published_again_by_an_old_cache():
    """Its watch is silent, and another attacher has let it go: nobody would unpublish it."""
    world = await attached_world(a_listing_world())
    world.cluster.refuse(GET_VA, times=None, error=NotFound("gone", reason="NotFound"))
    world.driver.published["handle1"].clear()
    async with world.attaching():
        await world.settle(50)
    assert [] == world.driver.made(PUBLISH)


async def test_what_is_being_deleted_in_the_api_is_detached_and_not_published_again_by_an_old_cache():
    """Another attacher may have detached it meanwhile, and be about to let it go: then nobody would unpublish it."""
    watch = HeldWatch("volumeattachments")
    world = await attached_world(AttacherWorld(ScriptedDriver(controller=LISTS), watch, reconcile_sync_s=10.0))
    async with world.attaching():
        await world.settle(1)
        watch.hold()
        await world.delete(VOLUME_ATTACHMENTS, VA)
        world.driver.published["handle1"].clear()
        await world.settle(50)
        watch.let_go()
        await world.gone(VOLUME_ATTACHMENTS, VA)
    assert [GET_VA, UNPUBLISH, PATCH_VA] == work(world)


async def test_RC01_a_failed_repair_keeps_trying_with_back_off_and_stays_attached():
    """The peer forgets it until the next round finds it again."""
    world = await attached_world(a_listing_world(reconcile_sync_s=10_000.0))
    world.driver.published["handle1"].clear()
    world.driver.script(PUBLISH, Fail(Code.INTERNAL), Fail(Code.INTERNAL))
    async with world.attaching():
        await world.settle(0.5)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
        assert (True, 13) == (va["status"]["attached"], va["status"]["attachError"]["errorCode"])
        va = await world.status(lambda status: "attachError" not in status, wait_s=10)
    assert va["status"]["attached"]
    assert 3 == len(world.driver.made(PUBLISH))


async def replaced_machine() -> AttacherWorld:
    """Attached, with the device on the machine that was node1; node1 is another machine by now."""
    world = await attached_world(a_listing_world(), status={"attached": True, "attachmentMetadata": {"device": "old"}})
    await world.delete(CSI_NODES, "node1")
    await world.create(a_csi_node(drivers={DRIVER: "nodeID2"}))
    world.driver.published["handle1"].clear()
    world.driver.publish_context = {"device": "new"}
    return world


async def test_a_node_that_is_another_machine_by_now_gets_the_volume_and_its_device_is_told():
    world = await replaced_machine()
    async with world.attaching():
        va = await world.status(lambda status: status["attachmentMetadata"] == {"device": "new"})
        await world.settle(50)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert [PATCH_VA, PUBLISH, PATCH_STATUS, PATCH_VA] == work(world)
    assert {NODE_ID_ANNOTATION: "nodeID2"} == va["metadata"]["annotations"]
    assert {"nodeID2"} == world.driver.published["handle1"]


async def test_a_crash_after_the_publish_on_the_new_machine_leaves_no_former_device():
    """The next attacher finds it attached and published, and could not see that the device is that of the former
    machine.
    """
    world = await replaced_machine()
    world.cluster.refuse(PATCH_STATUS)
    async with world.attaching():
        await world.until(lambda: _published(world))
        await world.settle(0.1)  # and before anything was tried again
    async with world.attaching():
        va = await world.status(lambda status: status["attachmentMetadata"] == {"device": "new"}, wait_s=5.0)
        await world.settle(50)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert {NODE_ID_ANNOTATION: "nodeID2"} == va["metadata"]["annotations"]
    assert [PUBLISH, PUBLISH] == [step for step in world.story if step == PUBLISH]


async def test_a_confirmation_that_was_refused_is_saved_later():
    world = await replaced_machine()
    gate = world.driver.gate(PUBLISH)
    async with world.attaching():
        await world.until(lambda: _asked(world))
        world.cluster.refuse(PATCH_VA, times=2)
        gate.set()
        await world.settle(50)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert {NODE_ID_ANNOTATION: "nodeID2"} == va["metadata"]["annotations"]
    assert {"attached": True, "attachmentMetadata": {"device": "new"}} == va["status"]


async def _asked(world: AttacherWorld) -> bool:
    return bool(world.driver.made(PUBLISH))


async def _published(world: AttacherWorld) -> bool:
    return bool(world.driver.published["handle1"])


async def test_RC02_agreement_causes_no_request():
    world = await attached_world(a_listing_world())
    async with world.attaching():
        await world.settle(50)
    assert [] == work(world)


async def test_RC03_what_the_backend_has_too_much_is_unpublished_without_a_write():
    world = await AttacherWorld(ScriptedDriver(controller=LISTS), reconcile_sync_s=10.0).base()
    await world.create(a_va(finalizers=["kit/hold"], annotations={NODE_ID_ANNOTATION: "nodeID1"}))
    await world.delete(VOLUME_ATTACHMENTS, VA)
    world.driver.published["handle1"].add("nodeID1")
    async with world.attaching():
        await world.settle(50)
    assert [UNPUBLISH] == work(world)


async def test_RC04_volumes_that_nobody_mentions_are_left_alone():
    world = await a_listing_world().base()
    world.driver.published["stranger"].add("x")
    async with world.attaching():
        await world.settle(50)
    assert [] == work(world)
    assert {"x"} == world.driver.published["stranger"]


async def test_RC05_attachments_of_another_attacher_are_ignored(capsys):
    world = await a_listing_world().base()
    await world.create(an_attached_va(attacher="other"))
    async with world.attaching():
        await world.settle(50)
    assert [] == work(world)
    assert VA not in capsys.readouterr().err


async def test_RC06_a_page_that_fails_ends_the_round_and_changes_nothing():
    world = await attached_world(a_listing_world(max_entries=1))
    world.driver.published["handle1"].clear()
    world.driver.published["other"].add("x")
    world.driver.always(LIST, lambda request: Fail(Code.ABORTED, "no such token") if request.starting_token else None)
    async with world.attaching():
        await world.settle(35)
        assert [] == work(world)
        assert ["", "1", "", "1", "", "1", "", "1"] == [call.request.starting_token for call in world.driver.made(LIST)]
        world.driver.forget_scripts()
        await world.settle(15)
    assert [GET_VA, PUBLISH, GET_VA] == work(world)


@each_row("controller", [LISTS[:3], LISTS[:2]], ids=["no-nodes", "neither"])
async def test_RC07_a_driver_that_cannot_say_is_not_asked(controller):
    world = await attached_world(AttacherWorld(ScriptedDriver(controller=controller), reconcile_sync_s=1.0))
    async with world.attaching():
        await world.settle(20)
    assert [] == world.driver.made(LIST)


async def test_a_repeated_page_token_ends_the_round():
    world = await attached_world(a_listing_world())
    world.driver.published["handle1"].clear()

    async def endless(request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        world.story.append(LIST)
        return csi.ListVolumesResponse(next_token="again")

    world.driver.list_volumes = endless  # type: ignore[method-assign]
    async with world.attaching():
        await world.settle(25)
    assert [LIST] * 6 == world.story


async def test_a_volume_without_status_says_nothing():
    world = await attached_world(a_listing_world())

    async def mute(request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        return csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "handle1"}}, {}])

    world.driver.list_volumes = mute  # type: ignore[method-assign]
    async with world.attaching():
        await world.settle(25)
    assert [] == world.story


async def test_a_report_that_has_not_changed_does_not_break_the_back_off():
    world = await attached_world(a_listing_world(reconcile_sync_s=1.0, retry_interval_start_s=30.0, resync_s=0.0))
    world.driver.published["handle1"].clear()
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.attaching():
        await world.settle(25)
        assert 1 == len(world.driver.made(PUBLISH))


async def test_a_report_from_before_the_publish_is_not_believed():
    """ListVolumes looked before, and answers after the volume was published: nothing is missing."""
    world = await a_listing_world(reconcile_sync_s=10_000.0).base()
    await world.create(a_va())
    world.driver.published["handle1"].clear()
    real = world.driver.list_volumes

    async def slow(request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        answer = await real(request)
        await world.settle(5)
        return answer

    world.driver.list_volumes = slow  # type: ignore[method-assign]
    async with world.attaching():
        await world.settle(20)
    assert 1 == len(world.driver.made(PUBLISH))


async def test_a_difference_breaks_the_back_off():
    world = await a_listing_world(reconcile_sync_s=5.0, retry_interval_start_s=100.0).base()
    world.driver.script(PUBLISH, Lose(Code.DEADLINE_EXCEEDED, "lost"))
    async with world.attaching(a_va()):
        await world.attached(wait_s=12)
