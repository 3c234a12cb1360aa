"""Lives of attachments, from the wish to the end: the same on in-process ports, over HTTP, and under the real API
server.
"""

from __future__ import annotations

import asyncio

import pytest

from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.e2e.targets import Target, on_every_target
from tests.support.builders import NODE_ID_ANNOTATION
from tests.support.scripted_driver import PUBLISH, RPC, UNPUBLISH, Fail, Lose, Wait

SOON = "--retry-interval-start=100ms"
NEVER = "--retry-interval-start=1h"
Mode = csi.VolumeCapability.AccessMode


@on_every_target
async def test_a_volume_is_attached_once_and_detached_once(target: Target) -> None:
    pv, node = await target.volume(volumeAttributes={"a": "b"}, fsType="xfs"), await target.node()
    target.driver.publish_context = {"device": "/dev/sdb"}
    async with target.attaching():
        va = await target.want(pv, node)
        attached = await target.attached(va)
        assert {"device": "/dev/sdb"} == attached["status"]["attachmentMetadata"]
        assert [target.finalizer] == attached["metadata"]["finalizers"]
        assert target.node_id(node) == attached["metadata"]["annotations"][NODE_ID_ANNOTATION]
        assert target.finalizer in (await target.get("PersistentVolume", pv))["metadata"]["finalizers"]
        assert {target.node_id(node)} == target.where(pv)
        await target.detached(va)
    asked = [(call.method, call.request.volume_id, call.request.node_id) for call in target.driver.calls]
    assert [(method, target.handle(pv), target.node_id(node)) for method in (PUBLISH, UNPUBLISH)] == asked
    request = target.driver.calls[0].request
    assert ({"a": "b"}, "xfs", Mode.MULTI_NODE_MULTI_WRITER, False) == (
        dict(request.volume_context),
        request.volume_capability.mount.fs_type,
        request.volume_capability.access_mode.mode,
        request.readonly,
    )
    assert {} == target.left_over()


@on_every_target
async def test_a_read_only_volume_is_published_so(target: Target) -> None:
    pv, node = await target.volume(readOnly=True, modes=("ReadOnlyMany",)), await target.node()
    async with target.attaching():
        await target.attached(await target.want(pv, node))
    request = target.driver.made(PUBLISH)[0].request
    assert (True, Mode.MULTI_NODE_READER_ONLY) == (request.readonly, request.volume_capability.access_mode.mode)


@on_every_target
async def test_the_secret_travels_both_ways(target: Target) -> None:
    secret = await target.secret({"user": "bWU=", "password": "c8OrY3JldA=="})
    ref = {"name": secret, "namespace": "default"}
    pv, node = await target.volume(controllerPublishSecretRef=ref), await target.node()
    async with target.attaching():
        va = await target.want(pv, node)
        await target.attached(va)
        await target.detached(va)
    assert [{"user": "me", "password": "sëcret"}] * 2 == [dict(call.request.secrets) for call in target.driver.calls]


@on_every_target
async def test_the_volumes_finalizer_lasts_until_it_is_deleted_and_detached(target: Target) -> None:
    pv, node, other = await target.volume(), await target.node(), await target.node("other")
    async with target.attaching():
        first, second = await target.want(pv, node), await target.want(pv, other)
        await target.attached(first)
        await target.attached(second)
        await target.detached(first)
        await target.patch(
            "PersistentVolume", pv, {"metadata": {"finalizers": [target.finalizer]}}
        )  # no admission's, only ours
        await target.delete("PersistentVolume", pv)
        held = await target.get("PersistentVolume", pv)
        assert [target.finalizer] == held["metadata"]["finalizers"]
        assert {target.node_id(other)} == target.where(pv)
        await target.detached(second)
        await target.gone("PersistentVolume", pv)
    assert {} == target.left_over()


@on_every_target
async def test_a_volume_deleted_while_attached_stays_attached_and_is_attached_nowhere_else(target: Target) -> None:
    pv, node, other = await target.volume(), await target.node(), await target.node("other")
    async with target.attaching(SOON):
        va = await target.want(pv, node)
        await target.attached(va)
        await target.delete("PersistentVolume", pv)
        await target.clock.sleep(1)  # the attacher's view of the volumes shows it by then
        refused = await target.want(pv, other)
        error = await target.error(refused)
        assert f'PersistentVolume "{pv}" is marked for deletion' == error["message"]
        assert {target.node_id(node)} == target.where(pv)
        assert 1 == len(target.driver.made(PUBLISH))
        await target.detached(refused)
        await target.detached(va)
    assert {} == target.left_over()


@pytest.mark.parametrize(
    "code", [Code.RESOURCE_EXHAUSTED, Code.INTERNAL, Code.ABORTED], ids=lambda code: code.name.lower()
)
@on_every_target
async def test_a_drivers_error_is_shown_and_then_cleared(target: Target, code: Code) -> None:
    pv, node = await target.volume(), await target.node()
    words = {Code.RESOURCE_EXHAUSTED: "ResourceExhausted", Code.INTERNAL: "Internal", Code.ABORTED: "Aborted"}[code]
    target.driver.always(PUBLISH, Fail(code, "the shelf is füll"))
    target.driver.script(UNPUBLISH, Fail(code, "it sticks"))
    async with target.attaching(SOON):
        va = await target.want(pv, node)
        error = await target.error(va)
        assert (f"rpc error: code = {words} desc = the shelf is füll", int(code)) == (
            error["message"],
            error["errorCode"],
        )
        target.driver.forget_scripts()
        assert "attachError" not in (await target.attached(va))["status"]
        target.driver.always(UNPUBLISH, Fail(code, "it sticks"))
        await target.delete("VolumeAttachment", va)
        error = await target.error(va, "detachError")
        assert (f"rpc error: code = {words} desc = it sticks", False) == (error["message"], "errorCode" in error)
        target.driver.forget_scripts()
        await target.gone("VolumeAttachment", va)
    assert {} == target.left_over()


@on_every_target
async def test_a_lost_answer_is_asked_for_again(target: Target) -> None:
    pv, node = await target.volume(), await target.node()
    target.driver.script(PUBLISH, Lose(), Wait(30.0))  # the second one outlasts its deadline
    target.driver.script(UNPUBLISH, Lose())
    async with target.attaching(SOON, "--timeout=1s"):
        va = await target.want(pv, node)
        await target.attached(va)
        assert {target.node_id(node)} == target.where(pv)
        await target.detached(va)
    assert (3, 2) == (len(target.driver.made(PUBLISH)), len(target.driver.made(UNPUBLISH)))
    assert ([], {}) == (target.driver.overlaps, target.left_over())


@on_every_target
async def test_a_driver_that_restarts_is_carried_on_with(target: Target) -> None:
    """Differs from external-attacher, which exits; the wait is ended by the driver's return, not by the clock."""
    pv, later, node = await target.volume(), await target.volume("later"), await target.node()
    async with target.attaching(NEVER) as attacher:
        va = await target.want(pv, node)
        await target.attached(va)
        await target.stop_driver()
        waiting = await target.want(later, node)
        error = await target.error(waiting)
        assert (14, True) == (error["errorCode"], "code = Unavailable" in error["message"])
        await target.start_driver()
        assert "attachError" not in (await target.attached(waiting))["status"]
        attacher.assert_alive()
        assert {target.node_id(node)} == target.where(pv) == target.where(later)
        await target.detached(va)


@on_every_target
async def test_what_is_missing_wakes_the_attachment_when_it_comes(target: Target) -> None:
    async with target.attaching(NEVER):
        pv, node = target.name("pv"), target.name("node")
        va = await target.want(pv, node)
        assert f'persistentvolume "{pv}" not found' == (await target.error(va))["message"]
        await target.volume()
        message = f'csinode.storage.k8s.io "{node}" not found'
        await target.until_status(va, lambda status: status["attachError"]["message"] == message, "misses the node")
        await target.node()
        assert "attachError" not in (await target.attached(va))["status"]


@pytest.mark.parametrize("how", ["killed", "ended"])
@on_every_target
async def test_an_attacher_that_goes_leaves_nothing_undone(target: Target, how: str) -> None:
    """Killed in the middle of a call, the next one asks again. Told to end, it lets the call end and stores its
    result.
    """
    pv, node = await target.volume(), await target.node()
    gate = target.driver.gate(PUBLISH)
    async with target.attaching() as attacher:
        va = await target.want(pv, node)
        await target.asked(PUBLISH)
        if how == "killed":
            await attacher.kill()
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(attacher.end(), name="ending")
                await target.clock.sleep(0.3)
                gate.set()
    gate.set()
    async with target.attaching():
        await target.attached(va)
        await target.detached(va)
    assert (2 if how == "killed" else 1) == len(target.driver.made(PUBLISH))
    assert {} == target.left_over()


@on_every_target
async def test_many_volumes_are_published_once_each(target: Target) -> None:
    count = 40
    nodes = [await target.node(f"node{number}") for number in range(2)]
    pvs = [await target.volume(f"pv{number}") for number in range(count)]
    async with target.attaching("--worker-threads=20"):
        vas = [await target.want(pv, node) for pv in pvs for node in nodes]
        for va in vas:
            await target.attached(va)
        assert 2 * count == len(target.driver.made(PUBLISH))
        assert [{target.node_id(node) for node in nodes}] * count == [target.where(pv) for pv in pvs]
        for va in vas:
            await target.delete("VolumeAttachment", va)
        for va in vas:
            await target.gone("VolumeAttachment", va)
    assert (2 * count, {}, []) == (target.unpublished(), target.left_over(), target.driver.overlaps)


@on_every_target
async def test_a_single_node_volume_moves_without_being_on_two_nodes(target: Target) -> None:
    pv = await target.volume(modes=("ReadWriteOnce",))
    old, new = await target.node("old"), await target.node("new")
    async with target.attaching(NEVER):
        first = await target.want(pv, old)
        await target.attached(first)
        target.driver.script(UNPUBLISH, Wait(0.3))
        second = await target.want(pv, new)
        message = (await target.error(second))["message"]
        assert message.startswith("volume for a single node ")
        assert message.endswith(f'attached to node "{old}" (VolumeAttachment "{first}")')
        await target.delete("VolumeAttachment", first)
        assert "attachError" not in (await target.attached(second))["status"]
        assert {target.node_id(new)} == target.where(pv)
    assert [PUBLISH, UNPUBLISH, PUBLISH] == [call.method for call in target.driver.calls]
    assert target.driver.calls[1].ended_s <= target.driver.calls[2].started_s


@on_every_target
async def test_an_in_tree_volume_is_attached_under_its_translated_name(target: Target) -> None:
    """Its driver's name is fixed, so no other test that attaches uses this one."""
    target.driver.name = "pd.csi.storage.gke.io"
    zone = {"failure-domain.beta.kubernetes.io/zone": "zone-a"}
    source = {"gcePersistentDisk": {"pdName": "disk", "partition": 1, "fsType": "ext4"}}
    pv = await target.volume(source=source, labels=zone, modes=("ReadWriteOnce",))
    node = await target.node()
    async with target.attaching():
        va = await target.want(pv, node)
        await target.attached(va)
        await target.detached(va)
    published, unpublished = target.driver.calls
    handle = "projects/UNSPECIFIED/zones/zone-a/disks/disk"
    assert [handle, handle] == [published.request.volume_id, unpublished.request.volume_id]
    assert {"partition": "1"} == dict(published.request.volume_context)
    assert "csi" not in (await target.get("PersistentVolume", pv))["spec"]


@on_every_target
async def test_an_inline_volume_needs_no_persistent_volume(target: Target) -> None:
    node, handle = await target.node(), target.name("inline-handle")
    source = {"driver": target.driver.name, "volumeHandle": handle, "volumeAttributes": {"c": "d"}}
    inline = {"accessModes": ["ReadWriteOnce"], "csi": source}
    async with target.attaching():
        va = await target.want(None, node, inline=inline)
        await target.attached(va)
        request = target.driver.made(PUBLISH)[0].request
        assert (handle, {"c": "d"}) == (request.volume_id, dict(request.volume_context))
        assert Mode.SINGLE_NODE_WRITER == request.volume_capability.access_mode.mode
        await target.detached(va)
    assert {} == target.left_over()


@on_every_target
async def test_what_the_backend_lost_is_published_again(target: Target) -> None:
    target.driver.controller = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
    pv, node = await target.volume(), await target.node()
    async with target.attaching("--reconcile-sync=300ms"):
        va = await target.want(pv, node)
        await target.attached(va)
        target.driver.published[target.handle(pv)].clear()
        await target.asked(PUBLISH, 2)
        assert {target.node_id(node)} == target.where(pv)
        assert (await target.get("VolumeAttachment", va))["status"]["attached"]
        rounds = len(target.driver.made("ListVolumes"))
        await target.asked("ListVolumes", rounds + 2)
        assert 2 == len(target.driver.made(PUBLISH))
        await target.detached(va)
    assert {} == target.left_over()
