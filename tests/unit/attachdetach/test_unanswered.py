"""Requests whose answers are lost: they may have been carried out, may be carried out later, or never."""

from __future__ import annotations

import pytest

from mooring.cluster.attachdetach.decide import Step
from mooring.cluster.attachdetach.memory import Record
from mooring.cluster.attachdetach.reconcile import Reconciler
from mooring.kube.errors import ApiError, Forbidden, ServerError, Unreachable
from tests.support.attachdetaching import DELETE, POST, AttachDetachWorld, Vol, attaching
from tests.support.builders import DRIVER
from tests.support.cluster_world import LateWatch
from tests.support.virtual_loop import in_virtual_time

LOST: list[ApiError] = [Unreachable("lost"), ServerError("etcdserver: request timed out")]


async def never_reported(world: AttachDetachWorld, node: str, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        assert [] == await world.reported(node)
        await world.settle(0.05)


async def back_again(world: AttachDetachWorld, volume: Vol, node: str, pod: str) -> str:
    """The pod goes, the DELETE of the attachment is sent, and another pod comes to the node. Its name."""
    await world.delete_pod(pod)
    await world.until(lambda: _sent(world), what="a DELETE")
    return await world.pod(node, volume)


async def made_anew(world: AttachDetachWorld, volume: Vol, node: str, posts: int = 2) -> None:
    """So many POSTs of its attachment have been sent; until then the volume is not reported."""

    async def posted() -> bool:
        assert [] == await world.reported(node)
        return len(world.of(POST)) == posts

    await world.until(posted, what="another attachment")


async def killed_in_a_detach(world: AttachDetachWorld, late_s: float, held_s: float = 5.0) -> tuple[Vol, str, str]:
    """A controller is killed once it has sent a DELETE, which has no answer; then a pod comes to the node. The attachment's uid.

    held_s: how long the earlier pod has the volume.
    """
    async with world.controlling():
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(held_s)
        uid: str = (await world.wait_va(volume, node))["metadata"]["uid"]
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
    await world.pod(node, volume)
    return volume, node, uid


async def _sent(world: AttachDetachWorld) -> bool:
    return bool(world.of(DELETE))


# -- DELETEs


@pytest.mark.parametrize("lost", LOST)
@in_virtual_time
async def test_a_volume_is_not_reported_again_while_its_delete_has_no_answer(lost: ApiError) -> None:
    """The DELETE was carried out, and the watch does not show it yet."""
    async with attaching(LateWatch("volumeattachments", seconds=3.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume, hold=True)
        await world.settle(20)
        world.cluster.refuse(DELETE, error=lost, after=True)
        pod = await back_again(world, volume, node, pod)
        await never_reported(world, node, 10)
        assert "volume attachment is being deleted" in await world.wait_told(pod, "FailedAttachVolume")
        await world.release(volume, node)
        await world.attach(volume, node)


@pytest.mark.parametrize(("late_s", "count"), [(0.3, 1), (5.0, 2), (0.0, 2)], ids=["soon", "late", "never"])
@in_virtual_time
async def test_a_delete_without_an_answer_is_sent_again_though_a_pod_wants_the_volume_by_now(
    late_s: float, count: int
) -> None:
    """Nobody knows whether the first one is yet to come; the volume would be taken from under the pod."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await back_again(world, volume, node, pod)
        await made_anew(world, volume, node)
        await world.attach(volume, node)
        await world.settle(10)
        assert count == len(world.of(DELETE))
        assert await world.va(volume, node), "the first one meant the attachment that is gone"


@in_virtual_time
async def test_a_refusal_of_the_second_delete_tells_nothing_about_the_first() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=20.0)
        refusals = world.cluster.refuse(DELETE, times=None, error=Forbidden("not now"))
        await back_again(world, volume, node, pod)
        await never_reported(world, node, 15)
        assert refusals.hits > 1
        await made_anew(world, volume, node)
        await world.attach(volume, node)


@in_virtual_time
async def test_a_delete_without_an_answer_counts_when_the_attachment_gets_a_volume_meanwhile() -> None:
    """Its PersistentVolume was gone, and another one of the same volume comes with a pod."""
    world = AttachDetachWorld()
    node, lost = await world.node(), Vol("gone", "", DRIVER, "h", "")
    await world.make_va(lost, node)
    world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=10.0)
    refusals = world.cluster.refuse(DELETE, times=None, error=Forbidden("not now"))
    async with world.controlling():
        await world.until(lambda: _sent(world), what="a DELETE")
        volume = await world.volume("h")
        await world.pod(node, volume)
        await made_anew(world, volume, node, posts=1)
        assert refusals.hits > 1
        await world.attach(volume, node)


@in_virtual_time
async def test_an_attachment_that_goes_between_the_decision_and_its_delete_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The watch shows its end when the DELETE is about to be sent."""
    announce = Reconciler._announce

    def shown_at_once(self: Reconciler, record: Record, step: Step) -> None:
        announce(self, record, step)
        self._memory.deletions.clear()

    async with (world := AttachDetachWorld()).controlling():
        volume = await world.volume()
        _, pod = await world.attached(volume)
        with monkeypatch.context() as patched:
            patched.setattr(Reconciler, "_announce", shown_at_once)
            await world.delete_pod(pod)
            await world.settle(5)
            assert [] == world.of(DELETE)
    assert "failed unexpectedly" not in capsys.readouterr().err


@in_virtual_time
async def test_a_delete_that_was_refused_leaves_the_volume_to_the_pod_that_comes_back() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        world.cluster.refuse(DELETE, error=Forbidden("not now"))
        await back_again(world, volume, node, pod)
        await world.wait_reported(node, volume)
        assert 1 == len(world.of(DELETE))


@in_virtual_time
async def test_an_attachment_without_a_volume_is_deleted_once_however_late_its_end_is_seen() -> None:
    world = AttachDetachWorld(LateWatch("volumeattachments", seconds=10.0))
    node, lost = await world.node(), Vol("gone", "", DRIVER, "h", "")
    await world.make_va(lost, node)
    async with world.controlling():
        await world.wait_no_va(lost, node)
        await world.set_ready(node, False)  # wakes it
        await world.settle(20)
        assert 1 == len(world.of(DELETE))


@pytest.mark.parametrize("late_s", [0.0, 20.0], ids=["never", "late"])
@in_virtual_time
async def test_a_delete_is_not_sent_again_under_a_mount_that_another_controller_has_allowed(late_s: float) -> None:
    """It lists the volume for a pod that this one has not seen yet. What is mounted then stays, unless the first DELETE comes to pass."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
        await world.node_status(
            node, volumesInUse=[volume.unique], volumesAttached=[{"name": volume.unique, "devicePath": ""}]
        )
        await world.settle(100)
        assert 1 == len(world.of(DELETE))
        assert (late_s > 0) == (await world.va(volume, node) is None)
        if not late_s:
            await world.set_in_use(node)
            await world.wait_no_va(volume, node)


async def forced_in_vain(world: AttachDetachWorld, late_s: float) -> tuple[Vol, str, str]:
    """A detach by force has no answer, and the node is back, with the volume mounted all the time. The attachment's uid."""
    volume = await world.volume()
    node, pod = await world.attached(volume)
    await world.set_in_use(node, volume)
    uid: str = (await world.wait_va(volume, node))["metadata"]["uid"]
    await world.set_ready(node, False)
    world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
    await world.delete_pod(pod)
    await world.until(lambda: _sent(world), what="a DELETE")
    await world.set_ready(node, True)
    return volume, node, uid


@pytest.mark.parametrize("wanted", [False, True], ids=["unwanted", "wanted"])
@in_virtual_time
async def test_a_delete_by_force_is_not_sent_again_to_a_node_that_is_back(wanted: bool) -> None:
    """The first one was never carried out: what is mounted there stays."""
    async with attaching(force_after_s=30.0) as world:
        volume, node, uid = await forced_in_vain(world, 0.0)
        if wanted:
            pod = await world.pod(node, volume)
            await never_reported(world, node, 55)
            assert "volume attachment is being deleted" in await world.wait_told(pod, "FailedAttachVolume")
            await world.wait_reported(node, volume)
        await world.settle(600)
        assert (1, uid) == (len(world.of(DELETE)), (await world.wait_va(volume, node))["metadata"]["uid"])


@in_virtual_time
async def test_a_delete_by_force_that_is_carried_out_late_is_waited_for() -> None:
    async with attaching(force_after_s=30.0) as world:
        volume, node, _ = await forced_in_vain(world, 40.0)
        await world.pod(node, volume)
        await made_anew(world, volume, node)
        assert 1 == len(world.of(DELETE))
        await world.attach(volume, node)


@pytest.mark.parametrize("held_s", [5.0, 0.0], ids=["held", "briefly-held"])
@pytest.mark.parametrize("late_s", [5.0, 45.0], ids=["soon", "late"])
@in_virtual_time
async def test_a_delete_of_an_earlier_process_that_is_carried_out_late_meets_no_mount(
    late_s: float, held_s: float
) -> None:
    """The process is killed before it hears that the answer was lost, and a pod comes back to the node.

    Creation times are whole seconds: a pod that comes in the attachment's own second could be the one that it was made for.
    """
    world = AttachDetachWorld()
    volume, node, _ = await killed_in_a_detach(world, late_s, held_s)
    async with world.controlling():
        await made_anew(world, volume, node)
        assert 1 == len(world.of(DELETE))
        await world.attach(volume, node)


@in_virtual_time
async def test_a_delete_that_an_earlier_process_did_not_send_is_waited_for_only_a_minute() -> None:
    world = AttachDetachWorld()
    volume, node, uid = await killed_in_a_detach(world, 0.0)
    async with world.controlling():
        await never_reported(world, node, 58)
        await world.wait_reported(node, volume)
        assert uid == (await world.wait_va(volume, node))["metadata"]["uid"]


@in_virtual_time
async def test_what_was_attached_for_a_pod_that_was_there_before_is_reported_at_once_after_a_restart() -> None:
    """The pod came to the node before the attachment was made, so nobody has asked for its deletion."""
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    async with world.controlling():
        await world.settle(3)
        await world.pod(node, volume)
        await world.wait_va(volume, node)
    await world.set_attached(volume, node)
    async with world.controlling():
        await world.settle(0.5)
        assert [volume.unique] == await world.reported(node)


@in_virtual_time
async def test_an_attachment_of_this_second_stays_for_a_pod_that_comes_in_the_next_moment() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        uid = (await world.wait_va(volume, node))["metadata"]["uid"]
        await world.delete_pod(pod)
        await world.settle(0.5)
        assert [] == world.of(DELETE)
        await world.pod(node, volume)
        await world.settle(60)
        assert ([], uid) == (world.of(DELETE), (await world.wait_va(volume, node))["metadata"]["uid"])


# -- POSTs


async def moves(world: AttachDetachWorld, volume: Vol, pod: str) -> tuple[str, str]:
    """The pod goes, and another one comes to another node. That node, and the pod."""
    await world.delete_pod(pod)
    node = await world.node()
    return node, await world.pod(node, volume)


async def attached_alone(world: AttachDetachWorld, volume: Vol, node: str) -> float:
    """Seconds until it is attached there; it never has two attachments until then."""
    began = world.clock.now()
    while await world.va(volume, node) is None:
        assert len(await world.attachments()) <= 1
        await world.settle(0.05)
        assert world.clock.now() < began + 300
    assert [volume.va(node)] == await world.attachments()
    waited_s = world.clock.now() - began
    await world.attach(volume, node)
    return waited_s


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("late_s", [0.3, 3.0, 50.0], ids=["soon", "late", "very-late"])
@in_virtual_time
async def test_a_volume_goes_to_no_second_node_while_a_post_may_still_be_carried_out(
    lost: ApiError, late_s: float
) -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=lost, late_s=late_s)
        pod = await world.pod(node, volume)
        await world.settle(0.1)
        other, _ = await moves(world, volume, pod)
        waited_s = await attached_alone(world, volume, other)
        assert late_s - 0.2 <= waited_s < late_s + 2, "once it is seen nothing more has to be waited for"
        await world.settle(100)
        assert [volume.va(other)] == await world.attachments()


@in_virtual_time
async def test_a_post_that_is_never_carried_out_holds_a_volume_for_a_minute_and_its_pod_hears_of_it() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=Unreachable("lost"))
        pod = await world.pod(node, volume)
        await world.settle(0.1)
        other, pod = await moves(world, volume, pod)
        await world.wait_told(
            pod,
            "FailedAttachVolume",
            f"a request to attach it to node {node} was not answered, and may still be carried out",
        )
        assert 45 < await attached_alone(world, volume, other) < 61
        assert 2 == len(world.of("get volumeattachments")), "at once, and after the minute: the watch tells the rest"


@in_virtual_time
async def test_a_node_whose_post_was_not_answered_may_get_the_volume_meanwhile() -> None:
    """And when it is detached from there, the first POST may still come to pass."""
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=Unreachable("lost"), late_s=50.0)
        pod = await world.pod(node, volume)
        await world.settle(2)
        await world.attach(volume, node)
        other, _ = await moves(world, volume, pod)
        await world.wait_no_va(volume, node)
        assert 40 < await attached_alone(world, volume, other)


@in_virtual_time
async def test_of_two_posts_without_an_answer_the_second_may_come_to_pass_first() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=Unreachable("lost"), late_s=40.0)
        world.cluster.refuse(POST, error=Unreachable("lost"), after=True)
        pod = await world.pod(node, volume)
        await world.attach(volume, node)
        other, _ = await moves(world, volume, pod)
        await world.wait_no_va(volume, node)
        assert 35 < await attached_alone(world, volume, other)


def test_an_attachment_that_is_found_counts_for_one_post() -> None:
    record = Record()
    for _ in range(2):
        record.post_lost(10.0)
    for _ in range(2):
        record.looked_up("uid", 11.0)
    assert 1 == record.open_posts
    record.looked_up("", record.open_until - 0.1)
    assert 1 == record.open_posts
    record.looked_up("", record.open_until)
    assert 0 == record.open_posts
