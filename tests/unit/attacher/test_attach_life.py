"""Attaching from the first event to the last write: lines of docs/behaviours/attacher.md, on the in-process ports."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_NODES, VOLUME_ATTACHMENTS
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.cluster import Request
from mooring.kube.errors import Forbidden, Invalid, ServerError
from mooring.wire.grpc.codes import Code
from tests.support.attaching import (
    GET_NODE,
    GET_PV,
    GET_SECRET,
    PATCH_PV,
    PATCH_STATUS,
    PATCH_VA,
    PUBLISH,
    STD_ATTACH,
    UNPUBLISH,
    AttacherWorld,
)
from tests.support.builders import (
    DRIVER,
    FINALIZER,
    NODE_ID_ANNOTATION,
    a_csi_node,
    a_held_pv,
    a_secret,
    a_va,
    an_attached_va,
)
from tests.support.cluster_world import LateWatch
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose, ScriptedDriver, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
SECRET = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}


async def test_AT01_three_steps_and_nothing_else(world: AttacherWorld):
    async with world.attaching(a_va()):
        va = await world.attached()
        await world.settle(200)
    assert STD_ATTACH == world.story
    assert {"metadata": {"annotations": {NODE_ID_ANNOTATION: "nodeID1"}, "finalizers": [FINALIZER]}} == world.changes(
        PATCH_VA
    )[0]
    assert {"status": {"attached": True}} == world.changes(PATCH_STATUS)[0]
    assert ("MERGE", "MERGE") == (world.last(PATCH_VA).patch_type, world.last(PATCH_STATUS).patch_type)
    assert [FINALIZER] == va["metadata"]["finalizers"]
    request = world.driver.made(PUBLISH)[0].request
    assert ("handle1", "nodeID1") == (request.volume_id, request.node_id)


async def test_AT02_an_updated_attachment_is_attached(world: AttacherWorld):
    await world.create(an_attached_va())
    async with world.attaching():
        await world.settle()
        assert [] == world.story
        await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"metadata": {"finalizers": None, "annotations": None}})
        await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"status": {"attached": False}}, subresource="status")
        await world.attached()
        await world.settle()
    assert STD_ATTACH == world.story


@each_row("others", [[], ["kit/other"]], ids=["absent", "present"])
async def test_AT03_the_volume_is_held_first(others):
    world = await AttacherWorld().base(finalizers=others)
    async with world.attaching(a_va()):
        await world.attached()
    assert [PATCH_PV, *STD_ATTACH] == world.story
    path = "/metadata/finalizers"
    absent = [{"op": "test", "path": path, "value": None}, {"op": "add", "path": path, "value": [FINALIZER]}]
    present = [{"op": "add", "path": f"{path}/-", "value": FINALIZER}]
    assert [present if others else absent] == world.changes(PATCH_PV)
    assert "JSON" == world.last(PATCH_PV).patch_type
    assert [*others, FINALIZER] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]


@each_row(("data", "sent"), [({"foo": "YmFy"}, {"foo": "bar"}), ({}, {})], ids=["AT07", "AT08"])
async def test_the_secret_travels_in_the_call(data, sent):
    world = await AttacherWorld().base(**SECRET)
    await world.create(a_secret(data=data))
    async with world.attaching(a_va()):
        await world.attached()
    assert [GET_SECRET, *STD_ATTACH] == world.story
    assert sent == dict(world.driver.made(PUBLISH)[0].request.secrets)


async def test_AT09_a_missing_secret_is_told_and_tried_again():
    world = await AttacherWorld().base(**SECRET)
    async with world.attaching(a_va()):
        error = await world.error()
        await world.settle()
        assert [GET_SECRET, PATCH_STATUS] == world.story
        assert 'failed to load secret "default/secret": secrets "secret" not found' == error["message"]
        assert "errorCode" not in error
        await world.create(a_secret(data={"foo": "YmFy"}))
        va = await world.attached()
    assert "attachError" not in va["status"]


async def test_AT10_the_publish_context_is_saved(world: AttacherWorld):
    world.driver.publish_context = {"foo": "bar"}
    async with world.attaching(a_va()):
        va = await world.attached()
    assert {"foo": "bar"} == va["status"]["attachmentMetadata"]
    assert {"status": {"attached": True, "attachmentMetadata": {"foo": "bar"}}} == world.changes(PATCH_STATUS)[0]


async def test_AT11_an_attached_one_causes_no_request(world: AttacherWorld):
    await world.create(an_attached_va())
    async with world.attaching():
        await world.settle()
        await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"metadata": {"labels": {"touched": "yes"}}})
        await world.settle(1300)  # two resyncs
    assert [] == world.story


async def test_AT12_a_volume_marked_for_deletion_is_not_attached():
    world = await AttacherWorld().base(finalizers=[FINALIZER, "kit/hold"])
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    async with world.attaching(a_va()):
        error = await world.error()
        await world.settle()
    assert 'PersistentVolume "pv1" is marked for deletion' == error["message"]
    assert [] == world.driver.made(PUBLISH)


async def test_AT13_a_foreign_attachment_causes_no_request(world: AttacherWorld):
    async with world.attaching(a_va(attacher="other")):
        await world.settle(1300)
    assert [] == world.story


async def test_AT14_the_arrival_of_the_volume_ends_the_back_off():
    world = AttacherWorld(retry_interval_start_s=100.0)
    await world.create(a_csi_node())
    async with world.attaching(a_va()):
        assert 'persistentvolume "pv1" not found' == (await world.error())["message"]
        await world.create(a_held_pv())
        va = await world.attached(wait_s=1)
    assert "attachError" not in va["status"]


async def test_AT15_an_error_that_could_not_be_saved_is_saved_later():
    world = AttacherWorld()
    await world.create(a_csi_node())
    rule = world.cluster.refuse(PATCH_STATUS, times=2)
    async with world.attaching(a_va()):
        error = await world.error()
    assert 2 == rule.hits
    assert [GET_PV, PATCH_STATUS] * 3 == world.story
    assert 'persistentvolume "pv1" not found' == error["message"]


async def test_an_attachment_that_overtakes_its_volume_and_node_is_told_no_error():
    """Watches of different kinds are not in step: what the cache lacks is asked for before it is told to be missing."""
    world = AttacherWorld(faults=LateWatch("persistentvolumes", "csinodes"))
    async with world.attaching():
        await world.settle()
        await world.create(a_csi_node(), a_held_pv(), a_va())
        await world.attached()
        await world.settle()
    assert [GET_PV, GET_NODE, *STD_ATTACH] == world.story


async def test_AT18_the_arrival_of_the_csinode_ends_the_back_off():
    world = AttacherWorld(retry_interval_start_s=100.0)
    await world.create(a_held_pv())
    async with world.attaching(a_va()):
        assert 'csinode.storage.k8s.io "node1" not found' == (await world.error())["message"]
        await world.create(a_csi_node())
        await world.attached(wait_s=1)


async def test_AT19_the_registration_of_the_driver_ends_the_back_off():
    world = AttacherWorld(retry_interval_start_s=100.0)
    await world.create(a_held_pv(), a_csi_node(drivers={"other": "x"}))
    async with world.attaching(a_va(annotations={NODE_ID_ANNOTATION: "nodeID1"})):
        assert f"CSINode node1 does not contain driver {DRIVER}" == (await world.error())["message"]
        await world.patch(CSI_NODES, "node1", {"spec": {"drivers": a_csi_node()["spec"]["drivers"]}})
        await world.attached(wait_s=1)


async def test_an_unchanged_error_is_not_written_again():
    """external-attacher patches the time of the same error at each retry."""
    world = AttacherWorld()
    await world.create(a_csi_node())
    async with world.attaching(a_va()):
        await world.error()
        await world.settle(600)
    assert [GET_PV, PATCH_STATUS] == world.story


async def test_AT20_a_refused_volume_patch_is_told_and_tried_again():
    world = await AttacherWorld().base(finalizers=None)
    world.cluster.refuse(PATCH_PV)
    async with world.attaching(a_va()):
        assert "could not add PersistentVolume finalizer: not now" == (await world.error())["message"]
        va = await world.attached()
    assert [PATCH_PV, PATCH_STATUS, PATCH_PV, *STD_ATTACH] == world.story
    assert {"status": {"attached": True, "attachError": None}} == world.changes(PATCH_STATUS)[-1]
    assert "attachError" not in va["status"]


async def test_AT21_a_refused_claim_means_no_call(world: AttacherWorld):
    world.cluster.refuse(PATCH_VA, times=2)
    world.cluster.refuse(PATCH_STATUS, times=2)
    async with world.attaching(a_va()):
        await world.attached()
    assert [PATCH_VA, PATCH_STATUS, PATCH_VA, PATCH_STATUS, *STD_ATTACH] == world.story


async def test_AT22_a_refused_last_step_repeats_the_call_and_tells_nobody(world: AttacherWorld):
    world.cluster.refuse(PATCH_STATUS)
    async with world.attaching(a_va()):
        await world.attached()
    assert [*STD_ATTACH, PUBLISH, PATCH_STATUS] == world.story
    assert all("attachError" not in body["status"] for body in world.bodies(PATCH_STATUS))


async def test_AT22_a_context_that_the_server_refuses_for_good_is_told(world: AttacherWorld):
    """Asking again would get the same answer: without a word the user would wait for ever."""
    world.cluster.refuse(PATCH_STATUS, error=Invalid("too large", reason="Invalid"))
    async with world.attaching(a_va()):
        assert "could not save the driver's publish_context: too large" == (await world.error())["message"]


@each_row(
    ("step", "message", "code"),
    [
        pytest.param(Fail(Code.UNKNOWN, "mock error"), "rpc error: code = Unknown desc = mock error", 2, id="AT23"),
        pytest.param(Wait(60.0), "rpc error: code = DeadlineExceeded desc = context deadline exceeded", 4, id="AT24"),
        pytest.param(
            Fail(Code.RESOURCE_EXHAUSTED, "mock rpc error"),
            "rpc error: code = ResourceExhausted desc = mock rpc error",
            8,
            id="AT25",
        ),
    ],
)
async def test_a_failed_call_is_told_tried_again_and_cleared(step, message, code):
    world = await AttacherWorld().base()
    world.driver.script(PUBLISH, step)
    async with world.attaching(a_va()):
        error = await world.error()
        assert (message, code) == (error["message"], error["errorCode"])
        va = await world.attached()
        await world.settle()
    assert {"attached": True} == va["status"]
    assert [PATCH_VA, PUBLISH, PATCH_STATUS, PUBLISH, PATCH_STATUS] == world.story


async def test_AT26_with_the_gate_off_no_code_is_told():
    world = await AttacherWorld(report_error_codes=False).base()
    world.driver.script(PUBLISH, Fail(Code.RESOURCE_EXHAUSTED))
    async with world.attaching(a_va()):
        assert "errorCode" not in await world.error()


async def test_a_long_error_is_cut_so_that_the_server_takes_it(world: AttacherWorld, capsys):
    world.driver.script(PUBLISH, Fail(Code.INTERNAL, "é" * 2000))
    async with world.attaching(a_va()):
        message = (await world.error())["message"]
    assert len(message.encode()) <= 1024
    assert len(capsys.readouterr().err) < 3000
    assert message.startswith("rpc error: code = Internal desc = éé")
    assert message.endswith("...")


async def test_AT27_an_inline_volume_asks_nothing_about_volumes():
    world = AttacherWorld()
    await world.create(a_csi_node())
    inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": DRIVER, "volumeHandle": "inline1", "readOnly": True}}
    async with world.attaching(a_va(pv=None, inline=inline)):
        await world.attached()
    assert STD_ATTACH == world.story
    request = world.driver.made(PUBLISH)[0].request
    assert ("inline1", 1, True) == (request.volume_id, request.volume_capability.access_mode.mode, request.readonly)


def gaps(world: AttacherWorld) -> list[float]:
    calls = world.driver.made(PUBLISH)
    return [later.started_s - earlier.ended_s for earlier, later in itertools.pairwise(calls)]


async def test_AT32_the_back_off_doubles_up_to_five_minutes(world: AttacherWorld):
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.attaching(a_va()):
        await world.settle(550)
    wanted = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert all(0.85 * want <= gap <= 1.15 * want for want, gap in zip(wanted, gaps(world), strict=False)), gaps(world)
    assert 8 <= len(gaps(world))


async def test_AT32_the_ceiling_holds():
    world = await AttacherWorld(retry_interval_max_s=3.0, resync_s=0.0).base()
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.attaching(a_va()):
        await world.settle(60)
    assert max(gaps(world)) <= 3.4


async def failing(world: AttacherWorld) -> int:
    """Sits in a long back-off; returns the number of tries."""
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    await world.create(a_va())
    await world.error()
    await world.settle()
    return len(world.driver.made(PUBLISH))


async def test_AT33_error_updates_do_not_break_the_back_off():
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=0.0).base()
    async with world.attaching():
        tries = await failing(world)
        for field in ("attachError", "detachError"):
            error = {"message": "by hand", "time": "2026-01-01T00:00:00Z"}
            await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"status": {field: error}}, subresource="status")
        await world.settle(20)
        assert tries == len(world.driver.made(PUBLISH))


async def test_AT34_a_resync_breaks_the_back_off():
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=5.0).base()
    async with world.attaching():
        tries = await failing(world)
        await world.settle(6)
        assert tries < len(world.driver.made(PUBLISH))


async def test_AT35_other_updates_break_the_back_off():
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=0.0).base()
    async with world.attaching():
        tries = await failing(world)
        await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"metadata": {"annotations": {"touched": "yes"}}})
        await world.settle()
        assert tries + 1 == len(world.driver.made(PUBLISH))


async def test_AT36_a_running_publish_is_not_cancelled_by_the_deletion(world: AttacherWorld):
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va()):
        await world.until(lambda: _true_when(world.driver.made(PUBLISH)))
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.settle()
        assert None is world.driver.made(PUBLISH)[0].code
        gate.set()
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
    calls = world.driver.made(PUBLISH, UNPUBLISH)
    assert [(PUBLISH, Code.OK), (UNPUBLISH, Code.OK)] == [(call.method, call.code) for call in calls]
    assert [] == world.driver.overlaps
    assert set() == world.driver.published["handle1"]


async def _true_when(value: object) -> bool:
    return bool(value)


# -- what has no id


async def test_many_attachments_cost_two_writes_and_one_call_each():
    world = AttacherWorld()
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(50)))
    async with world.attaching():
        for number in range(50):
            await world.create(a_va(f"va{number}", f"pv{number}"))
        for number in range(50):
            await world.attached(f"va{number}")
        await world.settle()
    assert dict.fromkeys(STD_ATTACH, 50) == {step: world.story.count(step) for step in STD_ATTACH}
    assert 150 == len(world.story)


async def test_a_lost_answer_of_the_driver_is_asked_for_again(world: AttacherWorld):
    world.driver.script(PUBLISH, Lose())
    async with world.attaching(a_va()):
        va = await world.attached()
    first, second = world.driver.made(PUBLISH)
    assert first.request == second.request
    assert {"attached": True} == va["status"]


async def test_a_lost_answer_of_the_api_server_loses_nothing():
    world = await AttacherWorld().base(finalizers=None)
    for short in (PATCH_PV, PATCH_VA, PATCH_STATUS):
        world.cluster.refuse(short, error=ServerError("lost", reason="InternalError"), after=True)
    async with world.attaching(a_va()):
        va = await world.attached()
        await world.settle(100)
        va = await world.get(VOLUME_ATTACHMENTS, "pv1-node1")
    assert [FINALIZER] == va["metadata"]["finalizers"]
    assert {"attached": True} == va["status"]
    assert [FINALIZER] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]


async def test_another_finalizer_that_came_meanwhile_is_not_lost(world: AttacherWorld):
    world.driver.script(PUBLISH, Wait(1.0))
    await world.create(a_va(finalizers=["kit/one"]))
    async with world.attaching():
        await world.attached()
    assert ["kit/one", FINALIZER] == (await world.get(VOLUME_ATTACHMENTS, "pv1-node1"))["metadata"]["finalizers"]
    assert "resourceVersion" in world.bodies(PATCH_VA)[0]["metadata"]


async def test_not_more_calls_at_once_than_workers():
    world = AttacherWorld(worker_threads=3)
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(8)))
    gate = world.driver.gate(PUBLISH)
    async with world.attaching():
        for number in range(8):
            await world.create(a_va(f"va{number}", f"pv{number}"))
        await world.settle()
        assert 3 == len(world.driver.made(PUBLISH))
        gate.set()
        for number in range(8):
            await world.attached(f"va{number}")


async def test_slow_calls_do_not_hold_up_a_volume_that_needs_none():
    """Workers are not held by calls: an attachment that only needs an error told gets it at once."""
    world = AttacherWorld(worker_threads=2)
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(4)))
    world.driver.gate(PUBLISH)
    async with world.attaching():
        for number in range(4):
            await world.create(a_va(f"va{number}", f"pv{number}"))
        await world.create(a_va("stuck", "missing"))
        await world.settle(0.2)
        assert (
            'persistentvolume "missing" not found'
            == (await world.get(VOLUME_ATTACHMENTS, "stuck"))["status"]["attachError"]["message"]
        )


async def test_a_single_node_volume_moves_only_after_its_detach():
    world = await AttacherWorld().base(modes=["ReadWriteOnce"])
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}))
    world.driver.script(UNPUBLISH, Fail(Code.INTERNAL, "busy"))
    async with world.attaching(a_va()):
        await world.attached()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.create(a_va("pv1-node2", node="node2"))
        waiting = await world.error(name="pv1-node2")
        assert (
            'volume for a single node is still being detached from node "node1" (VolumeAttachment "pv1-node1")'
            == waiting["message"]
        )
        va = await world.attached("pv1-node2", wait_s=5)
    assert "attachError" not in va["status"]
    assert {"nodeID2"} == world.driver.published["handle1"]


async def test_room_on_a_full_node_wakes_who_waits_for_it():
    world = await AttacherWorld(retry_interval_start_s=100.0).base()
    await world.create(a_held_pv("pv2", "handle2"))
    async with world.attaching(a_va()):
        await world.attached()
        world.driver.script(PUBLISH, Fail(Code.RESOURCE_EXHAUSTED, "full"))
        await world.create(a_va("pv2-node1", "pv2"))
        await world.error(name="pv2-node1")
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.attached("pv2-node1", wait_s=5)


async def test_a_driver_that_is_back_wakes_who_waited_for_it():
    world = await AttacherWorld(retry_interval_start_s=100.0).base()
    world.driver.script(PUBLISH, Fail(Code.UNAVAILABLE, unsent=True))
    async with world.attaching(a_va()) as attacher:
        await world.error()
        attacher.driver_returned()
        await world.attached(wait_s=1)


async def test_a_name_that_was_used_before_starts_a_new_history():
    """Names are made from volume and node, so the same one comes again: its first failure must not wait for the old
    one's long delay.
    """
    world = await AttacherWorld(resync_s=0.0).base()
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.attaching(a_va()):
        await world.settle(300)
        await world.remove(VOLUME_ATTACHMENTS, "pv1-node1")
        before = len(world.driver.made(PUBLISH))
        await world.create(a_va())
        await world.settle(4)
        assert 3 == len(world.driver.made(PUBLISH)) - before


async def test_a_new_process_takes_up_what_the_last_one_left(world: AttacherWorld):
    world.driver.gate(PUBLISH)
    await world.create(a_va())
    async with world.attaching():
        await world.until(lambda: _true_when(world.driver.made(PUBLISH)))
    world.driver.gate(PUBLISH).set()
    async with world.attaching():
        await world.attached()
        await world.remove(VOLUME_ATTACHMENTS, "pv1-node1")
    assert set() == world.driver.published["handle1"]


async def test_draining_lets_a_running_call_end_and_be_stored(world: AttacherWorld):
    await world.create(a_held_pv("pv2", "handle2"), a_va(), a_va("pv2-node1", "pv2"))
    world.driver.script(PUBLISH, Wait(5.0), Wait(5.0))
    async with world.attaching() as attacher:
        await world.settle()
        await world.create(a_held_pv("pv3", "handle3"), a_va("pv3-node1", "pv3"))
        began = world.clock.now()
        drained = await attacher.drain(20.0)
        assert drained
        assert 4 < world.clock.now() - began < 6
        assert [True, True] == [
            (await world.get(VOLUME_ATTACHMENTS, f"pv{n}-node1"))["status"]["attached"] for n in (1, 2)
        ]


async def test_draining_gives_up_when_a_call_takes_too_long():
    world = await AttacherWorld(timeout_s=100.0).base()
    world.driver.gate(PUBLISH)
    async with world.attaching(a_va()) as attacher:
        await world.settle()
        assert not await attacher.drain(3.0)


async def test_an_attachment_torn_away_while_it_is_published_leaves_nothing_behind(world: AttacherWorld):
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va()):
        await world.until(lambda: _true_when(world.driver.made(PUBLISH)))
        await world.tear_away("pv1-node1")
        gate.set()
        await world.settle()
    assert set() == world.driver.published["handle1"]


# -- drivers without publish


def without_publish(plugin: tuple[int, ...] = ()) -> ScriptedDriver:
    return ScriptedDriver(plugin=plugin, controller=())


@each_row("plugin", [(), (csi.PluginCapability.Service.CONTROLLER_SERVICE,)], ids=["no-controller", "no-publish"])
async def test_TR01_one_status_patch_and_no_call(plugin):
    world = AttacherWorld(without_publish(plugin))
    async with world.attaching(a_va()):
        va = await world.attached()
        await world.remove(VOLUME_ATTACHMENTS, "pv1-node1")
    assert [PATCH_STATUS] == world.story
    assert {"status": {"attached": True}} == world.changes(PATCH_STATUS)[0]
    assert "finalizers" not in va["metadata"]


async def test_TR02_a_refused_status_is_tried_again():
    world = AttacherWorld(without_publish())
    world.cluster.refuse(PATCH_STATUS, times=2, error=Forbidden("no", reason="Forbidden"))
    async with world.attaching(a_va()):
        await world.attached()
    assert [PATCH_STATUS] * 3 == world.story


async def test_TR03_a_foreign_attachment_is_left_alone():
    world = AttacherWorld(without_publish())
    async with world.attaching(a_va(attacher="other")):
        await world.settle(100)
    assert [] == world.story


async def test_finalizers_of_a_time_with_publish_go_with_the_objects():
    world = AttacherWorld(without_publish())
    await world.create(a_held_pv(), an_attached_va())
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.settle()
        left = await world.get(PERSISTENT_VOLUMES, "pv1")
    assert FINALIZER not in left["metadata"].get("finalizers", [])
    assert [] == world.driver.made(UNPUBLISH)


async def test_a_refusal_of_attached_that_lasts_is_told(world: AttacherWorld):
    """An admission policy: other patches of the status pass, so that the user can hear of it."""
    refuse = world.cluster.ask

    async def ask(request: Request) -> Any:
        if request.subresource == "status" and request.body.body["status"].get("attached"):
            raise Forbidden("policy says no", reason="Forbidden")
        return await refuse(request)

    world.cluster.ask = ask  # type: ignore[method-assign]
    async with world.attaching(a_va()):
        assert "could not mark as attached: policy says no" == (await world.error())["message"]
        world.cluster.ask = refuse  # type: ignore[method-assign]
        assert "attachError" not in (await world.attached())["status"]


async def test_a_volume_for_a_single_node_is_one_under_whatever_names():
    """Two PersistentVolumes of one handle: the guard knows that, and so does the end of the first attachment."""
    world = await AttacherWorld(retry_interval_start_s=100.0, resync_s=0.0).base(modes=["ReadWriteOnce"])
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}), a_held_pv("same", modes=["ReadWriteOnce"]))
    async with world.attaching(a_va()):
        await world.attached()
        await world.create(a_va("same-node2", "same", "node2"))
        assert 'may be attached to node "node1"' in (await world.error(name="same-node2"))["message"]
        assert {"nodeID1"} == world.driver.published["handle1"]
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.attached("same-node2", wait_s=5.0)
    assert {"nodeID2"} == world.driver.published["handle1"]


async def test_a_look_up_for_one_attachment_wakes_the_others_of_the_volume():
    world = AttacherWorld(faults=LateWatch("persistentvolumes", seconds=20.0))
    await world.create(a_csi_node(), a_csi_node("node2", {DRIVER: "nodeID2"}), a_va())
    async with world.attaching():
        await world.error()
        await world.settle(400.0)  # the back-off is at its longest
        await world.create(a_held_pv())
        await world.create(a_va("pv1-node2", node="node2"))
        await world.attached("pv1-node2", wait_s=1.0)
        await world.attached(wait_s=1.0)


async def test_another_driver_s_volume_of_the_same_handle_is_another_volume():
    """Drivers count their volumes from one: the end of the other's attachment does not end our back-off."""
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=0.0).base()
    other = a_held_pv("others", source={"csi": {"driver": "other", "volumeHandle": "handle1"}})
    await world.create(other, a_va("others-node1", "others", attacher="other"))
    async with world.attaching():
        tries = await failing(world)
        await world.delete(VOLUME_ATTACHMENTS, "others-node1")
        await world.settle(20)
        assert tries == len(world.driver.made(PUBLISH))
