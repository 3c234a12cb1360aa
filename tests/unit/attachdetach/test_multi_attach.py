"""A pod waits for a volume that another node has: it hears who holds it, why, and whether that will end."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.control import events
from mooring.kube.errors import Unreachable
from tests.support.attachdetaching import DELETE, HOLD, AttachDetachWorld, Vol, attaching
from tests.support.rows import each_row
from tests.support.staying_visible import stays_visible
from tests.support.virtual_loop import in_virtual_time


def of_a_deployment(name: str, revision: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-{revision}",
        "uid": revision,
        "controller": True,
    }
    return {"labels": {"pod-template-hash": revision}, "ownerReferences": [owner]}


async def blocked(
    world: AttachDetachWorld, holder: dict[str, Any] | None = None, pod: dict[str, Any] | None = None
) -> Any:
    """A volume with a pod on n-one, and a pod on n-two that waits."""
    volume = await world.volume()
    await world.node("n-two")
    one, first = await world.attached(volume, node=await world.node("n-one"), name="first", **(holder or {}))
    await world.set_in_use(one, volume)
    second = await world.pod("n-two", volume, name="second", **(pod or {}))
    return volume, first, second


async def heard(world: AttachDetachWorld, seconds: float = 30) -> str:
    """The last text for the waiting pod."""
    await world.settle(seconds)
    return (await world.told("second"))[-1][2]


def begins(volume: Vol, used: str) -> str:
    return f'Multi-Attach error for volume "{volume.pv}" {used}: '


@in_virtual_time
async def test_a_running_pod() -> None:
    async with attaching() as world:
        volume, _, _ = await blocked(world)
        text = (
            begins(volume, "Volume is already used by pod(s) first")
            + "pod first runs on node n-one; this ends only when that pod goes"
        )
        assert text == await heard(world)
        await world.settle(1800)
        assert 2 == len(await world.told("second")), "once as upstream, once with the reason"


@in_virtual_time
async def test_pods_that_wait_too_are_not_named() -> None:
    async with attaching() as world:
        volume, _, _ = await blocked(world)
        await world.pod("n-two", volume, name="third")
        await world.pod(await world.node("n-three"), volume, name="fourth")
        await world.settle(1)
        text = f'Multi-Attach error for volume "{volume.pv}" Volume is already used by pod(s) first'
        assert (
            [text]
            == [told for _, _, told in await world.told("second")]
            == [told for _, _, told in await world.told("fourth")]
        )


@in_virtual_time
async def test_a_pod_that_comes_to_a_node_where_others_have_waited_for_long_hears_it_too() -> None:
    async with attaching() as world:
        volume, _, _ = await blocked(world)
        await world.settle(60)
        await world.pod("n-two", volume, name="third")
        await world.settle(1800)
        text = (
            begins(volume, "Volume is already used by pod(s) first")
            + "pod first runs on node n-one; this ends only when that pod goes"
        )
        assert [text] == [told for _, _, told in await world.told("third")]
        assert 2 == len(await world.told("second")), "it knows"


@in_virtual_time
async def test_a_pod_whose_volume_is_about_to_be_attached_elsewhere_hears_for_whom() -> None:
    """Both pods come at once: there is no attachment when one of them is told."""
    world = AttachDetachWorld()
    volume = await world.volume()
    await world.pod(await world.node("n-one"), volume, name="first")
    await world.pod(await world.node("n-two"), volume, name="second")
    async with world.controlling():
        await world.settle(1)
        one, other = ("first", "second") if await world.told("second") else ("second", "first")
        assert begins(volume, f"Volume is already used by pod(s) {one}")[:-2] == (await world.told(other))[0][2]


@in_virtual_time
async def test_a_pod_of_a_node_that_was_deleted_is_named() -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, _ = await world.attached(volume, name="first")
        await world.remove(NODES, one)
        await world.pod(await world.node(), volume, name="second")
        await world.settle(1)
        assert begins(volume, "Volume is already used by pod(s) first")[:-2] == (await world.told("second"))[0][2]


@in_virtual_time
async def test_a_wait_that_is_over_soon_is_not_explained() -> None:
    async with attaching() as world:
        volume, first, _ = await blocked(world)
        await world.settle(8)
        await world.set_in_use("n-one")
        await world.delete_pod(first)
        await world.attach(volume, "n-two")
        await world.settle(60)
        assert b"multi_attach_blocked{" not in world.metrics.render()
        assert ["FailedAttachVolume", "SuccessfulAttachVolume"] == [
            reason for _, reason, _ in await world.told("second")
        ]


@in_virtual_time
async def test_a_rolling_update_that_can_not_end() -> None:
    async with attaching() as world:
        await blocked(world, of_a_deployment("web", "old"), of_a_deployment("web", "new"))
        text = await heard(world)
        assert (
            "is of the same Deployment web, which waits for this pod before it deletes that one; this never "
            "ends by itself"
        ) in text
        assert text.endswith("use the update strategy Recreate")
        assert 1 == world.metrics.registry.get_sample_value("multi_attach_blocked", {"class": "rolling_update"})


@in_virtual_time
async def test_two_deployments_are_no_rolling_update() -> None:
    async with attaching() as world:
        await blocked(world, of_a_deployment("web", "old"), of_a_deployment("api", "new"))
        assert "pod first runs on node n-one" in await heard(world)


@in_virtual_time
async def test_a_pod_that_has_finished_and_is_still_mounted() -> None:
    async with attaching() as world:
        _, first, _ = await blocked(world)
        await world.pod_status(first, "Succeeded")
        assert "pod first on node n-one has finished, and node n-one still has it mounted" in await heard(world)


@in_virtual_time
async def test_a_pod_that_is_being_deleted() -> None:
    async with attaching() as world:
        _, first, _ = await blocked(world)
        await world.pod_status(first, state="running")
        await world.terminate_pod(first)
        assert "pod first on node n-one is being deleted; this ends when its containers have ended" in await heard(
            world
        )


@in_virtual_time
async def test_a_dead_node_with_the_time_that_is_left() -> None:
    async with attaching() as world:
        _, first, _ = await blocked(world)
        await world.set_ready("n-one", False)
        await world.delete_pod(first)
        text = await heard(world, 15)
        assert (
            "node n-one, which is not ready, had it mounted when it was last heard of; it is detached by force in 5m50s"
            in text
        )
        assert text.endswith("at once if the node is tainted node.kubernetes.io/out-of-service")


@each_row("ready", [True, False])
@in_virtual_time
async def test_a_node_that_is_tainted_is_not_waited_for(ready: bool) -> None:
    """Its detach by force does not come to pass yet: whether its kubelet unmounts is no matter."""
    async with attaching() as world:
        _, first, _ = await blocked(world)
        world.cluster.refuse(DELETE, times=None)
        await world.set_ready("n-one", ready)
        await world.taint("n-one")
        await world.delete_pod(first)
        text = await heard(world, 15)
        assert "no pod uses it any more, and node n-one, which may have it mounted, is tainted" in text
        assert text.endswith("node.kubernetes.io/out-of-service: it is detached by force now")


@in_virtual_time
async def test_a_dead_node_that_is_not_forced() -> None:
    async with attaching(disable_force_detach=True) as world:
        _, first, _ = await blocked(world)
        await world.set_ready("n-one", False)
        await world.delete_pod(first)
        assert "this ends only when the node returns, or is tainted" in await heard(world)


@in_virtual_time
async def test_a_pod_on_a_dead_node() -> None:
    async with attaching() as world:
        await blocked(world)
        await world.set_ready("n-one", False)
        assert "pod first is on node n-one, which is not ready" in await heard(world)


@in_virtual_time
async def test_another_holder_is_told_within_two_minutes() -> None:
    async with attaching() as world:
        _, first, second = await blocked(world)
        assert "pod first runs on" in await heard(world)
        await world.delete_pod(first)
        await world.settle(60)
        assert 2 == len(await world.told(second))
        assert "no pod uses it any more, and node n-one still has it mounted" in await heard(world, 90)


@each_row("error", [None, "busy"])
@in_virtual_time
async def test_a_detach_that_takes_long(error: str | None) -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, first = await world.attached(volume, node=await world.node("n-one"), hold=True)
        await world.delete_pod(first)
        await world.wait_deleting(volume, one)
        await world.pod(await world.node("n-two"), volume, name="second")
        if error:
            await world.va_status(volume, one, attached=True, detachError={"message": error})
        await world.settle(30)
        texts = [text for _, _, text in await world.told("second") if "Multi-Attach" in text]
        assert "it is being detached from node n-one" in texts[-1]
        assert (error is not None) is (f"failed: {error}" in texts[-1])


@in_virtual_time
async def test_a_pod_of_another_namespace_is_not_described() -> None:
    async with attaching() as world:
        await world.make_namespace("far")
        volume, _, _ = await blocked(world)
        other = await world.volume(volume.handle, namespace="far")
        await world.pod("n-two", other, name="third", namespace="far")
        await world.settle(30)
        texts = [text for _, _, text in await world.told("third")]
        assert texts
        assert not [text for text in texts if "first" in text or "second" in text]
        assert await world.find(PODS, "third", "far")


@in_virtual_time
@each_row("events_work", [True, False])
async def test_a_volume_moves_at_once_while_nobody_takes_events(
    events_work: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events have an etcd of their own in many clusters. Where it is away, many wait, and new ones are dropped."""
    monkeypatch.setattr(events, "WAITING_MAX", 3)
    async with attaching() as world:
        if not events_work:
            world.cluster.refuse("create events", times=None, error=Unreachable("etcdserver: request timed out"))
        other = await world.volume()
        await world.attached(other)
        crowded = await world.node()
        for _ in range(10):
            await world.pod(crowded, other)
        volume = await world.volume()
        first, pod = await world.attached(volume)
        second = await world.node()
        await world.settle(60)
        await world.delete_pod(pod)
        began = world.clock.now()
        await world.pod(second, volume)
        await world.wait_no_va(volume, first)
        await world.wait_va(volume, second)
        assert world.clock.now() - began < 5.0


@in_virtual_time
async def test_of_more_pods_than_events_find_room_none_is_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "WAITING_MAX", 3)
    async with attaching() as world:
        volume = await world.volume()
        await world.attached(volume)
        node = await world.node()
        names = [await world.pod(node, volume) for _ in range(20)]
        await world.settle(300)
        told = [len(await world.told(name)) for name in names]
        assert (1, 3) <= (max(told), sum(told)) < (2, 20)


@in_virtual_time
async def test_of_two_attachments_of_a_single_node_volume_one_is_reported_until_it_goes():
    """Two controllers at once, or a late request of one that was killed: both nodes would mount it."""
    world = AttachDetachWorld()
    volume, one, two = await world.volume(), await world.node(), await world.node()
    first, second = await world.pod(one, volume), await world.pod(two, volume)
    await world.make_va(volume, one)
    await world.make_va(volume, two)
    async with world.controlling():
        await world.settle(100)
        assert ([volume.unique], []) == (await world.reported(one), await world.reported(two))
        await world.wait_told(second, "FailedAttachVolume", "Multi-Attach")
        await world.delete_pod(first)
        await world.wait_reported(two, volume)
        assert [] == await world.reported(one)


@in_virtual_time
async def test_of_two_attachments_the_node_that_has_it_mounted_keeps_it():
    world = AttachDetachWorld()
    volume, one, two = await world.volume(), await world.node(), await world.node()
    await world.pod(one, volume)
    await world.pod(two, volume)
    await world.make_va(volume, one)
    await world.make_va(volume, two)
    await world.set_in_use(two, volume)
    async with world.controlling():
        await world.wait_reported(two, volume)
        await world.settle(100)
        assert [] == await world.reported(one)


@in_virtual_time
@each_row("mounts", [True, False])
async def test_of_two_attachments_a_node_that_waits_to_mount_is_not_told_while_another_is(mounts: bool):
    """A kubelet says that a volume is in use before it is told that it may mount it. Its attachment came back with a
    backup.
    """
    world = AttachDetachWorld()
    volume, one, two = await world.volume(), await world.node(), await world.node()
    first = await world.pod(one, volume)
    async with world.controlling():
        await world.attach(volume, one)
        await world.wait_reported(one, volume)
        if mounts:
            await world.set_in_use(one, volume)
        await world.pod(two, volume)
        await world.set_in_use(two, volume)
        await world.make_va(volume, two)
        await world.settle(100)
        assert ([volume.unique], []) == (await world.reported(one), await world.reported(two))
        await world.delete_pod(first)
        await world.set_in_use(one)
        await world.wait_reported(two, volume)
        assert [] == await world.reported(one)


@in_virtual_time
@each_row("is_before", [True, False])
async def test_of_two_nodes_that_wait_to_mount_one_is_told(is_before: bool):
    world = AttachDetachWorld()
    volume, nodes = await world.volume(), [await world.node(), await world.node()]
    for node in nodes:
        await world.pod(node, volume)
        await world.make_va(volume, node)
        if is_before:
            await world.set_in_use(node, volume)
    async with world.controlling():
        await world.settle(100)
        for node in nodes:
            await world.set_in_use(node, volume)
        await world.settle(100)
        assert [volume.unique] == [one for node in nodes for one in await world.reported(node)]


@in_virtual_time
async def test_27c2_a_wait_for_another_node_stays_visible() -> None:
    async with attaching() as world:
        await blocked(world)
        await world.settle(15)
        await stays_visible(world, "second", "pod first runs on node n-one")


@in_virtual_time
async def test_27c2_an_attachment_that_its_attacher_holds_waits_for_the_driver_whoever_else_holds_it() -> None:
    async with attaching() as world:
        volume = await world.volume()
        one, first = await world.attached(volume, node=await world.node("n-one"))
        own = {"metadata": {"finalizers": [f"external-attacher/{volume.driver.replace('.', '-')}", HOLD]}}
        await world.patch(VOLUME_ATTACHMENTS, volume.va(one), own)
        await world.delete_pod(first)
        await world.wait_deleting(volume, one)
        await world.pod(await world.node("n-two"), volume, name="second")
        assert f"this ends when driver {volume.driver} has done so" in await heard(world)


@in_virtual_time
async def test_27c2_an_attachment_that_only_others_finalizers_hold_is_told_with_their_names_and_stays_visible() -> None:
    """Nobody would look into a VolumeAttachment for that: the driver has let go long ago."""
    async with attaching() as world:
        volume = await world.volume()
        one, first = await world.attached(volume, node=await world.node("n-one"), hold=True)
        await world.delete_pod(first)
        await world.wait_deleting(volume, one)
        await world.pod(await world.node("n-two"), volume, name="second")
        await world.settle(15)
        held = f"VolumeAttachment {volume.va(one)}, which its attacher does not hold, is kept by the finalizers {HOLD}"
        await stays_visible(world, "second", f"{held}; this ends when whoever has set them takes them away")


@each_row(
    "modes", [["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteMany"]], ids=["RWO", "RWO-ROX", "RWX"]
)
@in_virtual_time
async def test_a_persistent_disk_of_before_is_for_one_node_whatever_its_modes_say(modes: list[str]) -> None:
    """csi-translation-lib rewrites them before the controller asks."""
    async with attaching() as world:
        volume = await world.volume(
            handle="projects/UNSPECIFIED/zones/z/disks/disk",
            driver="pd.csi.storage.gke.io",
            modes=modes,
            source={"gcePersistentDisk": {"pdName": "disk"}},
            labels={"topology.kubernetes.io/zone": "z"},
        )
        await world.attached(volume)
        two = await world.node()
        waiting = await world.pod(two, volume)
        await world.wait_told(waiting, "FailedAttachVolume", "Multi-Attach error")
        assert await world.va(volume, two) is None
