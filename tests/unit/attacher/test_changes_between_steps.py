"""The edges of attaching: what comes between any two steps, what waits for what, and what must not be remembered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.control.decision import Decision
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.attacher import controller
from mooring.sidecars.attacher.decide import decide_attachment
from mooring.sidecars.attacher.view import View
from mooring.wire.grpc.codes import Code
from tests.support.attaching import GET_SECRET, PATCH_PV, PATCH_STATUS, PATCH_VA, PUBLISH, UNPUBLISH, AttacherWorld
from tests.support.builders import DRIVER, FINALIZER, a_csi_node, a_held_pv, a_secret, a_va, an_attached_va
from tests.support.recording import RecordingCluster
from tests.support.rows import each_row
from tests.support.scripted_driver import RPC, Fail, Lose, ScriptedDriver, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
VA = "pv1-node1"
SECRET = {"controllerPublishSecretRef": {"name": "secret", "namespace": "default"}}
LISTS = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.PUBLISH_READONLY, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)


class Between(RecordingCluster):
    """before / after: coroutine functions run once per matching request, while it is on its way there / its answer on
    its way back.
    """

    def __init__(self, cluster: RecordingCluster) -> None:
        super().__init__(cluster._cluster, cluster.story)
        self.before: dict[str, Any] = {}
        self.after: dict[str, Any] = {}

    async def _asked(self, request: Any, made: Any) -> Any:
        before = self.before.pop(request.short, None)
        if before is not None:
            await before()
        answer = await super()._asked(request, made)
        after = self.after.get(request.short)
        if after is not None:
            await after()
        return answer


def with_between(world: AttacherWorld) -> Between:
    world.cluster = between = Between(world.cluster)
    return between


async def _made(world: AttacherWorld, method: str, count: int = 1) -> bool:
    return len(world.driver.made(method)) >= count


# -- work that queues for a call


async def test_draining_begins_no_new_calls():
    world = AttacherWorld(worker_threads=1)
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(4)))
    world.driver.always(PUBLISH, Wait(3.0))
    async with world.attaching() as attacher:
        for number in range(4):
            await world.create(a_va(f"va{number}", f"pv{number}"))
        await world.settle(1)
        assert 1 == len(world.driver.made(PUBLISH))
        began = world.clock.now()
        await attacher.drain(20.0)
        assert 1 == len(world.driver.made(PUBLISH))
        assert world.clock.now() - began < 3


async def test_slow_calls_do_not_hold_up_checks_however_many_there_are():
    world = AttacherWorld(worker_threads=2)
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(8)))
    world.driver.gate(PUBLISH)
    async with world.attaching():
        for number in range(8):
            await world.create(a_va(f"va{number}", f"pv{number}"))
        await world.settle()
        await world.create(a_va("stuck", "missing"))
        await world.settle(5)
        status = (await world.get(VOLUME_ATTACHMENTS, "stuck"))["status"]
    assert "attachError" in status, "nobody has looked at it in five seconds"


async def test_what_was_deleted_while_it_waited_for_a_call_is_not_published():
    world = AttacherWorld(worker_threads=1)
    await world.create(a_csi_node(), a_held_pv(), a_held_pv("pv2", "handle2"))
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.create(a_va("pv2-node1", "pv2"))
        await world.settle()
        await world.delete(VOLUME_ATTACHMENTS, "pv2-node1")
        await world.settle()
        gate.set()
        await world.gone(VOLUME_ATTACHMENTS, "pv2-node1")
    assert ["handle1"] == [call.request.volume_id for call in world.driver.made(PUBLISH)]


# -- waits that nobody ends


@each_row("how", ["detached-but-held-by-another", "finalizer-taken-by-hand"])
async def test_who_waits_for_a_single_node_volume_goes_on_when_it_is_free(how):
    world = await AttacherWorld(retry_interval_start_s=100.0, resync_s=0.0).base(modes=["ReadWriteOnce"])
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}))
    await world.create(an_attached_va(finalizers=[FINALIZER, "kit/hold"]))
    world.driver.published["handle1"].add("nodeID1")
    async with world.attaching(a_va("pv1-node2", node="node2")):
        await world.error(name="pv1-node2")
        await world.settle()
        if how == "detached-but-held-by-another":
            await world.delete(VOLUME_ATTACHMENTS, VA)
            await world.status(lambda status: not status["attached"])
        else:
            await world.set_finalizers(VOLUME_ATTACHMENTS, VA, ["kit/hold"])
        await world.attached("pv1-node2", wait_s=5)


async def test_a_registration_that_comes_while_the_volume_is_being_held_is_noticed():
    world = AttacherWorld(retry_interval_start_s=100.0, resync_s=0.0)
    await world.create(a_held_pv(finalizers=None))
    await world.set_finalizers(PERSISTENT_VOLUMES, "pv1", None)
    between = with_between(world)

    async def register() -> None:
        await world.create(a_csi_node())
        await asyncio.sleep(0.1)

    between.after[PATCH_PV] = register
    async with world.attaching(a_va()):
        await world.attached(wait_s=5)


async def test_room_that_came_while_the_driver_said_full_is_noticed():
    world = await AttacherWorld(retry_interval_start_s=100.0, resync_s=0.0).base()
    await world.create(a_held_pv("pv2", "handle2"))
    async with world.attaching(a_va()):
        await world.attached()
        world.driver.script(PUBLISH, Wait(2.0, Fail(Code.RESOURCE_EXHAUSTED, "full")))
        await world.create(a_va("pv2-node1", "pv2"))
        await world.until(lambda: _made(world, PUBLISH, 2))
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.attached("pv2-node1", wait_s=10)


# -- own writes


async def test_W3_the_event_of_an_own_write_that_overtakes_its_answer_does_not_break_the_back_off():
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=0.0).base()
    between = with_between(world)
    between.after[PATCH_VA] = lambda: asyncio.sleep(0.05)
    world.driver.always(PUBLISH, Fail(Code.INTERNAL, "busy"))
    async with world.attaching(a_va()):
        await world.error()
        await world.settle(20)
    assert 1 == len(world.driver.made(PUBLISH)), world.story


# -- what is left behind


async def test_a_detached_object_is_marked_detached_also_when_that_failed_once(world: AttacherWorld):
    await world.create(an_attached_va(finalizers=[FINALIZER, "kit/hold"]))
    world.cluster.refuse(PATCH_STATUS)
    async with world.attaching():
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.settle(1000)
        status = (await world.get(VOLUME_ATTACHMENTS, VA))["status"]
    assert {"attached": False} == status


async def test_a_detached_object_is_marked_detached_after_a_crash_between_the_two_writes():
    world = await AttacherWorld(ScriptedDriver(controller=LISTS), reconcile_sync_s=60.0).base()
    await world.create(an_attached_va(finalizers=["kit/hold"]))  # finalizer gone, status not yet written
    await world.delete(VOLUME_ATTACHMENTS, VA)
    async with world.attaching():
        await world.settle(1000)
        status = (await world.get(VOLUME_ATTACHMENTS, VA))["status"]
    assert {"attached": False} == status


async def test_a_difference_that_leads_to_nothing_is_logged_once(capsys):
    world = await AttacherWorld(ScriptedDriver(controller=LISTS), reconcile_sync_s=60.0).base()
    await world.create(an_attached_va(finalizers=["kit/hold"]))
    await world.delete(VOLUME_ATTACHMENTS, VA)
    async with world.attaching():
        await world.settle(1000)
    assert capsys.readouterr().err.count("the backend differs from the attachment") <= 2


async def test_nothing_is_remembered_of_attachments_that_are_gone():
    world = AttacherWorld()
    await world.create(a_csi_node(), *(a_held_pv(f"pv{n}", f"h{n}") for n in range(30)))
    async with world.attaching() as attacher:
        for number in range(30):
            await world.create(a_va(f"va{number}", f"pv{number}"))
            await world.attached(f"va{number}")
            await world.remove(VOLUME_ATTACHMENTS, f"va{number}")
        await world.settle(5)
        remembered = vars(attacher._rounds._memory) | vars(attacher._slots) | vars(attacher._rounds)
        sizes = {name: len(held) for name, held in remembered.items() if isinstance(held, dict | set)}
        assert dict.fromkeys(sizes, 0) == sizes
        assert 8 <= len(sizes)


async def test_an_undo_that_fails_once_is_tried_again(world: AttacherWorld):
    gate = world.driver.gate(PUBLISH)
    world.driver.script(UNPUBLISH, Fail(Code.UNAVAILABLE, "not now"))
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.tear_away(VA)
        gate.set()
        await world.settle(1000)
    assert set() == world.driver.published["handle1"]


async def test_nothing_is_published_for_what_was_torn_away_while_it_was_claimed():
    """Its end has been told by then: nobody would take the publish back."""
    world = await AttacherWorld(resync_s=0.0).base()
    between = with_between(world)

    async def tear() -> None:
        await world.tear_away(VA)
        await asyncio.sleep(0.1)

    between.after[PATCH_VA] = tear
    world.driver.always(PUBLISH, Lose())
    async with world.attaching(a_va()):
        await world.settle(60.0)
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.gone(PERSISTENT_VOLUMES, "pv1", wait_s=5.0)
    assert [] == world.driver.made(PUBLISH)


async def test_a_volumes_finalizer_that_went_while_it_was_being_taken_off_is_not_taken_off_again():
    """By its place it is not found any more, and the cache shows why by then: by its name there would be nothing to
    take off.
    """
    world = await AttacherWorld(resync_s=0.0).base(finalizers=[FINALIZER, "kit/hold"])
    between = with_between(world)

    async def let_go() -> None:
        await world.set_finalizers(PERSISTENT_VOLUMES, "pv1", ["kit/hold"])
        await asyncio.sleep(0.1)

    between.before[PATCH_PV] = let_go
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    async with world.attaching():
        await world.settle(5)
    assert 1 == len(world.bodies(PATCH_PV))


# -- one name, two objects


async def test_a_new_attachment_of_an_old_name_is_not_taken_for_the_old_one():
    """Torn away during the publish and made again: marked attached without finalizer, it would vanish without a
    detach.
    """
    world = await AttacherWorld(resync_s=0.0).base()
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.tear_away(VA)
        await world.create(a_va())
        await world.settle()
        gate.set()
        va = await world.attached()
        await world.settle()
        va = await world.get(VOLUME_ATTACHMENTS, VA)
        assert [FINALIZER] == va["metadata"].get("finalizers")
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.settle()
    assert set() == world.driver.published["handle1"]


async def test_an_order_is_not_carried_out_on_another_object_of_that_name():
    world = await AttacherWorld(resync_s=0.0).base(**SECRET)
    await world.create(a_secret(data={}), a_held_pv("pv2", "handle2"))
    between = with_between(world)

    async def replace() -> None:
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.create(a_va(pv="pv2"))
        await asyncio.sleep(0.1)

    between.before[GET_SECRET] = replace
    async with world.attaching(a_va()):
        await world.attached()
        await world.settle()
        assert {"nodeID1"} == world.driver.published["handle2"]
        assert set() == world.driver.published["handle1"]


async def test_an_error_of_an_old_attachment_is_not_shown_on_a_new_one_of_its_name():
    world = await AttacherWorld(retry_interval_start_s=60.0, resync_s=0.0).base()
    world.driver.script(PUBLISH, Wait(2.0, Fail(Code.INTERNAL, "of the old one")))
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.tear_away(VA)
        await world.create(a_va())
        await world.settle(10)
    assert all(
        "attachError" not in body["status"] or body["status"]["attachError"] is None
        for body in world.bodies(PATCH_STATUS)
    )


async def test_nothing_is_published_for_a_volume_that_is_gone():
    """Two attachments of one volume: the second waits for the first one's patch of the PV, which is gone meanwhile."""
    world = AttacherWorld(resync_s=0.0)
    await world.create(a_csi_node(), a_held_pv(finalizers=None))
    await world.set_finalizers(PERSISTENT_VOLUMES, "pv1", None)
    between = with_between(world)

    async def remove() -> None:
        await asyncio.sleep(0.1)
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await asyncio.sleep(0.1)

    between.before[PATCH_PV] = remove
    async with world.attaching(a_va("a-first", node="node2"), a_va()):
        await world.settle(20)
        va = await world.get(VOLUME_ATTACHMENTS, VA)
    assert [] == world.driver.made(PUBLISH)
    assert [] == va["metadata"].get("finalizers", [])


# -- what is told


async def test_a_failed_publish_of_a_deleted_attachment_is_an_attach_error(world: AttacherWorld, capsys):
    world.driver.script(PUBLISH, Wait(2.0, Fail(Code.INTERNAL, "publish failed")))
    world.driver.script(UNPUBLISH, Wait(5.0))
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.delete(VOLUME_ATTACHMENTS, VA)
        await world.settle(4)
        status = (await world.get(VOLUME_ATTACHMENTS, VA))["status"]
    assert "publish failed" not in status.get("detachError", {}).get("message", "")
    assert "failed to detach: rpc error: code = Internal desc = publish failed" not in capsys.readouterr().err


# -- secrets


async def test_a_burst_of_calls_reads_their_secret_once():
    world = AttacherWorld()
    await world.create(a_csi_node(), a_secret(data={}), *(a_held_pv(f"pv{n}", f"h{n}", **SECRET) for n in range(20)))
    async with world.attaching(*(a_va(f"va{number}", f"pv{number}") for number in range(20))):
        for number in range(20):
            await world.attached(f"va{number}")
    assert 1 == world.story.count(GET_SECRET)


# -- reports without end, and many attachments of one volume


async def test_a_driver_that_never_comes_to_the_last_page_is_not_asked_for_ever():
    """The peer ends a round after --timeout, however long the list is; here the number of pages is bounded."""
    world = await AttacherWorld(ScriptedDriver(controller=LISTS), reconcile_sync_s=60.0).base()
    count = 0

    async def endless(request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        nonlocal count
        count += 1
        await asyncio.sleep(0.01)
        return csi.ListVolumesResponse(next_token=str(count), entries=[{"volume": {"volume_id": str(count)}}])

    world.driver.list_volumes = endless  # type: ignore[method-assign]
    async with world.attaching():
        await world.settle(130)
        stopped = count
        await world.settle(5)
        assert stopped == count, f"still asking after {count} pages"


async def test_many_attachments_of_one_volume_do_not_wake_each_other_all_the_time(monkeypatch: pytest.MonkeyPatch):
    """Each end of a call wakes one or a few of those who wait, not all: a volume that goes to n nodes must not cost n *
    n decisions.
    """
    nodes = 200
    world = await AttacherWorld().base()
    await world.create(*(a_csi_node(f"n{n}", {DRIVER: f"id{n}"}) for n in range(nodes)))
    looks = 0

    def counted(view: View, name: str) -> Decision:
        nonlocal looks
        looks += 1
        return decide_attachment(view, name)

    monkeypatch.setattr(controller, "decide_attachment", counted)
    async with world.attaching():
        await world.settle(0.01)
        for number in range(nodes):
            await world.create(a_va(f"va{number}", node=f"n{number}"))
        for number in range(nodes):
            await world.attached(f"va{number}")
    assert looks < 10 * nodes, f"{looks} decisions for {nodes} attachments"


async def test_W16_a_report_that_has_not_changed_does_not_break_the_back_off_of_a_detach():
    world = await AttacherWorld(
        ScriptedDriver(controller=LISTS), reconcile_sync_s=1.0, retry_interval_start_s=30.0, resync_s=0.0
    ).base()
    await world.create(an_attached_va(status={"attached": False}))
    world.driver.published["handle1"].add("nodeID1")
    await world.delete(VOLUME_ATTACHMENTS, VA)
    world.driver.always(UNPUBLISH, Fail(Code.INTERNAL, "busy"))
    async with world.attaching():
        await world.settle(25)
    assert len(world.driver.made(UNPUBLISH)) <= 2, len(world.driver.made(UNPUBLISH))


async def test_a_detach_spares_what_another_attachment_of_the_same_node_needs(world: AttacherWorld):
    """The undo asks held_by_others, the detach does not."""
    async with world.attaching(a_va(), a_va("again")):
        await world.attached()
        await world.attached("again")
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.settle(100)
        assert {"nodeID1"} == world.driver.published["handle1"]


@each_row("spared", [True, False])
async def test_a_detach_spares_what_an_attachment_by_another_name_of_the_volume_needs(spared: bool):
    """Two PersistentVolumes mean one volume of the driver."""
    world = await AttacherWorld().base()
    handle = "handle1" if spared else "handle2"
    await world.create(a_held_pv("second", handle))
    async with world.attaching(a_va(), a_va("again", "second")):
        await world.attached()
        await world.attached("again")
        await world.remove(VOLUME_ATTACHMENTS, VA)
        await world.settle(100)
        assert ({"nodeID1"} if spared else set()) == world.driver.published["handle1"]
        assert {"nodeID1"} == world.driver.published[handle]
