"""Hands that reach in, names that come back at once, clocks that jump: the rules hold, the rest goes on, an event says
what is wrong.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from tests.support.attachdetaching import AttachDetachWorld, Vol, attaching
from tests.support.builders import a_claim, a_pv, an_ephemeral_volume
from tests.support.cluster_world import EPOCH_S
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time

FAILED = "FailedAttachVolume"


async def tear_away(world: AttachDetachWorld, kind: Kind[Any], name: str) -> None:
    """The object goes at once, whatever finalizers it has."""
    await world.patch(kind, name, {"metadata": {"finalizers": None}})
    await world.remove(kind, name)


async def import_again(world: AttachDetachWorld, volume: Vol) -> Vol:
    """Another PersistentVolume of the same handle, for another claim; the first one and its claim are torn away."""
    for kind, name in ((PERSISTENT_VOLUMES, volume.pv), (PERSISTENT_VOLUME_CLAIMS, volume.claim)):
        await tear_away(world, kind, name)
    return await world.volume(volume.handle)


@each_row("restarts", [False, True], ids=["running", "restarted"])
@in_virtual_time
async def test_a_volume_that_has_got_another_persistent_volume_is_still_where_it_was(restarts: bool) -> None:
    """The attachment names a PersistentVolume that is gone; its own name says which volume it is about."""
    world = AttachDetachWorld()
    volume, one, two = await world.volume(), await world.node(), await world.node()
    async with world.controlling():
        if not restarts:
            await world.attached(volume, node=one, hold=True)
        else:
            await world.make_va(volume, one, hold=True)
            await world.pod(one, volume, name="p1")
            await world.settle()
    for pod in await world.list(PODS):
        await world.delete_pod(pod["metadata"]["name"])
    again = await import_again(world, volume)
    pod = await world.pod(two, again)
    async with world.controlling():
        await world.wait_deleting(volume, one)
        await world.settle(60)
        assert await world.va(again, two) is None
        await world.wait_told(pod, FAILED, "it is being detached from node")
        await world.release(volume, one)
        await world.attach(again, two)


@in_virtual_time
async def test_a_node_that_was_deleted_during_a_restart_counts_as_having_mounted_what_it_had() -> None:
    """Nobody knows what it had in use: the time until a forced detach runs, as for one that had the volume mounted."""
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node)
    await world.remove(NODES, node)
    async with world.controlling():
        await world.settle(355)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)
        assert 1 == world.forced("timeout")


@each_row("in_use", [False, True])
@in_virtual_time
async def test_an_orphan_on_a_node_that_was_deleted_waits_for_the_time_as_well(in_use: bool) -> None:
    world = AttachDetachWorld()
    volume = await world.volume()
    node = await world.node(in_use=[volume] if in_use else [])
    await world.make_va(volume, node)
    for kind, name in ((PERSISTENT_VOLUMES, volume.pv), (PERSISTENT_VOLUME_CLAIMS, volume.claim)):
        await tear_away(world, kind, name)
    await world.remove(NODES, node)
    async with world.controlling():
        await world.settle(355)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_persistent_volume_that_came_back_with_another_handle_does_not_take_the_attachment_of_the_first() -> (
    None
):
    """The attachment of the first handle stays as somebody else's; the pod that waits hears of it, and everything else
    goes on.
    """
    async with attaching() as world:
        volume, one, two = await world.volume(), await world.node(), await world.node()
        _, pod = await world.attached(volume, node=one, hold=True)
        await world.delete_pod(pod)
        await world.wait_deleting(volume, one)
        await tear_away(world, PERSISTENT_VOLUMES, volume.pv)
        claim = await world.get(PERSISTENT_VOLUME_CLAIMS, volume.claim)
        await world.create(a_pv(volume.pv, "another-handle", claim=claim))
        waiting = await world.pod(two, volume)
        await world.wait_told(waiting, FAILED, f"VolumeAttachment {volume.va(one)}")
        other = await world.volume()
        await world.attached(other, node=two)
        await world.release(volume, one)
        await world.wait_va(dataclasses.replace(volume, handle="another-handle"), two)


@each_row("same_node", [True, False])
@in_virtual_time
async def test_a_pod_that_is_made_anew_at_once_under_its_name(same_node: bool) -> None:
    async with attaching() as world:
        volume, one, two = await world.volume(), await world.node(), await world.node()
        await world.attached(volume, node=one, name="web-0")
        await world.set_in_use(one, volume)
        await world.delete_pod("web-0")
        await world.pod(one if same_node else two, volume, name="web-0")
        await world.settle(60)
        assert await world.va(volume, one)
        assert await world.va(volume, two) is None
        assert [volume.unique] == await world.reported(one)
        if not same_node:
            await world.wait_told("web-0", FAILED, "Multi-Attach error")
            await world.set_in_use(one)
            await world.attach(volume, two)


@in_virtual_time
async def test_a_claim_that_is_made_anew_at_once_under_its_name_takes_nothing_from_the_node_that_uses_the_first() -> (
    None
):
    """The first claim's finalizer was removed by hand while its pod ran."""
    async with attaching() as world:
        volume = await world.volume()
        node, _ = await world.attached(volume)
        await world.set_in_use(node, volume)
        await tear_away(world, PERSISTENT_VOLUME_CLAIMS, volume.claim)
        await world.create(a_claim(volume.claim, sc="", volume=volume.pv))
        await world.settle(3600)
        assert ([volume.unique], 1) == (await world.reported(node), len(await world.attachments()))


@in_virtual_time
async def test_a_node_that_is_made_anew_at_once_under_its_name() -> None:
    """Its status is written anew; what its kubelet uses is not taken from it."""
    async with attaching() as world:
        volume, two = await world.volume(), await world.node()
        node, pod = await world.attached(volume)
        await world.remove(NODES, node)
        await world.node(node, in_use=[volume])
        await world.wait_reported(node, volume)
        await world.delete_pod(pod)
        await world.pod(two, volume)
        await world.settle(3600)
        assert [volume.va(node)] == await world.attachments()
        await world.set_in_use(node)
        await world.attach(volume, two)


@each_row("wanted", [True, False])
@in_virtual_time
async def test_an_attachment_whose_finalizer_was_removed_by_hand(wanted: bool) -> None:
    """It goes before the driver has detached. The node is told at once; who wants the volume gets an attachment
    anew.
    """
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume, hold=True)
        if not wanted:
            await world.set_in_use(node, volume)
            await world.delete_pod(pod)
        await tear_away(world, VOLUME_ATTACHMENTS, volume.va(node))
        await world.wait_reported(node)
        if wanted:
            await world.attach(volume, node)
        else:
            await world.settle(600)
            assert [] == await world.attachments()


@in_virtual_time
async def test_two_persistent_volumes_of_one_handle_on_two_nodes_are_one_volume() -> None:
    async with attaching() as world:
        first, one, two = await world.volume("shared-handle"), await world.node(), await world.node()
        second = await world.volume("shared-handle")
        _, pod = await world.attached(first, node=one)
        waiting = await world.pod(two, second)
        text = await world.wait_told(waiting, FAILED)
        assert f'Multi-Attach error for volume "{second.pv}" Volume is already used by pod(s) {pod}' == text
        await world.settle(600)
        assert [first.va(one)] == await world.attachments()
        await world.delete_pod(pod)
        await world.attach(second, two)


@in_virtual_time
async def test_an_attachment_of_an_attacher_that_nobody_knows_holds_its_volume_and_nothing_else() -> None:
    async with attaching() as world:
        volume, other, one, two = await world.volume(), await world.volume(), await world.node(), await world.node()
        await world.make_va(volume, one, name="by-hand", attacher="nobody.knows")
        waiting = await world.pod(two, volume, other)
        await world.attach(other, two)
        await world.wait_told(waiting, FAILED, "VolumeAttachment by-hand, which was not made for a pod")
        await world.settle(600)
        assert sorted(["by-hand", other.va(two)]) == sorted(await world.attachments())
        assert [other.unique] == await world.reported(two)


@each_row("jump_s", [-86_400.0, 86_400.0])
@in_virtual_time
async def test_the_time_until_a_detach_is_forced_does_not_follow_a_clock_that_jumps(jump_s: float) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.set_in_use(node, volume)
        await world.set_ready(node, False)
        await world.delete_pod(pod)
        await world.settle(100)
        world.clock._epoch_s = EPOCH_S + jump_s
        await world.settle(255)
        assert await world.va(volume, node)
        await world.wait_no_va(volume, node)


async def _without_claim(world: AttachDetachWorld, volume: Vol) -> None:
    await tear_away(world, PERSISTENT_VOLUME_CLAIMS, volume.claim)


async def _without_volume(world: AttachDetachWorld, volume: Vol) -> None:
    await tear_away(world, PERSISTENT_VOLUMES, volume.pv)


async def _with_another_claim(world: AttachDetachWorld, volume: Vol) -> None:
    await tear_away(world, PERSISTENT_VOLUME_CLAIMS, volume.claim)
    await world.create(a_claim(volume.claim, sc="", volume=volume.pv))
    await world.patch(PERSISTENT_VOLUME_CLAIMS, volume.claim, {"status": {"phase": "Bound"}}, subresource="status")


async def _unbound(world: AttachDetachWorld, volume: Vol) -> None:
    await world.patch(PERSISTENT_VOLUME_CLAIMS, volume.claim, {"status": {"phase": "Lost"}}, subresource="status")


@each_row(
    ("breaks", "text"),
    [
        (_without_claim, 'PersistentVolumeClaim "{0.claim}" does not exist'),
        (_without_volume, 'PersistentVolume "{0.pv}" of PersistentVolumeClaim "{0.claim}" does not exist'),
        (_with_another_claim, 'PersistentVolume "{0.pv}" of PersistentVolumeClaim "{0.claim}" is not reserved for it'),
        (_unbound, 'PersistentVolumeClaim "{0.claim}" is not bound'),
    ],
)
@in_virtual_time
async def test_a_pod_whose_claim_leads_nowhere_hears_why_once_and_gets_its_other_volumes(
    breaks: Any, text: str
) -> None:
    async with attaching() as world:
        lost, well, node = await world.volume(), await world.volume(), await world.node()
        await breaks(world, lost)
        pod = await world.pod(node, lost, well)
        await world.attach(well, node)
        await world.settle(600)
        told = [message for _, reason, message in await world.told(pod) if reason == FAILED]
        assert [f'AttachVolume.Attach failed for volume "{lost.claim}" : {text.format(lost)}'] == told
        assert [well.unique] == await world.reported(node)


@in_virtual_time
async def test_a_pod_whose_ephemeral_claim_is_somebody_elses_hears_it() -> None:
    async with attaching() as world:
        node = await world.node()
        await world.volume(claim="web-scratch")
        await world.pod(node, name="web", volumes=[an_ephemeral_volume("scratch")])
        await world.wait_told(
            "web", FAILED, "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
        )
        assert [] == await world.attachments()


@in_virtual_time
async def test_what_is_missing_for_a_moment_is_not_told() -> None:
    async with attaching() as world:
        node = await world.node()
        volume = await world.volume(bound=False)
        pod = await world.pod(node, volume)
        await world.settle(9)
        await world.bind(volume)
        await world.attach(volume, node)
        await world.settle(600)
        assert ["SuccessfulAttachVolume"] == [reason for _, reason, _ in await world.told(pod)]
