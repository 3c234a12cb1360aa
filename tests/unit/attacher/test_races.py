"""Races with others and with late events, on the in-process ports: what the simulation has found, told one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import LocalCluster, ServerFaults
from mooring.kube.cluster import Patch, PatchType, WatchEvent
from mooring.kube.errors import Forbidden, Invalid, Unreachable
from mooring.wire.grpc.codes import Code
from tests.support.attaching import PATCH_PV, PATCH_STATUS, PATCH_VA, PUBLISH, STD_ATTACH, UNPUBLISH, AttacherWorld
from tests.support.backups import put_back
from tests.support.builders import DELETED, DRIVER, FINALIZER, a_csi_node, a_held_pv, a_va, an_attached_va
from tests.support.recording import RecordingCluster, Request
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose, Wait
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
OTHERS = "kit/other"
LOST = Unreachable("connection reset")


class Late(ServerFaults):
    """Holds back the events of a kind until they are shown."""

    def __init__(self, plural: str) -> None:
        self._plural = plural
        self._shown = asyncio.Semaphore(0)

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if kind.plural == self._plural:
            await self._shown.acquire()

    def show(self, count: int = 1000) -> None:
        """The next events, all of them if nothing else is said."""
        for _ in range(count):
            self._shown.release()


def late_events(world: AttacherWorld, plural: str) -> Late:
    """From now on the attacher's watch of a kind shows nothing, until it is let."""
    late = Late(plural)
    local = LocalCluster(world.store, clock=world.clock, randomness=world.randomness, faults=late)
    world.cluster = RecordingCluster(local, world.story)
    return late


async def test_a_deletion_seen_first_in_an_own_writes_answer_is_acted_upon(world: AttacherWorld):
    """The event of the deletion brings nothing new any more when it comes, so the answer has to wake the key."""
    late = late_events(world, "volumeattachments")
    await world.create(a_va())
    gate = world.driver.gate(PUBLISH)
    async with world.attaching():
        await world.settle()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        gate.set()
        await world.settle()
        late.show()
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1", wait_s=5.0)
    assert [*STD_ATTACH, UNPUBLISH, PATCH_VA] == world.story


async def test_a_server_that_was_set_back_is_not_asked_for_the_finalizer_again_and_again():
    """The cache shows the volume as it was after the backup, and so it does not show what was written since."""
    world = await AttacherWorld().base(finalizers=[OTHERS])
    volumes, events = (world.store.resource("", "v1", plural) for plural in ("persistentvolumes", "events"))
    (kept,) = world.store.table(volumes).items()
    world.store.version += 1000
    await world.patch(PERSISTENT_VOLUMES, "pv1", {"metadata": {"labels": {"since": "then"}}})
    late_events(world, "persistentvolumes")
    await world.create(a_va())
    world.cluster.refuse(PATCH_PV, error=Forbidden("not now", reason="Forbidden"))
    async with world.attaching():
        await world.settle()
        put_back(world.store, volumes, [kept], kept.rv)
        put_back(world.store, events, [], kept.rv)
        world.store.version = kept.rv + 20
        await world.settle(30.0)
        assert 1 == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"].count(FINALIZER)
        assert 10 > world.story.count(PATCH_PV)


async def test_a_lost_answer_does_not_leave_the_finalizer_twice():
    world = await AttacherWorld().base(finalizers=[OTHERS])
    late = late_events(world, "persistentvolumes")
    await world.create(a_va())
    world.cluster.refuse(PATCH_PV, error=LOST, after=True)
    async with world.attaching():
        await world.settle(5.0)
        assert [OTHERS, FINALIZER] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
        late.show()
        await world.attached()
    assert 1 < len(world.bodies(PATCH_PV))
    assert [OTHERS, FINALIZER] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]


async def test_two_attachments_at_once_hold_their_volume_once():
    world = await AttacherWorld().base(finalizers=[OTHERS])
    await world.create(a_va(), a_va("pv1-node2", node="node2"), a_va("pv1-node3", node="node3"))
    async with world.attaching():
        await world.attached()
        await world.error(name="pv1-node2")
        await world.error(name="pv1-node3")
    assert 1 == world.story.count(PATCH_PV)
    assert [OTHERS, FINALIZER] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]


async def test_a_finalizer_that_is_there_twice_is_removed_altogether():
    """external-attacher can leave it so, and takes out one of them: the volume would stay for ever."""
    world = await AttacherWorld().base(finalizers=[FINALIZER, OTHERS, FINALIZER])
    await world.delete(PERSISTENT_VOLUMES, "pv1")
    async with world.attaching():
        await world.settle()
    assert [OTHERS] == (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
    assert [PATCH_PV] == world.story


async def test_an_error_beside_success_is_cleared(world: AttacherWorld):
    """A try on a cache that had not seen the success leaves its error beside it."""
    error = {"message": "mock error", "time": DELETED}
    await world.create(
        an_attached_va(status={"attached": True, "attachError": error, "attachmentMetadata": {"foo": "bar"}})
    )
    async with world.attaching():
        va = await world.status(lambda status: "attachError" not in status)
        await world.settle()
    assert {"attached": True, "attachmentMetadata": {"foo": "bar"}} == va["status"]
    assert [PATCH_STATUS] == world.story


async def test_a_try_that_raced_with_a_lost_success_leaves_no_error(world: AttacherWorld):
    late = late_events(world, "volumeattachments")
    await world.create(a_va())
    world.cluster.refuse(PATCH_STATUS, error=LOST, after=True)
    world.driver.script(PUBLISH, None, Fail(Code.INTERNAL))
    async with world.attaching():
        await world.attached()
        await world.settle(5.0)
        late.show()
        va = await world.status(lambda status: "attachError" not in status, wait_s=5.0)
    assert va["status"]["attached"]
    assert "attachError" in world.bodies(PATCH_STATUS)[1]["status"]


async def test_success_beside_an_error_whose_saving_was_not_confirmed_clears_it(world: AttacherWorld):
    """The cache does not know of the error, so the patch of the success leaves it; its answer shows it."""
    late = late_events(world, "volumeattachments")
    await world.create(a_va())
    world.driver.script(PUBLISH, Fail(Code.INTERNAL))
    world.cluster.refuse(PATCH_STATUS, error=LOST, after=True)
    async with world.attaching():
        await world.attached()
        await world.settle()
        late.show()
        va = await world.status(lambda status: "attachError" not in status, wait_s=5.0)
    assert va["status"]["attached"]
    assert {"status": {"attached": True}} == world.changes(PATCH_STATUS)[1]


async def test_success_and_error_that_are_two_events_end_in_success_alone(world: AttacherWorld):
    """Our answers to both were lost. The first event ends the back-off; the second is only an error, and yet worth a
    look.
    """
    late = late_events(world, "volumeattachments")
    await world.create(a_va())
    world.cluster.refuse(PATCH_STATUS, error=LOST, after=True, times=2)
    world.driver.script(PUBLISH, None, Fail(Code.INTERNAL))
    async with world.attaching():
        await world.status(lambda status: status["attached"] and "attachError" in status)
        late.show(2)  # the claim and the success
        await world.settle()
        late.show()
        va = await world.status(lambda status: "attachError" not in status, wait_s=5.0)
    assert va["status"]["attached"]


async def test_a_volume_whose_call_still_runs_is_kept_without_attachments_too(world: AttacherWorld):
    """Torn away under the call: what is published then has to be taken back, for which the volume must not be gone."""
    gate = world.driver.gate(PUBLISH)
    async with world.attaching(a_va()):
        await world.until(lambda: _made(world, PUBLISH))
        await world.tear_away("pv1-node1")
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.settle()
        assert FINALIZER in (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
        gate.set()
        await world.gone(PERSISTENT_VOLUMES, "pv1", wait_s=5.0)
    assert [UNPUBLISH, PATCH_PV] == world.story[-2:]


async def test_a_success_that_is_older_than_the_publish_settles_nothing(world: AttacherWorld):
    """Another attacher works too, elected by nobody: it had marked the attachment, and detached it, before this one
    published it again.
    """
    claimed = an_attached_va(status={"attached": False})
    late = late_events(world, "volumeattachments")
    await world.create(claimed)
    gate = world.driver.gate(PUBLISH)
    async with world.attaching():
        await world.until(lambda: _made(world, PUBLISH))
        await world.patch(VOLUME_ATTACHMENTS, "pv1-node1", {"status": {"attached": True}}, subresource="status")
        await world.tear_away("pv1-node1")
        world.cluster.refuse(PATCH_STATUS, error=LOST)
        gate.set()
        await world.settle(0.1)
        late.show(1)  # the success
        await world.until(lambda: _made(world, UNPUBLISH), wait_s=5.0)
        late.show()
        await world.settle()
    assert set() == world.driver.published["handle1"]


async def test_a_publish_in_doubt_is_taken_back_when_its_attachment_is_torn_away(world: AttacherWorld):
    """The answer was lost, so the volume may be published; and nobody is left to detach it."""
    world.driver.always(PUBLISH, Lose())
    async with world.attaching(a_va()):
        await world.status(lambda status: "attachError" in status)
        await world.tear_away("pv1-node1")
        await world.settle(60.0)
    assert set() == world.driver.published["handle1"]
    assert UNPUBLISH == world.story[-1]


async def test_a_volume_is_kept_until_its_publish_in_doubt_is_taken_back(world: AttacherWorld):
    """Between two tries no call runs; but the volume may be published, and whoever deletes it next would find it in
    use.
    """
    world.driver.always(PUBLISH, Lose())
    world.driver.script(UNPUBLISH, Fail(Code.UNAVAILABLE), Fail(Code.UNAVAILABLE))
    async with world.attaching(a_va()):
        await world.status(lambda status: "attachError" in status)
        await world.delete(PERSISTENT_VOLUMES, "pv1")
        await world.tear_away("pv1-node1")
        await world.until(lambda: _made(world, UNPUBLISH))
        await world.settle(0.5)
        assert FINALIZER in (await world.get(PERSISTENT_VOLUMES, "pv1"))["metadata"]["finalizers"]
        await world.gone(PERSISTENT_VOLUMES, "pv1", wait_s=10.0)
    assert set() == world.driver.published["handle1"]
    assert [UNPUBLISH, PATCH_PV] == world.story[-2:]


async def test_a_single_node_volume_goes_to_no_other_node_until_its_publish_in_doubt_is_taken_back():
    """Its attachment was torn away, so no finalizer tells of it any more; and then the other node gets it at once."""
    world = await AttacherWorld(retry_interval_start_s=10.0).base(modes=["ReadWriteOnce"])
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}))
    world.driver.script(PUBLISH, Lose())
    world.driver.script(UNPUBLISH, Fail(Code.UNAVAILABLE))
    async with world.attaching(a_va()):
        await world.status(lambda status: "attachError" in status)
        await world.create(a_va("pv1-node2", node="node2"))
        await world.tear_away("pv1-node1")
        await world.until(lambda: _made(world, UNPUBLISH))
        await world.settle(5.0)
        assert {"nodeID1"} == world.driver.published["handle1"]
        assert 'still being detached from node "node1"' in (await world.error(name="pv1-node2"))["message"]
        await world.until(lambda: _made(world, UNPUBLISH, 2))
        await world.attached("pv1-node2", wait_s=1.0)
    assert {"nodeID2"} == world.driver.published["handle1"]


async def test_undos_that_fail_do_not_wake_each_other(world: AttacherWorld):
    """Two nodes of one volume, both torn away: each name has a back-off, which the failing undo of the other must not
    end.
    """
    await world.create(a_csi_node("node2", {DRIVER: "nodeID2"}), a_held_pv("pv2", "handle2"))
    world.driver.always(PUBLISH, Lose())
    world.driver.always(UNPUBLISH, Wait(0.1, Fail(Code.UNAVAILABLE)))
    names = {"pv1-node1": "node1", "pv1-node2": "node2"}
    async with world.attaching(*(a_va(name, node=node) for name, node in names.items())):
        for name, node in names.items():
            await world.status(lambda status: "attachError" in status, name)
            await world.set_finalizers(VOLUME_ATTACHMENTS, name, [])
            await world.delete(VOLUME_ATTACHMENTS, name)
            await world.create(a_va(name, "pv2", node))
        await world.settle(10.0)
    assert 4 <= world.story.count(UNPUBLISH) <= 10


async def test_a_publish_in_doubt_is_taken_back_although_a_detach_of_it_has_failed(world: AttacherWorld):
    """The detach was tried, and did not work: the publish stays unconfirmed until one has."""
    world.driver.always(PUBLISH, Lose())
    world.driver.script(UNPUBLISH, Fail(Code.UNAVAILABLE))
    async with world.attaching(a_va()):
        await world.status(lambda status: "attachError" in status)
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.until(lambda: _made(world, UNPUBLISH))
        assert {"nodeID1"} == world.driver.published["handle1"]
        await world.set_finalizers(VOLUME_ATTACHMENTS, "pv1-node1", [])
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1", wait_s=0.0)
        await world.settle(60.0)
    assert set() == world.driver.published["handle1"]


async def test_an_undo_leaves_the_volume_to_a_twin_that_holds_it_on_that_node(world: AttacherWorld):
    """Two attachments of one volume to one node: the publish of one is no different from the other's."""
    async with world.attaching(a_va("twin")):
        await world.attached("twin")
        gate = world.driver.gate(PUBLISH)
        await world.create(a_va())
        await world.until(lambda: _made(world, PUBLISH, 2))
        await world.tear_away("pv1-node1")
        gate.set()
        await world.settle(60.0)
        assert [] == world.driver.made(UNPUBLISH)
        assert {"nodeID1"} == world.driver.published["handle1"]
        await world.delete(VOLUME_ATTACHMENTS, "twin")
        await world.gone(VOLUME_ATTACHMENTS, "twin", wait_s=5.0)
    assert set() == world.driver.published["handle1"]


async def test_a_mark_never_goes_to_a_later_attachment_of_the_name(
    world: AttacherWorld, caplog: pytest.LogCaptureFixture
):
    """Torn away and made anew while the watch is late: the refusal of the mark is the first sign of it."""
    late = late_events(world, "volumeattachments")
    gate = world.driver.gate(PUBLISH)
    await world.create(a_va())
    async with world.attaching():
        await world.until(lambda: _made(world, PUBLISH))
        await world.tear_away("pv1-node1")
        await world.create(a_va())
        gate.set()
        late.show()
        va = await world.status(lambda status: status["attached"], wait_s=5.0)
        assert [FINALIZER] == va["metadata"].get("finalizers")
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1", wait_s=5.0)
    assert [{"status": {"attached": True}}] * 2 == world.changes(PATCH_STATUS)
    assert 2 == len({body["metadata"]["uid"] for body in world.bodies(PATCH_STATUS)})
    assert "failed to attach" not in caplog.text, "that it vanished is no failure of the next one"
    assert set() == world.driver.published["handle1"]


@each_row("late", [PATCH_VA, PATCH_STATUS], ids=["the-removal-of-its-finalizer", "attached-true"])
async def test_a_write_that_is_carried_out_late_changes_no_later_attachment_of_the_name(late: str):
    """Its sender gave up, and did it again; then the name came again: it would go without a detach, or be shown as
    attached.
    """
    world = await AttacherWorld().base()
    async with world.attaching():
        if late == PATCH_STATUS:
            world.cluster.refuse(PATCH_STATUS, error=LOST)
        await world.create(a_va())
        await world.attached()
        if late == PATCH_VA:
            world.cluster.refuse(PATCH_VA, error=LOST)
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.gone(VOLUME_ATTACHMENTS, "pv1-node1")
        given_up = world.cluster.writes(late)[1 if late == PATCH_VA else 0]
        await world.create(a_va())
        await world.attached()
        before = await world.get(VOLUME_ATTACHMENTS, "pv1-node1")
        with pytest.raises(Invalid):
            await _carry_out(world, given_up)
        assert before == await world.get(VOLUME_ATTACHMENTS, "pv1-node1")


async def _carry_out(world: AttacherWorld, request: Request) -> None:
    patch = Patch(PatchType[request.patch_type], request.body)
    await world.users.patch(VOLUME_ATTACHMENTS.whole(), request.name, patch, subresource=request.subresource)


async def test_an_undo_outlives_other_attachments_of_the_same_name(world: AttacherWorld):
    world.driver.always(PUBLISH, Lose())
    world.driver.script(UNPUBLISH, Fail(Code.ABORTED))
    async with world.attaching(a_va()):
        await world.status(lambda status: "attachError" in status)
        await world.tear_away("pv1-node1")
        await world.settle(0.5)  # the undo has failed once
        world.cluster.refuse(PATCH_VA, error=LOST)
        await world.create(a_va())
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        await world.settle(60.0)
    assert set() == world.driver.published["handle1"]


async def test_an_attachment_that_our_write_found_missing_is_not_worked_on_again():
    """The watch may be far behind; each round would detach once more, and patch what is not there."""
    world = await AttacherWorld(resync_s=10.0).base()
    late = late_events(world, "volumeattachments")
    gate = world.driver.gate(UNPUBLISH)
    await world.create(a_va())
    async with world.attaching():
        await world.attached()
        await world.delete(VOLUME_ATTACHMENTS, "pv1-node1")
        late.show(3)  # our two writes and the deletion
        await world.until(lambda: _made(world, UNPUBLISH))
        await world.set_finalizers(VOLUME_ATTACHMENTS, "pv1-node1", [])
        gate.set()
        await world.settle(60.0)
    assert 1 == world.story.count(UNPUBLISH)


async def test_a_claim_whose_answer_was_lost_keeps_the_volume_from_other_nodes():
    """Unknown counts as attached. Else both would be claimed, and once that is seen the lesser name attaches, whatever
    was published.
    """
    world = await AttacherWorld().base(modes=["ReadWriteOnce"])
    late = late_events(world, "volumeattachments")
    await world.create(
        a_csi_node("node2", {DRIVER: "nodeID2"}), a_va("pv1-node2", node="node2"), a_va("pv1-node1", node="node1")
    )
    world.cluster.refuse(PATCH_VA, name="pv1-node1", error=LOST, after=True)
    world.cluster.refuse(PATCH_STATUS, name="pv1-node1")
    world.driver.always(PUBLISH, Lose())
    async with world.attaching():
        await world.settle()
        late.show()
        await world.settle(60.0)
    assert {"nodeID1"} == world.driver.published["handle1"]


async def _made(world: AttacherWorld, method: str, count: int = 1) -> bool:
    return len(world.driver.made(method)) >= count
