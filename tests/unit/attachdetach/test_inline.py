"""In-tree volumes that a pod itself defines, and that CSI drivers took over (27 A1): attached and detached without a
PersistentVolume.
"""

from __future__ import annotations

from mooring.api.core import PERSISTENT_VOLUMES
from mooring.api.storage import CSI_DRIVERS
from mooring.kube.errors import Unreachable
from tests.support.attachdetaching import POST, AttachDetachWorld, Vol, attaching
from tests.support.builders import Json, a_csi_driver
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

GCE = "pd.csi.storage.gke.io"
DISK = Vol(f"{GCE}-disk", "", GCE, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk", "")


def own(*, read_only: bool = False, disk: str = "disk") -> Json:
    return {"name": "own", "gcePersistentDisk": {"pdName": disk, "fsType": "ext4", "readOnly": read_only}}


@in_virtual_time
async def test_a_pods_own_disk_is_attached_by_the_driver_that_took_over() -> None:
    async with attaching() as world:
        node = await world.node()
        pod = await world.pod(node, volumes=[own()])
        made = await world.wait_va(DISK, node)
        csi = {"driver": GCE, "volumeHandle": DISK.handle, "fsType": "ext4", "volumeAttributes": {"partition": ""}}
        inline = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "csi": csi}
        found = made["spec"]["source"]["inlineVolumeSpec"]
        assert (GCE, node, inline) == (
            made["spec"]["attacher"],
            made["spec"]["nodeName"],
            {key: found.get(key) for key in inline},
        )
        await world.attach(DISK, node)
        text = f'AttachVolume.Attach succeeded for volume "{GCE}-disk" '
        assert text == await world.wait_told(pod, "SuccessfulAttachVolume")


@in_virtual_time
async def test_it_stays_until_it_is_unmounted_and_goes_then() -> None:
    async with attaching() as world:
        node, pod = await world.attached(DISK, volumes=[own()])
        await world.set_in_use(node, DISK)
        await world.delete_pod(pod)
        await world.settle(60)
        assert [DISK.unique] == await world.reported(node)
        await world.set_in_use(node)
        await world.wait_no_va(DISK, node)
        assert [] == await world.reported(node)


@each_row("goes", ["before", "after"])
@in_virtual_time
async def test_a_pod_that_goes_while_no_controller_runs_leaves_nothing(goes: str) -> None:
    """kill -9, and nothing names the disk any more but the attachment itself. Upstream passes it over at its start."""
    world = AttachDetachWorld()
    async with world.controlling():
        node, pod = await world.attached(DISK, volumes=[own()])
        await world.set_in_use(node, DISK)
    if goes == "before":
        await world.delete_pod(pod)
        await world.set_in_use(node)
    async with world.controlling():
        if goes == "after":
            await world.delete_pod(pod)
            await world.set_in_use(node)
        await world.wait_no_va(DISK, node)
        assert [] == await world.reported(node)


@each_row("carried_out", ["at once", "late", "never"])
@in_virtual_time
async def test_a_request_without_an_answer_leaves_nothing_when_its_pod_goes(carried_out: str) -> None:
    async with attaching() as world:
        node, other = await world.node(), await world.node()
        after: Json = {"at once": {"after": True}, "late": {"late_s": 20.0}, "never": {}}[carried_out]
        world.cluster.refuse(POST, error=Unreachable("lost"), **after)
        pod = await world.pod(node, volumes=[own()])

        async def posted() -> bool:
            return bool(world.of(POST))

        await world.until(posted, what="a POST")
        await world.delete_pod(pod)
        await world.pod(other, volumes=[own()])
        await world.settle(90)
        assert [DISK.va(other)] == await world.attachments()


@in_virtual_time
async def test_a_restart_takes_nothing_from_a_pod_that_uses_it() -> None:
    world = AttachDetachWorld()
    async with world.controlling():
        node, _ = await world.attached(DISK, volumes=[own()])
        await world.set_in_use(node, DISK)
    world.cluster.requests.clear()
    async with world.controlling():
        await world.settle(300)
        assert [] == world.writes()
        assert [DISK.va(node)] == await world.attachments()


@in_virtual_time
async def test_claims_of_other_pods_that_lead_nowhere_do_not_keep_it() -> None:
    """As they keep an attachment whose PersistentVolume is gone: they may be its claim."""
    async with attaching() as world:
        node, pod = await world.attached(DISK, volumes=[own()])
        await world.pod(node, await world.volume(bound=False))
        await world.delete_pod(pod)
        await world.wait_no_va(DISK, node)


@in_virtual_time
async def test_a_disk_for_one_node_waits_for_the_other() -> None:
    async with attaching() as world:
        node, pod = await world.attached(DISK, volumes=[own()])
        other = await world.node()
        second = await world.pod(other, volumes=[own()])
        await world.wait_told(second, "FailedAttachVolume", f'Multi-Attach error for volume "{GCE}-disk" ')
        assert await world.va(DISK, other) is None
        await world.delete_pod(pod)
        await world.attach(DISK, other)
        assert await world.va(DISK, node) is None


@in_virtual_time
async def test_it_is_for_one_node_also_when_its_pod_is_gone() -> None:
    """The attachment says so: a detach that fails holds the disk."""
    async with attaching() as world:
        node, pod = await world.attached(DISK, volumes=[own()], hold=True)
        await world.delete_pod(pod)
        await world.wait_deleting(DISK, node)
        other = await world.node()
        second = await world.pod(other, volumes=[own(read_only=True)])
        await world.wait_told(second, "FailedAttachVolume", "Multi-Attach error")
        await world.release(DISK, node)
        await world.attach(DISK, other)


@in_virtual_time
async def test_readers_have_it_on_many_nodes() -> None:
    async with attaching() as world:
        await world.attached(DISK, volumes=[own(read_only=True)])
        await world.attached(DISK, volumes=[own(read_only=True)])
        assert 2 == len(await world.attachments())


@in_virtual_time
async def test_a_claim_and_a_pod_of_its_own_share_one_attachment() -> None:
    async with attaching() as world:
        volume, node = await world.volume(source={"gcePersistentDisk": {"pdName": "disk"}}), await world.node()
        pod = await world.pod(node, volume)
        await world.attach(DISK, node)
        own_pod = await world.pod(node, volumes=[own()])
        await world.delete_pod(pod)
        await world.settle(60)
        assert [DISK.va(node)] == await world.attachments()
        await world.users.delete(PERSISTENT_VOLUMES, volume.pv)
        await world.settle(60)
        assert [DISK.unique] == await world.reported(node)
        await world.delete_pod(own_pod)
        await world.wait_no_va(DISK, node)


@in_virtual_time
async def test_a_driver_that_needs_no_attaching_gets_no_attachment() -> None:
    async with attaching() as world:
        await world.create(a_csi_driver(GCE, attachRequired=False))
        node = await world.node()
        await world.pod(node, volumes=[own()])
        await world.settle(60)
        assert [] == await world.attachments()
        await world.delete(CSI_DRIVERS, GCE)
        await world.attach(DISK, node)


@in_virtual_time
async def test_a_pod_that_has_ended_lets_go() -> None:
    async with attaching() as world:
        node, pod = await world.attached(DISK, volumes=[own()])
        await world.pod_status(pod, "Succeeded")
        await world.wait_no_va(DISK, node)


@in_virtual_time
async def test_a_node_that_attaches_by_itself_gets_nothing() -> None:
    async with attaching() as world:
        node = await world.node(managed=False)
        await world.pod(node, volumes=[own()])
        await world.settle(60)
        assert [] == await world.attachments()
        await world.manage(node)
        await world.attach(DISK, node)


@in_virtual_time
async def test_what_has_no_word_in_csi_is_told_to_the_pod() -> None:
    async with attaching() as world:
        node = await world.node()
        wrong = {"name": "wrong", "azureDisk": {"diskName": "d", "diskURI": "https://a/d.vhd", "kind": "Dedicated"}}
        pod = await world.pod(node, volumes=[wrong, own()])
        await world.attach(DISK, node)
        text = (
            'AttachVolume.Attach failed for volume "wrong" : failed to translate in-tree pv to CSI: '
            "kind(Dedicated) is not supported"
        )
        await world.wait_told(pod, "FailedAttachVolume", text)


@in_virtual_time
async def test_an_attachment_of_others_holds_the_disk_and_is_left_alone() -> None:
    async with attaching() as world:
        first, second = await world.node(), await world.node()
        csi = {"driver": GCE, "volumeHandle": DISK.handle}
        spec = {
            "attacher": GCE,
            "nodeName": first,
            "source": {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": csi}},
        }
        await world.create(
            {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "mine"}, "spec": spec}
        )
        pod = await world.pod(second, volumes=[own()])
        await world.wait_told(pod, "FailedAttachVolume", "Multi-Attach error")
        assert ["mine"] == await world.attachments()
