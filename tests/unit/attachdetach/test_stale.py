"""Caches that are behind, lost answers, names that other objects have taken: nothing is done twice, and nothing to the
wrong object.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.api.core import NODES, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import ServerFaults
from mooring.cluster.attachdetach.assemble import volume_of
from mooring.cluster.attachdetach.identity import identity_of
from mooring.cluster.attachdetach.memory import Memory
from mooring.cluster.attachdetach.orphans import Orphans
from mooring.cluster.attachdetach.silence import Moment
from mooring.cluster.attachdetach.view import (
    ATTACHMENT_INDEXES,
    CLAIM_INDEXES,
    ORPHAN,
    POD_INDEXES,
    VOLUME_INDEXES,
    View,
)
from mooring.kube.cache.store import Store
from mooring.kube.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, ServerError, Unreachable
from tests.support.attachdetaching import DELETE, PATCH_NODE, POST, AttachDetachWorld, attaching
from tests.support.builders import RWX, a_pv, a_va, typed
from tests.support.cluster_world import HeldWatch, LateWatch
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time


@each_row("lost", [Unreachable("lost"), ServerError("etcdserver: request timed out")])
@in_virtual_time
async def test_a_volume_whose_post_was_not_answered_is_not_made_elsewhere(lost: ApiError) -> None:
    """The pod moves before the watch shows the attachment."""
    async with attaching(LateWatch("volumeattachments", seconds=5.0)) as world:
        volume, one, two = await world.volume(), await world.node(), await world.node()
        world.cluster.refuse(POST, error=lost, after=True)
        pod = await world.pod(one, volume)
        await world.wait_va(volume, one)
        await world.delete_pod(pod)
        await world.pod(two, volume)
        for _ in range(100):
            assert len(await world.attachments()) <= 1
            await world.settle(0.02)
        await world.attach(volume, two)
        assert await world.va(volume, one) is None


@in_virtual_time
async def test_an_attachment_is_deleted_once_however_late_its_end_is_seen() -> None:
    async with attaching(LateWatch("volumeattachments", seconds=3.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(10)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        await world.set_ready(node, False)  # wakes the volume
        again = await world.pod(node, volume)
        await world.settle(1)
        assert (1, 1) == (len(world.of(DELETE)), len(world.of(POST)))
        assert [] == await world.reported(node), "it is known to end, though the cache still shows it attached"
        await world.attach(volume, node)
        assert await world.wait_told(again, "SuccessfulAttachVolume")


@in_virtual_time
async def test_another_attachment_that_has_taken_the_name_is_not_deleted_for_the_first() -> None:
    async with attaching(LateWatch("volumeattachments", seconds=3.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(10)
        await world.delete(VOLUME_ATTACHMENTS, volume.va(node))
        await world.make_va(volume, node)
        await world.delete_pod(pod)
        await world.settle(10)
        assert 2 == len(world.of(DELETE)), "the first was meant, and is gone; nor does a pod want the second"
        assert [] == await world.told(volume.claim), "that is no failed detach"
        assert await world.va(volume, node) is None


@in_virtual_time
async def test_an_attachment_that_its_delete_did_not_find_is_not_reported_while_the_cache_still_shows_it() -> None:
    async with attaching(LateWatch("volumeattachments", seconds=5.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(20)
        await world.delete(VOLUME_ATTACHMENTS, volume.va(node))
        await world.delete_pod(pod)
        await world.settle()
        assert 1 == len(world.of(DELETE))
        await world.pod(node, volume)
        while await world.va(volume, node) is None:
            assert [] == await world.reported(node)
            await world.settle(0.05)
        assert 1 == len(world.of(DELETE))
        await world.attach(volume, node)


@in_virtual_time
async def test_a_report_is_written_to_the_very_node_that_it_is_about() -> None:
    async with attaching(LateWatch("nodes", seconds=3.0)) as world:
        volume, node = await world.volume(), await world.node()
        await world.settle(10)
        await world.pod(node, volume)
        await world.wait_va(volume, node)
        await world.remove(NODES, node)
        await world.node(node)
        await world.set_attached(volume, node)
        await world.wait_reported(node, volume)
        first, second = world.of(PATCH_NODE)
        assert (
            first.body["metadata"]["uid"]
            != second.body["metadata"]["uid"]
            == (await world.get(NODES, node))["metadata"]["uid"]
        )


@in_virtual_time
async def test_a_new_kubelet_that_uses_the_volume_is_seen_in_the_answer() -> None:
    """The cache is behind: it shows nothing in use."""
    async with attaching(LateWatch("nodes", seconds=3.0)) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle(10)
        await world.set_in_use(node, volume)
        await world.delete_pod(pod)
        await world.settle(60)
        assert ([], await world.va(volume, node) is not None) == (world.of(DELETE), True)
        await world.set_in_use(node)
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_an_error_of_an_earlier_attempt_is_not_told_as_one_of_this() -> None:
    world = AttachDetachWorld()
    volume, node = await world.volume(), await world.node()
    await world.make_va(volume, node, attached=False)
    await world.va_status(volume, node, attachError={"message": "old", "time": "2026-01-01T00:00:01Z"})
    pod = await world.pod(node, volume)
    async with world.controlling():
        await world.settle(60)
        assert [] == await world.told(pod)
        await world.va_status(volume, node, attachError={"message": "new", "time": "2026-01-01T00:00:02Z"})
        await world.wait_told(pod, "FailedAttachVolume", ": new")
        assert 1 == len(await world.told(pod))


def test_an_attachment_whose_volume_came_back_is_no_orphan() -> None:
    """Its former key may still be in the queue."""
    pv = typed(a_pv("pv", "h"))
    found = identity_of(pv)
    assert found is not None
    va = typed(a_va(found.attachment_to("n1"), "pv", "n1"))
    volumes, attachments = Store(VOLUME_INDEXES), Store(ATTACHMENT_INDEXES)
    view = View(Store(POD_INDEXES), Store(CLAIM_INDEXES), volumes, Store(), Store(), attachments, Memory(), Orphans())
    attachments.apply(va)
    key = f"{ORPHAN}{va.metadata.name}"
    assert key == view.key_of(va)
    assert volume_of(view, key, "n1", Moment(0.0, 0.0)).place.matters
    volumes.apply(pv)
    assert found.unique == view.key_of(va)
    assert not volume_of(view, key, "n1", Moment(0.0, 0.0)).place.matters


def test_an_attachment_that_was_made_anew_for_another_node_has_left_the_first() -> None:
    """A watch that was away shows both as one change."""
    before, after = (typed(a_va("by-hand", "gone", f"n{one}", uid=f"u{one}", resourceVersion=one)) for one in "12")
    attachments = Store(ATTACHMENT_INDEXES)
    stores = (Store(POD_INDEXES), Store(CLAIM_INDEXES), Store(VOLUME_INDEXES), Store(), Store(), attachments)
    view = View(*stores, Memory(), Orphans())
    attachments.apply(before)
    view.sort(before)
    assert ("by-hand",) == view.orphans.on("n1")
    attachments.apply(after)
    view.sort(before)
    view.sort(after)
    assert ((), ("by-hand",)) == (view.orphans.on("n1"), view.orphans.on("n2"))


@in_virtual_time
async def test_two_controllers_at_once_make_one_attachment_and_keep_what_is_in_use() -> None:
    """As for a moment after a fail-over."""
    world = AttachDetachWorld()
    async with world.controlling(), world.controlling():
        volume = await world.volume()
        one, pod = await world.attached(volume)
        await world.set_in_use(one, volume)
        await world.delete_pod(pod)
        two = await world.node()
        await world.pod(two, volume)
        await world.settle(60)
        assert [volume.va(one)] == await world.attachments()
        await world.set_in_use(one)
        await world.attach(volume, two)
        assert ([volume.va(two)], []) == (await world.attachments(), await world.reported(one))


@in_virtual_time
async def test_the_back_off_of_a_report_is_not_shortened_by_what_its_volumes_come_to() -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        rule = world.cluster.refuse(PATCH_NODE, times=None, error=Unreachable("not now"))
        await world.set_attached(volume, node)
        for number in range(100):
            await world.set_ready(node, bool(number % 2))
            await world.settle(0.1)
        assert 3 <= rule.hits <= 8
        await world.delete_pod(pod)
        await world.settle(60)
        assert [] == world.of(DELETE), "it may have been told, for all that is known"
        rule.times = rule.hits
        await world.wait_no_va(volume, node)


@in_virtual_time
async def test_a_report_lists_no_attachment_that_is_known_to_end_while_its_volume_is_decided_about() -> None:
    """Another controller lets go of the volume, while this one still waits for the answer to a POST for another
    node.
    """
    watch = HeldWatch("nodes")
    async with attaching(watch) as world:
        shared, other = await world.volume(modes=RWX), await world.volume()
        node, _ = await world.attached(shared, hold=True)
        _, leaving = await world.attached(other, node=node)
        await world.settle(10)
        post = world.cluster.hold(POST)
        await world.pod(await world.node(), shared)
        await post.begun.wait()
        watch.hold()
        await world.node_status(node, volumesAttached=[{"name": other.unique, "devicePath": ""}])
        await world.delete(VOLUME_ATTACHMENTS, shared.va(node))
        await world.settle(1)
        await world.delete_pod(leaving)
        await world.wait_no_va(other, node)
        assert [] == await world.reported(node)
        post.go.set()


class HeldPatch(ServerFaults):
    """The first PATCH of a Node waits until it is refused."""

    def __init__(self) -> None:
        self.begun, self.refused = asyncio.Event(), asyncio.Event()

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "patch" and kind.plural == "nodes" and not self.begun.is_set():
            self.begun.set()
            await self.refused.wait()
            raise Forbidden("no")


@in_virtual_time
async def test_a_pod_that_goes_while_its_volume_is_being_reported_leaves_nothing_behind() -> None:
    """The report may come to pass until its answer is here; and once it is refused, nothing is left to be written."""
    faults = HeldPatch()
    async with attaching(faults) as world:
        volume, node = await world.volume(), await world.node()
        pod = await world.pod(node, volume)
        await world.wait_va(volume, node)
        await world.set_attached(volume, node)
        await faults.begun.wait()
        await world.delete_pod(pod)
        await world.settle(30)
        assert [] == world.of(DELETE)
        faults.refused.set()
        await world.wait_no_va(volume, node)
        assert 1 == len(world.of(PATCH_NODE))


@each_row("error", [Forbidden("not now"), ServerError("not now")])
@in_virtual_time
async def test_a_pod_hears_why_its_attachment_can_not_be_made(error: ApiError) -> None:
    async with attaching() as world:
        volume, node = await world.volume(), await world.node()
        rule = world.cluster.refuse(POST, times=2, error=error)
        pod = await world.pod(node, volume)
        await world.attach(volume, node)
        await world.settle()
        told = {(reason, text, count) for _, reason, text, count in await world.events(pod)}
        assert (
            "FailedAttachVolume",
            f'AttachVolume.Attach failed for volume "{volume.pv}" : not now',
            rule.hits,
        ) in told


@each_row("error", [Forbidden("not now"), ServerError("not now")])
@in_virtual_time
async def test_a_claim_hears_why_its_attachment_can_not_be_deleted(error: ApiError) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        world.cluster.refuse(DELETE, error=error)
        await world.delete_pod(pod)
        await world.wait_no_va(volume, node)
        text = f'DetachVolume.Detach failed for volume "{volume.pv}" on node "{node}" : not now'
        assert text == await world.wait_told(volume.claim, "FailedDetachVolume")


@each_row("error", [NotFound("no"), Conflict("no"), Invalid("no"), Forbidden("no")])
@in_virtual_time
async def test_a_report_that_is_refused_backs_off_while_its_node_is_there(error: ApiError) -> None:
    async with attaching() as world:
        volume = await world.volume()
        node, pod = await world.attached(volume)
        await world.settle()
        rule = world.cluster.refuse(PATCH_NODE, times=None, error=error)
        await world.delete_pod(pod)
        await world.settle(10)
        assert 5 <= rule.hits <= 8
        assert await world.va(volume, node)
        rule.times = rule.hits
        await world.wait_no_va(volume, node)


class SlowDelete(ServerFaults):
    """DELETEs take a while. most: of how many were on their way at once."""

    def __init__(self) -> None:
        self.count = self.most = 0

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if (verb, kind) == ("delete", VOLUME_ATTACHMENTS):
            self.count += 1
            self.most = max(self.most, self.count)
            await asyncio.sleep(3)
            self.count -= 1


@in_virtual_time
async def test_an_attachment_that_loses_its_volume_while_it_is_deleted_is_not_deleted_twice_at_once() -> None:
    """Its key is another one from then on: that of an attachment without a volume."""
    faults = SlowDelete()
    async with attaching(faults) as world:
        volume = await world.volume()
        node, pod = await world.attached(volume, hold=True)
        await world.set_in_use(node, volume)
        await world.users.delete(PERSISTENT_VOLUMES, volume.pv)
        await world.patch(PERSISTENT_VOLUMES, volume.pv, {"metadata": {"finalizers": None}})
        await world.delete_pod(pod)
        await world.set_in_use(node)
        await world.wait_deleting(volume, node)
    assert 1 == faults.most
