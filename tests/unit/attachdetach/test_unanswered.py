"""Requests whose answers are lost: they may have been carried out, may be carried out later, or never."""

from __future__ import annotations

import contextlib

from mooring.api.core import NODES
from mooring.kube.errors import ApiError, Forbidden, NotFound, ServerError, Unreachable
from tests.support.attachdetaching import DELETE, FENCE, PATCH_NODE, POST, AttachDetachWorld, Vol, attaching
from tests.support.builders import DRIVER
from tests.support.cluster_world import LateWatch
from tests.support.rows import each_row
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


async def killed_in_a_detach(world: AttachDetachWorld, late_s: float) -> tuple[Vol, str, str]:
    """A controller is killed once it has sent a DELETE, which has no answer; then a pod comes to the node. The
    attachment's uid.
    """
    async with world.controlling():
        volume = await world.volume()
        node, pod = await world.attached(volume)
        uid: str = (await world.wait_va(volume, node))["metadata"]["uid"]
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
    await world.pod(node, volume)
    return volume, node, uid


async def stays_reported(world: AttachDetachWorld, volume: Vol, node: str, uid: str, seconds: float = 100.0) -> None:
    """This attachment is reported at once, and no DELETE takes it away later."""
    await world.wait_reported(node, volume)
    for _ in range(round(seconds / 0.5)):
        await world.settle(0.5)
        assert uid == (await world.wait_va(volume, node))["metadata"]["uid"]
        assert [volume.unique] == await world.reported(node)


async def _sent(world: AttachDetachWorld) -> bool:
    return bool(world.of(DELETE))


# -- DELETEs


@each_row("lost", LOST)
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


@each_row("late_s", [5.0, 50.0, 0.0], ids=["late", "very-late", "never"])
@each_row("refused", [False, True], ids=["no-more", "refused-since"])
@in_virtual_time
async def test_a_delete_without_an_answer_is_fenced_off_when_a_pod_comes_back(late_s: float, refused: bool) -> None:
    """It would take the volume from under the pod. A refusal of another DELETE tells nothing about the first one."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        uid = (await world.wait_va(volume, node))["metadata"]["uid"]
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
        refusals = world.cluster.refuse(DELETE, times=None, error=Forbidden("not now"), perhaps=True)
        await world.settle(2 if refused else 0.1)
        assert refused == (refusals.hits > 0)
        await world.pod(node, volume)
        await stays_reported(world, volume, node, uid)
        assert 1 == len(world.of(FENCE))


@in_virtual_time
async def test_a_delete_without_an_answer_that_was_carried_out_is_seen_by_the_fence() -> None:
    async with attaching(LateWatch("volumeattachments", seconds=10.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(20)
        world.cluster.refuse(DELETE, error=Unreachable("lost"), after=True)
        await back_again(world, volume, node, pod)
        await made_anew(world, volume, node)


@in_virtual_time
async def test_a_delete_without_an_answer_is_fenced_off_when_the_attachment_gets_a_volume_meanwhile() -> None:
    """Its PersistentVolume was gone, and another one of the same volume comes with a pod."""
    world = AttachDetachWorld()
    node, lost = await world.node(), Vol("gone", "", DRIVER, "h", "")
    await world.make_va(lost, node)
    uid = (await world.wait_va(lost, node))["metadata"]["uid"]
    world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=10.0)
    refusals = world.cluster.refuse(DELETE, times=None, error=Forbidden("not now"))
    async with world.controlling():
        await world.until(lambda: _sent(world), what="a DELETE")
        await world.settle(2)
        volume = await world.volume("h")
        await world.pod(node, volume)
        await stays_reported(world, volume, node, uid)
        assert refusals.hits > 0


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


@each_row("late_s", [0.0, 20.0], ids=["never", "late"])
@in_virtual_time
async def test_a_delete_is_fenced_off_under_a_mount_that_another_controller_has_allowed(late_s: float) -> None:
    """It lists the volume for a pod that this one has not seen yet."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
        await world.node_status(
            node, volumesInUse=[volume.unique], volumesAttached=[{"name": volume.unique, "devicePath": ""}]
        )
        await world.settle(100)
        assert 1 == len(world.of(DELETE))
        assert await world.va(volume, node)
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)


async def forced_in_vain(world: AttachDetachWorld, late_s: float) -> tuple[Vol, str, str]:
    """A detach by force has no answer, and the node is back, with the volume mounted all the time. The attachment's
    uid.
    """
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


@each_row("wanted", [False, True], ids=["unwanted", "wanted"])
@each_row("late_s", [0.0, 40.0], ids=["never", "late"])
@in_virtual_time
async def test_a_delete_by_force_is_fenced_off_when_the_node_is_back(wanted: bool, late_s: float) -> None:
    """What is mounted there stays."""
    async with attaching(force_after_s=30.0) as world:
        volume, node, uid = await forced_in_vain(world, late_s)
        if wanted:
            await world.pod(node, volume)
            await stays_reported(world, volume, node, uid)
        await world.settle(600)
        assert (1, uid) == (len(world.of(DELETE)), (await world.wait_va(volume, node))["metadata"]["uid"])


@each_row("late_s", [0.0, 5.0, 45.0], ids=["never", "soon", "late"])
@in_virtual_time
async def test_a_delete_of_an_earlier_process_is_fenced_off(late_s: float) -> None:
    """The process is killed before it hears that the answer was lost, and a pod comes back to the node."""
    world = AttachDetachWorld()
    volume, node, uid = await killed_in_a_detach(world, late_s)
    async with world.controlling():
        await stays_reported(world, volume, node, uid)
        assert (1, 1) == (len(world.of(DELETE)), len(world.of(FENCE)))


@each_row("ready", [True, False], ids=["ready", "silent"])
@each_row("late_s", [0.0, 5.0, 45.0], ids=["never", "soon", "late"])
@in_virtual_time
async def test_a_delete_by_the_taint_of_an_earlier_process_is_fenced_off(late_s: float, ready: bool) -> None:
    """The process is killed, and the taint taken away: what is mounted there stays as long as the node has it."""
    world = AttachDetachWorld()
    async with world.controlling():
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.set_in_use(node, volume)
        uid = (await world.wait_va(volume, node))["metadata"]["uid"]
        if not ready:
            await world.set_ready(node, False)
        world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=late_s)
        await world.taint(node)
        await world.delete_pod(pod)
        await world.until(lambda: _sent(world), what="a DELETE")
    await world.patch(NODES, node, {"spec": {"taints": None}})
    async with world.controlling():
        await world.settle(100)
        assert uid == (await world.wait_va(volume, node))["metadata"]["uid"]
        assert 1 == len(world.of(DELETE))
        await world.set_ready(node, True)
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)


@each_row("reported", [True, False], ids=["reported", "not-reported"])
@in_virtual_time
async def test_of_what_is_mounted_after_a_restart_only_the_unreported_is_fenced(reported: bool) -> None:
    """What the report lists was asked for by no DELETE; the end of the one or the other costs no write more."""
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume], reported=[volume] if reported else [])
    await world.make_va(volume, node)
    async with world.controlling():
        await world.settle(30)
        assert (0 if reported else 1) == len(world.of(FENCE))
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert (0 if reported else 1) == len(world.of(FENCE))


@in_virtual_time
async def test_a_fence_without_an_answer_is_built_again() -> None:
    world = AttachDetachWorld()
    volume, node, uid = await killed_in_a_detach(world, 20.0)
    world.cluster.refuse(FENCE, error=Unreachable("lost"), times=2)
    async with world.controlling():
        await never_reported(world, node, 0.3)
        await stays_reported(world, volume, node, uid)
        assert 3 == len(world.of(FENCE))


@in_virtual_time
async def test_an_ordinary_attach_and_detach_cost_no_fence() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        assert ([], 1, 1) == (world.of(FENCE), len(world.of(POST)), len(world.of(DELETE)))


@in_virtual_time
async def test_a_report_that_is_carried_out_late_is_taken_back() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(PATCH_NODE, error=Unreachable("lost"), late_s=30.0)
        _, pod = await world.attached(volume, node=node)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        await world.settle(40)
        assert [] == await world.reported(node)
        assert 4 == len(world.of(PATCH_NODE)), "lost, again, off the list, and off it once more"


@in_virtual_time
async def test_what_was_attached_for_a_pod_that_was_there_before_is_reported_at_once_after_a_restart() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    async with world.controlling():
        await world.pod(node, volume)
        await world.wait_va(volume, node)
    await world.set_attached(volume, node)
    async with world.controlling():
        await world.settle(0.5)
        assert [volume.unique] == await world.reported(node)


async def attach_if_there(world: AttachDetachWorld, volume: Vol, node: str) -> None:
    with contextlib.suppress(NotFound):
        if (va := await world.va(volume, node)) is not None and not va["status"].get("attached"):
            await world.set_attached(volume, node)


LIFE_S, LIVES = 5.0, 120


@each_row("lost", [False, True], ids=["answered", "answers-lost"])
@in_virtual_time
async def test_a_controller_that_is_killed_every_five_seconds_reports_what_is_wanted_within_three_lives(
    lost: bool,
) -> None:
    """For ten minutes: pods come and go, their nodes keep the attachments."""
    world = AttachDetachWorld()
    volumes = [await world.volume() for _ in range(3)]
    nodes = [await world.node() for _ in volumes]
    pods = [await world.pod(node, volume) for node, volume in zip(nodes, volumes, strict=True)]
    since: dict[str, int] = {}
    for life in range(LIVES):
        if lost:
            world.cluster.refuse(DELETE, error=Unreachable("lost"), late_s=7.0, perhaps=True)
        async with world.controlling():
            which = life % len(volumes)
            node, volume = nodes[which], volumes[which]
            await world.settle(LIFE_S / 2)
            await world.delete_pod(pods[which])
            await world.settle((life % 7) * 0.01)  # before, while, and after the DELETE is sent
            pods[which] = await world.pod(node, volume)
            for one, at in zip(volumes, nodes, strict=True):
                await attach_if_there(world, one, at)
            await world.settle(LIFE_S / 2)
        for one, at in zip(volumes, nodes, strict=True):
            await attach_if_there(world, one, at)
            is_due = one.unique not in await world.reported(at)
            since[at] = since.get(at, 0) + 1 if is_due else 0
            assert since[at] < 3, f"{at} lists nothing after {since[at]} lives, in life {life}"


# -- POSTs


async def moves(world: AttachDetachWorld, volume: Vol, pod: str) -> tuple[str, str]:
    """The pod goes, and another one comes to another node. That node, and the pod."""
    await world.delete_pod(pod)
    node = await world.node()
    return node, await world.pod(node, volume)


@each_row("lost", LOST)
@each_row("late_s", [0.05, 3.0, 50.0, 0.0], ids=["soon", "late", "very-late", "never"])
@in_virtual_time
async def test_a_post_without_an_answer_holds_the_volume_until_it_is_looked_for(lost: ApiError, late_s: float) -> None:
    """One that is carried out later still makes an attachment that no pod wants: it is never reported, and deleted."""
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=lost, late_s=late_s)
        pod = await world.pod(node, volume)
        await world.settle(0.1)
        other, _ = await moves(world, volume, pod)
        await world.attach(volume, other)
        await never_reported(world, node, 100)
        assert [volume.va(other)] == await world.attachments()
        assert [volume.unique] == await world.reported(other)


@in_virtual_time
async def test_a_pod_hears_of_a_post_without_an_answer_that_it_waits_for() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        world.cluster.refuse(POST, error=Unreachable("lost"))
        look = world.cluster.refuse("get volumeattachments", times=None, error=Unreachable("no route"))
        pod = await world.pod(node, volume)
        await world.settle(0.1)
        other, pod = await moves(world, volume, pod)
        await world.wait_told(pod, "FailedAttachVolume", f"a request to attach it to node {node} was not answered")
        look.times = 0
        await world.attach(volume, other)
