"""Attaching, in virtual time: pods, claims and nodes become attachments and reports. Ids:
docs/behaviours/attachdetach.md.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from tests.support.attachdetaching import DELETE, NS, PATCH_NODE, POST, AttachDetachWorld, attaching
from tests.support.builders import DRIVER, RWX, a_pod, an_ephemeral_volume
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


@in_virtual_time
async def test_AD01_an_idle_controller_writes_nothing() -> None:
    async with attaching() as world:
        await world.node()
        await world.settle(600)
        assert [] == world.cluster.requests


@in_virtual_time
async def test_AD02_a_pod_on_a_node_gets_an_attachment() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        await world.pod(node, volume)
        found = await world.wait_va(volume, node)
        expected = {"attacher": volume.driver, "nodeName": node, "source": {"persistentVolumeName": volume.pv}}
        assert expected == found["spec"]
        assert not {"labels", "annotations", "finalizers", "ownerReferences"} & set(found["metadata"])
        await world.settle()
        assert [POST] == world.writes()


@in_virtual_time
async def test_AD02_the_mirror_of_a_static_pod_counts_as_any_other() -> None:
    """Issue 27, A12."""
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        mirror = a_pod("static", volume.claim, node=node)
        mirror["metadata"] |= {
            "namespace": NS,
            "annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
        }
        await world.create(mirror)
        await world.attach(volume, node)
        assert [volume.unique] == await world.reported(node)


VECTORS = {
    "csi-4d8f42c5f953488d695504cfaf9658961d83f72b5ac9bba3e32c2ddb7708e84f": (
        "testvol-01",
        "testdriver-01",
        "testnode-01",
    ),
    "csi-c97d341c3f1da4f80af7e5d3de622e065f86af9258dee1bdb039d0b0a4ae514d": (
        "vol-001",
        "hostpath.csi.k8s.io",
        "node-a",
    ),
}


@each_row(("name", "of"), VECTORS.items())
@in_virtual_time
async def test_AD02_the_name_is_the_kubelets(name: str, of: tuple[str, str, str]) -> None:
    handle, driver, node = of
    async with attaching() as world:
        volume = await world.volume(handle, driver=driver)
        await world.pod(await world.node(node), volume)
        await world.shown(VOLUME_ATTACHMENTS, name, bool)


@in_virtual_time
async def test_AD03_what_is_attached_is_told_to_the_node_and_to_the_pod() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        assert [{"name": volume.unique, "devicePath": ""}] == await world.entries(node)
        await world.settle()
        assert [
            ("Normal", "SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{volume.pv}" ')
        ] == await world.told(pod)
        assert [POST, PATCH_NODE] == world.writes()


@each_row(("workers", "posts"), [(1, 1), (2, 2)])
@in_virtual_time
async def test_a_request_that_hangs_holds_up_no_other_volume_but_for_a_second_where_all_workers_are_at_work(
    workers: int, posts: int
) -> None:
    """Issue 27, A12."""
    async with attaching(workers=workers) as world:
        node = await world.node()
        hold = world.cluster.hold(POST)
        for volume in (await world.volume(), await world.volume()):
            await world.pod(node, volume)
        await world.settle(0.5)
        assert posts == len(world.of(POST))
        await world.settle(2)
        assert 2 == len(world.of(POST))
        hold.go.set()


@in_virtual_time
async def test_AD07_a_shared_volume_is_attached_to_two_nodes() -> None:
    async with attaching() as world:
        volume, one, two = await world.volume(modes=RWX), await world.node(), await world.node()
        await world.pod(one, volume)
        await world.pod(two, volume)
        await world.attach(volume, one)
        await world.attach(volume, two)
        assert [volume.unique] == await world.reported(one) == await world.reported(two)


@in_virtual_time
async def test_AD16_a_node_counts_once_its_kubelet_leaves_attaching_to_controllers() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node(managed=False)
        await world.pod(node, volume)
        await world.settle(60)
        assert [] == world.writes()
        await world.manage(node)
        await world.settle()
        assert [POST] == world.writes()


@each_row(
    "driver", [{"attachRequired": False}, {"attachRequired": True}, {}, None], ids=["AD17", "required", "unset", "AD18"]
)
@in_virtual_time
async def test_AD17_AD18_a_driver_may_do_without_attaching(driver: dict[str, Any] | None) -> None:
    async with attaching() as world:
        if driver is not None:
            await world.csi_driver(**driver)
        volume, node = await world.volume(), await world.node()
        await world.pod(node, volume)
        await world.settle()
        expected = [] if driver == {"attachRequired": False} else [POST]
        assert (expected, []) == (world.writes(), await world.reported(node))


@in_virtual_time
async def test_AD20_an_inline_volume_is_never_attached() -> None:
    async with attaching() as world:
        node = await world.node()
        await world.pod(node, volumes=[{"name": "inline", "csi": {"driver": "csi.test"}}])
        await world.settle()
        assert [] == world.writes()


@each_row("owned", [True, False])
@in_virtual_time
async def test_AD21_an_ephemeral_claim_counts_only_for_its_own_pod(owned: bool) -> None:
    async with attaching() as world:
        node = await world.node()
        pod = await world.pod(node, volumes=[an_ephemeral_volume("data")])
        uid = await world.pod_uid(pod) if owned else "another"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid, "controller": True}
        await world.volume(claim=f"{pod}-data", owner=owner)
        await world.settle()
        assert ([POST] if owned else []) == world.writes()


@in_virtual_time
async def test_AD22_a_claim_that_is_bound_later_is_attached_then() -> None:
    async with attaching() as world:
        volume, node = await world.volume(bound=False), await world.node()
        await world.pod(node, volume)
        await world.settle()
        assert [] == world.writes()
        await world.bind(volume)
        await world.settle()
        assert [POST] == world.writes()


@in_virtual_time
async def test_AD23_a_volume_of_another_claim_of_that_name_is_not_attached() -> None:
    async with attaching() as world:
        volume, node = await world.volume(uid="another"), await world.node()
        await world.pod(node, volume)
        await world.settle()
        assert [] == world.writes()


def failure(message: str, second: int = 0) -> dict[str, Any]:
    return {"message": message, "time": f"2026-01-01T00:00:{second:02}Z"}


@in_virtual_time
async def test_AD24_a_failed_attach_is_told_for_each_attempt_of_the_attacher() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        for second in (1, 2):
            await world.va_status(volume, node, attachError=failure("boom", second))
            await world.settle()
        ((type, reason, text, count),) = await world.events(pod)
        assert ("Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{volume.pv}" : boom', 2) == (
            type,
            reason,
            text,
            count,
        )
        assert ([], [POST]) == (await world.reported(node), world.writes())
        await world.set_attached(volume, node)
        await world.wait_reported(node, volume)
        assert [POST, PATCH_NODE] == world.writes()


@each_row("refusals", [1, 3])
@in_virtual_time
async def test_AD24_a_refused_post_is_tried_again_with_back_off(refusals: int) -> None:
    async with attaching() as world:
        world.cluster.refuse(POST, times=refusals)
        volume, node = await world.volume(), await world.node()
        began = world.clock.now()
        await world.pod(node, volume)
        await world.wait_va(volume, node)
        back_off_s = sum(0.5 * 2**number for number in range(refusals))
        assert back_off_s * 0.97 <= world.clock.now() - began <= back_off_s * 1.03 + 0.5
        assert refusals + 1 == len(world.of(POST))


@in_virtual_time
async def test_AD25_AD26_without_an_attacher_the_pod_hears_of_it_every_two_minutes() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.settle(119)
        assert [] == await world.told(pod)
        await world.settle(2)
        text = f"timed out waiting for external-attacher of {volume.driver} CSI driver to attach volume {volume.handle}"
        assert [
            ("Warning", "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{volume.pv}" : {text}')
        ] == await world.told(pod)
        await world.settle(120)
        assert 2 == (await world.events(pod))[0][3]
        assert await world.va(volume, node)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        assert [POST, DELETE] == world.writes()


@in_virtual_time
async def test_AD27_an_attachment_that_is_being_deleted_is_no_success() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node, hold=True)
    await world.delete(VOLUME_ATTACHMENTS, volume.va(node))
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.wait_told(pod, "FailedAttachVolume", "volume attachment is being deleted")
        assert ([], []) == (await world.reported(node), world.writes())
        await world.release(volume, node)
        await world.attach(volume, node)
        assert [POST, PATCH_NODE] == world.writes()


@in_virtual_time
async def test_AD43_an_attachment_that_somebody_else_made_is_waited_for() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    async with world.controlling():
        await world.settle()
        await world.make_va(volume, node, attached=False)
        await world.pod(node, volume)
        await world.attach(volume, node)
        assert not [one for one in world.writes() if one == DELETE]


@in_virtual_time
async def test_AD46_many_volumes_of_one_node_need_few_writes_of_its_status() -> None:
    async with attaching() as world:
        node = await world.node()
        volumes = [await world.volume() for _ in range(50)]
        for volume in volumes:
            await world.pod(node, volume)
        for volume in volumes:
            await world.wait_va(volume, node)
            await world.set_attached(volume, node)
        await world.wait_reported(node, *volumes)
        assert 50 == len(world.of(POST))
        assert len(world.of(PATCH_NODE)) <= 15


@in_virtual_time
async def test_AD48_a_handle_may_hold_slashes_and_carets() -> None:
    async with attaching() as world:
        for handle in ("a/b/c", "a^b"):
            volume = await world.volume(handle)
            node, pod = await world.attached(volume)
            assert [f"kubernetes.io/csi/csi.test^{handle}"] == await world.reported(node)
            await world.delete_pod(pod)
            await world.wait_no_va(volume, node)
            assert [] == await world.reported(node)


@in_virtual_time
async def test_AD49_a_volume_for_many_readers_is_attached_to_two_nodes() -> None:
    async with attaching() as world:
        volume, one, two = (
            await world.volume(modes=("ReadWriteOnce", "ReadOnlyMany")),
            await world.node(),
            await world.node(),
        )
        await world.pod(one, volume)
        await world.pod(two, volume)
        await world.attach(volume, one)
        await world.attach(volume, two)


@in_virtual_time
async def test_AD54_one_volume_that_leads_nowhere_does_not_hold_up_the_others() -> None:
    async with attaching() as world:
        good, bad, fine, node = (
            await world.volume(),
            await world.volume(bound=False),
            await world.volume(),
            await world.node(),
        )
        await world.pod(node, good, bad, fine)
        await world.attach(good, node)
        await world.attach(fine, node)
        assert await world.va(bad, node) is None


@in_virtual_time
async def test_AD56_an_in_tree_volume_is_attached_by_the_driver_that_took_over() -> None:
    async with attaching() as world:
        volume, node = (
            await world.volume(source={"gcePersistentDisk": {"pdName": "disk", "fsType": "ext4"}}),
            await world.node(),
        )
        await world.pod(node, volume)
        await world.settle()
        (found,) = await world.list(VOLUME_ATTACHMENTS)
        assert ("pd.csi.storage.gke.io", {"persistentVolumeName": volume.pv}) == (
            found["spec"]["attacher"],
            found["spec"]["source"],
        )


@in_virtual_time
async def test_AD19_a_driver_that_needs_no_attaching_any_more_lets_go_once_unmounted() -> None:
    async with attaching() as world:
        await world.csi_driver(attachRequired=True)
        volume = await world.volume()
        node, _ = await world.attached(volume)
        await world.set_in_use(node, volume)
        await world.delete(CSI_DRIVERS, "csi.test")
        await world.csi_driver(attachRequired=False)
        await world.settle(60)
        assert [volume.unique] == await world.reported(node)
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert [] == await world.reported(node)


@in_virtual_time
async def test_a_pod_is_served_in_whatever_order_its_objects_come() -> None:
    """Node and volume after the pod: upstream would forget it until its next sweep."""
    async with attaching() as world:
        volume = await world.volume()
        body = await world.get(PERSISTENT_VOLUMES, volume.pv)
        await world.patch(PERSISTENT_VOLUMES, volume.pv, {"metadata": {"finalizers": None}})
        await world.remove(PERSISTENT_VOLUMES, volume.pv)
        await world.pod("late", volume)
        await world.settle()
        await world.node("late")
        await world.settle()
        assert [] == world.writes()
        await world.create({**body, "metadata": {"name": volume.pv}})
        await world.attach(volume, "late")


@in_virtual_time
async def test_a_csi_driver_that_is_installed_anew_makes_no_storm() -> None:
    """Most of its fields can't be changed, so installers delete it and make it anew a moment later."""
    async with attaching() as world:
        await world.csi_driver(attachRequired=False)
        node = await world.node()
        for _ in range(20):
            await world.pod(node, await world.volume())
        await world.settle(30)
        await world.delete(CSI_DRIVERS, DRIVER)
        await world.settle(1)
        await world.csi_driver(attachRequired=False)
        await world.settle(60)
        assert [] == world.of(POST)
        await world.delete(CSI_DRIVERS, DRIVER)
        await world.settle(60)
        assert 20 == len(world.of(POST)), "it is gone for good"
