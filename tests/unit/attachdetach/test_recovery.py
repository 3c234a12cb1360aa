"""What an earlier controller left behind, and what others change: the attachments are the truth. Ids:
docs/behaviours/attachdetach.md.
"""

from __future__ import annotations

from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.cluster.attachdetach.identity import MANAGED
from mooring.kube.errors import Unreachable
from tests.support.attachdetaching import DELETE, FENCE, PATCH_NODE, POST, AttachDetachWorld, Vol, attaching
from tests.support.backups import put_back
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


@in_virtual_time
async def test_AD35_where_all_is_well_a_start_writes_nothing() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(reported=[volume], in_use=[volume])
    await world.make_va(volume, node)
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.settle(600)
        assert ([], []) == (world.cluster.requests, await world.told(pod))


@in_virtual_time
async def test_AD36_what_is_attached_and_wanted_is_reported() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node)
    await world.pod(node, volume)
    async with world.controlling():
        await world.wait_reported(node, volume)
        assert [FENCE, PATCH_NODE] == world.writes(), "an earlier process may have asked for its deletion"


@each_row("attached", [True, False])
@each_row("in_use", [True, False])
@in_virtual_time
async def test_AD37_what_nobody_wants_is_deleted_once_unmounted(attached: bool, in_use: bool) -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume] if in_use else [])
    await world.make_va(volume, node, attached=attached)
    async with world.controlling():
        await world.settle(60)
        fence = [FENCE] if in_use else []  # the process before may have sent a DELETE by force
        if in_use:
            assert fence == world.writes()
            await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert [*fence, DELETE] == world.writes()
        assert 1 == len(world.of("get nodes")), "asked anew, since this controller has not written to the node"


@each_row("in_use", [True, False])
@in_virtual_time
async def test_AD38_what_is_reported_and_not_wanted_is_taken_off_the_report_first(in_use: bool) -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(reported=[volume], in_use=[volume] if in_use else [])
    await world.make_va(volume, node)
    async with world.controlling():
        await world.settle(60)
        if in_use:
            assert [] == world.writes()
            await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert [PATCH_NODE, DELETE] == world.writes()


@in_virtual_time
async def test_AD39_an_attachment_that_somebody_deletes_is_made_anew() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, _ = await world.attached(volume)
        await world.settle()
        old = await world.wait_va(volume, node)
        await world.delete(VOLUME_ATTACHMENTS, volume.va(node))
        await world.settle()
        assert [] == await world.reported(node)
        new = await world.wait_va(volume, node)
        assert old["metadata"]["uid"] != new["metadata"]["uid"]
        await world.attach(volume, node)


@in_virtual_time
async def test_AD40_what_is_not_attached_any_more_is_not_reported() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, _ = await world.attached(volume)
        await world.set_attached(volume, node, False)
        await world.wait_reported(node)
        await world.set_attached(volume, node)
        await world.wait_reported(node, volume)
        assert (1, 0) == (len(world.of(POST)), len(world.of(DELETE)))


@in_virtual_time
async def test_AD43_a_post_that_finds_one_waits_as_if_it_had_made_it() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    world.cluster.refuse(POST, error=Unreachable("lost"), after=True)
    async with world.controlling():
        await world.pod(node, volume)
        await world.attach(volume, node)
        assert 1 == len(world.of(POST))


@each_row("is_wanted", [True, False])
@in_virtual_time
async def test_an_attachment_that_a_backup_brings_back_from_its_detach_is_detached_or_reported(is_wanted: bool) -> None:
    """The same object, from before its DELETE. That was answered, and is undone now."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume, hold=True)
        await world.settle(5)
        attachments = world.store.resource("storage.k8s.io", "v1", "volumeattachments")
        (kept,) = world.store.table(attachments).items()
        world.store.version += 1000
        await world.delete_pod(pod)
        await world.wait_deleting(volume, node)
        await world.settle(5)
        for resource in world.store.resources:
            objects = [kept] if resource is attachments else world.store.table(resource).items()
            old = [one if one.rv <= kept.rv else one.at_version(kept.rv) for one in objects]
            put_back(world.store, resource, old, kept.rv)
        world.store.version = kept.rv + 20
        if is_wanted:
            await world.pod(node, volume)
            await world.wait_reported(node, volume)
        await world.settle(100)
        assert is_wanted == ("deletionTimestamp" not in (await world.wait_va(volume, node))["metadata"])


@in_virtual_time
async def test_AD47_a_node_that_registers_anew_is_told_again() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, _ = await world.attached(volume)
        await world.remove(NODES, node)
        await world.settle()
        await world.node(node)
        await world.wait_reported(node, volume)
        assert 1 == len(world.of(POST))


FOREIGN = {"name": "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.test:x:0", "devicePath": "/dev/sdx"}


@in_virtual_time
async def test_AD55_entries_of_other_plugins_are_left_as_they_are() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node(foreign=[FOREIGN])
        pod = await world.pod(node, volume)
        await world.attach(volume, node)
        assert 2 == len(await world.entries(node))
        assert FOREIGN in await world.entries(node)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        assert [FOREIGN] == await world.entries(node)


@in_virtual_time
async def test_a_report_without_an_attachment_is_taken_back() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(reported=[volume])
    async with world.controlling():
        await world.wait_reported(node)
        assert [PATCH_NODE] == world.writes()


@each_row("in_use", [True, False])
@in_virtual_time
async def test_an_attachment_whose_volume_is_gone_is_found_by_its_name(in_use: bool) -> None:
    """Upstream leaves it for ever."""
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume] if in_use else [])
    await world.make_va(volume, node)
    for kind, name in ((PERSISTENT_VOLUMES, volume.pv), (PERSISTENT_VOLUME_CLAIMS, volume.claim)):
        await world.patch(kind, name, {"metadata": {"finalizers": None}})
        await world.remove(kind, name)
    async with world.controlling():
        await world.settle(600)
        assert in_use is (await world.va(volume, node) is not None)
        if in_use:
            await world.set_in_use(node)
            await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_pod_whose_claim_can_not_be_followed_keeps_its_volume() -> None:
    """Upstream would detach after a restart: nothing shows it that the pod wants the volume."""
    world = AttachDetachWorld()
    volume, node = await world.volume(bound=False), await world.node()
    await world.make_va(volume, node)
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.settle(600)
        assert [] == world.of(DELETE)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)


@each_row("uid", ["", None], ids=["empty", "none"])
@in_virtual_time
async def test_a_volume_whose_reservation_does_not_say_for_which_claim_stays_with_its_pod(uid: str | None) -> None:
    """An empty uid is none: it does not mean another claim."""
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.patch(PERSISTENT_VOLUMES, volume.pv, {"spec": {"claimRef": {"uid": uid}}})
        await world.settle(600)
        assert ([], [volume.unique]) == (world.of(DELETE), await world.reported(node))
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)


@each_row("field", ["name", "namespace"])
@in_virtual_time
async def test_a_volume_whose_claim_ref_lost_a_name_is_attached_for_the_claim_of_its_uid(field: str) -> None:
    async with attaching() as world:
        volume = await world.volume()
        await world.patch(PERSISTENT_VOLUMES, volume.pv, {"spec": {"claimRef": {field: ""}}})
        node, pod = await world.attached(volume)
        await world.settle(600)
        assert [] == world.of(DELETE)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_volume_whose_claim_ref_was_removed_stays_where_its_pod_is() -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.patch(PERSISTENT_VOLUMES, volume.pv, {"spec": {"claimRef": None}})
        await world.settle(600)
        assert ([], [volume.unique]) == (world.of(DELETE), await world.reported(node))
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)


@each_row("more", [{"name": "by-hand"}, {"name": "by-hand", "pv": "elsewhere"}], ids=["same-volume", "no-volume"])
@in_virtual_time
async def test_attachments_of_other_names_are_left_alone(more: dict[str, Any]) -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    name = await world.make_va(volume, node, **more)
    async with world.controlling():
        await world.settle(600)
        assert [] == world.writes()
        assert await world.find(VOLUME_ATTACHMENTS, name)


@in_virtual_time
async def test_an_attachment_by_hand_keeps_a_volume_for_one_node_from_another() -> None:
    async with attaching() as world:
        volume, one, two = await world.volume(), await world.node(), await world.node()
        await world.make_va(volume, one, name="by-hand")
        pod = await world.pod(two, volume)
        await world.wait_told(pod, "FailedAttachVolume", "VolumeAttachment by-hand")
        assert await world.va(volume, two) is None
        await world.delete(VOLUME_ATTACHMENTS, "by-hand")
        await world.attach(volume, two)


def inline(volume: Vol) -> dict[str, Any]:
    """Of an attachment for a pod's own volume of an in-tree plugin, as an earlier controller made it."""
    source = {"csi": {"driver": volume.driver, "volumeHandle": volume.handle}, "accessModes": ["ReadWriteOnce"]}
    return {"pv": None, "inline": source}


@each_row("in_use", [True, False])
@in_virtual_time
async def test_an_inline_attachment_that_nobody_wants_is_deleted_once_unmounted(in_use: bool) -> None:
    world = AttachDetachWorld()
    volume = Vol("", "", "csi.test", "disk", "")
    node = await world.node(in_use=[volume] if in_use else [])
    await world.make_va(volume, node, **inline(volume))
    async with world.controlling():
        await world.settle(60)
        if in_use:
            assert await world.va(volume, node)
            await world.set_in_use(node)
        await world.wait_no_va(volume, node)
        assert [*([FENCE] if in_use else []), DELETE] == world.writes()


@in_virtual_time
async def test_an_inline_attachment_holds_its_volume_until_it_is_gone() -> None:
    world = AttachDetachWorld()
    volume, one, two = await world.volume(), await world.node(), await world.node()
    await world.make_va(volume, one, hold=True, **inline(volume))
    await world.pod(two, volume)
    async with world.controlling():
        await world.wait_deleting(volume, one)
        await world.settle(60)
        assert await world.va(volume, two) is None
        await world.release(volume, one)
        await world.attach(volume, two)


@each_row("attached", [True, False])
@each_row("kinds", [[PERSISTENT_VOLUMES], [PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS]], ids=["volume", "and-claim"])
@in_virtual_time
async def test_a_volume_whose_object_goes_stays_until_its_pod_goes(attached: bool, kinds: list[Any]) -> None:
    """Somebody took the finalizers away, while the pod had not mounted it yet."""
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await (world.attach if attached else world.wait_va)(volume, node)
        for kind in kinds:
            await world.patch(kind, volume.pv, {"metadata": {"finalizers": None}})
            await world.remove(kind, volume.pv)
        await world.settle(600)
        assert await world.va(volume, node)
        assert ([volume.unique] if attached else []) == await world.reported(node)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_node_that_loses_its_annotation_stays_managed() -> None:
    async with attaching() as world:
        first, second = await world.volume(), await world.volume()
        node, _ = await world.attached(first)
        await world.patch(NODES, node, {"metadata": {"annotations": {MANAGED: None}}})
        await world.settle()
        await world.pod(node, second)
        await world.attach(second, node)
        assert sorted([first.unique, second.unique]) == await world.reported(node)
        labels = {"plugin_name": "kubernetes.io/csi:csi.test", "state": "desired_state_of_world"}
        assert 2 == world.metrics.registry.get_sample_value("attachdetach_controller_total_volumes", labels)
        pod = await world.pod(node, await world.volume(bound=False))
        await world.wait_told(pod, "FailedAttachVolume", "is not bound")


@in_virtual_time
async def test_a_node_that_is_made_anew_without_the_annotation_is_not_managed() -> None:
    async with attaching() as world:
        first, second = await world.volume(), await world.volume()
        node, _ = await world.attached(first)
        await world.remove(NODES, node)
        await world.node(node, managed=False)
        await world.pod(node, second)
        await world.settle(60)
        assert [first.va(node)] == await world.attachments()


@in_virtual_time
async def test_an_attachment_of_our_name_that_names_the_object_of_another_volume_is_told() -> None:
    world = AttachDetachWorld()
    volume, other = await world.volume(), await world.volume()
    node = await world.node(in_use=[other], reported=[other])
    await world.make_va(other, node)
    await world.make_va(volume, node, pv=other.pv)
    await world.pod(node, other)
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.wait_told(
            pod, "FailedAttachVolume", f"is about attacher csi.test, node {node} and PersistentVolume {other.pv}"
        )
        await world.settle(60)
        assert ([], [other.unique]) == (world.writes(), await world.reported(node))
        await world.delete(VOLUME_ATTACHMENTS, volume.va(node))
        await world.attach(volume, node)


@in_virtual_time
async def test_an_attachment_of_our_name_that_is_about_something_else_is_told() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node, attacher="other.driver")
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.wait_told(pod, "FailedAttachVolume", "is about attacher other.driver")
        await world.settle(60)
        assert ([], []) == (world.writes(), await world.reported(node))
