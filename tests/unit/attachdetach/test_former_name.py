"""An attachment under the name of the volume that its PersistentVolume named before: a cache may have shown that one
long after.
"""

from __future__ import annotations

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name
from mooring.cluster.attachdetach.silence import UNSAID_S
from mooring.kube.errors import Unreachable
from tests.support.attachdetaching import DELETE, DRIVER, POST, AttachDetachWorld, Vol, attaching
from tests.support.builders import Json
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

FORMER = "former-handle"


def former_of(volume: Vol) -> Vol:
    return Vol(volume.pv, volume.claim, DRIVER, FORMER, volume.namespace)


async def make_former(world: AttachDetachWorld, volume: Vol, node: str, *, hold: bool = False) -> str:
    return await world.make_va(volume, node, name=former_of(volume).va(node), hold=hold)


@in_virtual_time
async def test_what_nobody_wants_is_deleted() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await make_former(world, volume, node)
    async with world.controlling():
        await world.wait_no_va(former_of(volume), node)
        assert [DELETE] == world.writes()


@in_virtual_time
async def test_it_goes_before_one_of_the_right_name_is_made() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await make_former(world, volume, node, hold=True)
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.wait_deleting(former_of(volume), node)
        await world.settle(60)
        assert [DELETE] == world.writes(), "a detach for it would end the attach of the other"
        assert [] == await world.reported(node), "a kubelet looks for one of the right name"
        await world.wait_told(pod, "FailedAttachVolume", "volume attachment is being deleted")
        await world.release(former_of(volume), node)
        await world.attach(volume, node)
        assert (1, 1) == (len(world.of(POST)), len(world.of(DELETE)))


@in_virtual_time
async def test_a_pod_that_comes_while_it_ends_waits() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await make_former(world, volume, node, hold=True)
    async with world.controlling():
        await world.wait_deleting(former_of(volume), node)
        await world.pod(node, volume)
        await world.settle(60)
        assert [] == world.of(POST)
        await world.release(former_of(volume), node)
        await world.attach(volume, node)


@in_virtual_time
async def test_a_delete_whose_answer_is_lost_is_sent_again() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await make_former(world, volume, node)
    world.cluster.refuse(DELETE, error=Unreachable("lost"))
    async with world.controlling():
        await world.wait_no_va(former_of(volume), node)
        assert [] == world.of(POST)


@in_virtual_time
async def test_it_stays_while_the_node_has_the_former_volume_in_use() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[former_of(volume)])
    await make_former(world, volume, node)
    async with world.controlling():
        await world.settle(600)
        assert [] == world.writes()
        await world.set_in_use(node)
        await world.wait_no_va(former_of(volume), node)


@each_row("in_use", [False, True])
@in_virtual_time
async def test_a_report_that_lists_the_former_volume_is_mended_and_the_attachment_goes(in_use: bool) -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(reported=[former_of(volume)], in_use=[former_of(volume)] if in_use else [])
    await make_former(world, volume, node)
    async with world.controlling():
        await world.settle(60)
        if in_use:
            assert await world.va(former_of(volume), node)
            await world.set_in_use(node)
        await world.wait_no_va(former_of(volume), node)
        assert [] == await world.reported(node)


@in_virtual_time
async def test_a_node_that_came_back_without_the_former_volume_keeps_it_no_longer() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[former_of(volume)])
    await make_former(world, volume, node)
    async with world.controlling():
        await world.settle(10)
        await world.delete(NODES, node)
        await world.settle(10)
        await world.node(node)
        await world.settle(UNSAID_S - 1)
        assert await world.va(former_of(volume), node), "its kubelet has not looked at the mounts yet"
        await world.wait_no_va(former_of(volume), node)


@each_row("why", ["the kubelet attaches, and tells nothing in use", "the claim is not bound"])
@in_virtual_time
async def test_it_stays_under_a_pod_that_may_use_the_volume(why: str) -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node(managed="kubelet" not in why)
    await make_former(world, volume, node)
    pod = await world.pod(node, volume)
    await world.pod_status(pod, "Running", "running")
    if "claim" in why:
        await world.patch(
            PERSISTENT_VOLUME_CLAIMS, volume.claim, {"status": {"phase": "Lost"}}, volume.namespace, "status"
        )
    async with world.controlling():
        await world.settle(600)
        assert [] == world.writes()


@each_row("listed", ["reported", "in_use"])
@in_virtual_time
async def test_none_is_made_while_it_is_being_deleted_though_the_node_lists_it(listed: str) -> None:
    """Somebody else has deleted it: the end of its detach would end the attach of the other."""
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(**{listed: [former_of(volume)]})
    await make_former(world, volume, node, hold=True)
    await world.delete(VOLUME_ATTACHMENTS, former_of(volume).va(node))
    await world.pod(node, volume)
    async with world.controlling():
        await world.settle(60)
        assert [] == world.of(POST)
        await world.release(former_of(volume), node)
        await world.attach(volume, node)


@in_virtual_time
async def test_it_stays_while_the_other_one_is_needed() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume], reported=[volume])
    await make_former(world, volume, node)
    await world.make_va(volume, node)
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.settle(600)
        assert [] == world.writes()
        await world.delete_pod(pod)
        await world.set_in_use(node)
        await world.wait_no_va(former_of(volume), node)
        assert [volume.va(node), former_of(volume).va(node)] == [one.name for one in world.of(DELETE)]


@in_virtual_time
async def test_where_the_volume_may_be_mounted_the_right_one_is_made_first() -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume], reported=[volume])
    await make_former(world, volume, node)
    await world.pod(node, volume)
    async with world.controlling():
        await world.attach(volume, node)
        assert [] == world.of(DELETE)


@in_virtual_time
async def test_it_holds_a_volume_for_a_single_node_until_it_is_gone() -> None:
    async with attaching() as world:
        volume, node, other = await world.volume(), await world.node(), await world.node()
        await make_former(world, volume, node, hold=True)
        await world.pod(other, volume)
        await world.wait_deleting(former_of(volume), node)
        await world.settle(60)
        assert [] == world.of(POST)
        await world.release(former_of(volume), node)
        await world.attach(volume, other)


@in_virtual_time
async def test_one_that_is_in_the_way_of_a_pod_goes_by_itself() -> None:
    world = AttachDetachWorld()
    volume, other, node = await world.volume(), await world.volume(), await world.node()
    await world.make_va(volume, node, pv=other.pv)
    await world.pod(node, volume)
    async with world.controlling():
        await world.shown(
            VOLUME_ATTACHMENTS, volume.va(node), lambda one: _names(one, volume), "about the right volume"
        )
        await world.attach(volume, node)
        assert [DELETE, POST] == [one for one in world.writes() if one in (DELETE, POST)]


def _names(attachment: Json, volume: Vol) -> bool:
    return bool(attachment["spec"]["source"]["persistentVolumeName"] == volume.pv)


@in_virtual_time
async def test_one_of_another_driver_is_left_alone() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node, name=attachment_name("other", FORMER, node), attacher="other")
    async with world.controlling():
        await world.settle(600)
        assert [] == world.writes()
