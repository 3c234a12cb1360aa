"""What pods want: claims and volumes that can't be used, drivers that want to be asked again, nodes that are full."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any

import pytest

from mooring.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.api.storage import CSI_DRIVERS, VOLUME_ATTACHMENTS
from mooring.node.volumes.steps.attachment import WAIT_S
from tests.support.builders import a_claim, a_csi_driver
from tests.support.groups import a_group, is_given
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld, world

FULL = {"attached": False, "attachError": {"message": "no slot left", "time": "2026-01-01T00:00:00Z", "errorCode": 8}}


async def nothing(world: VolumesWorld) -> None:
    pass


async def pending(world: VolumesWorld) -> None:
    await world.create(a_claim("vol", sc=None))


async def without_volume(world: VolumesWorld) -> None:
    await world.create(a_claim("vol", sc=None, status={"phase": "Bound"}))


async def being_deleted(world: VolumesWorld) -> None:
    """Without the finalizer that keeps a claim as long as pods use it."""
    await world.volume()
    await world.patch(PERSISTENT_VOLUME_CLAIMS, "vol", {"metadata": {"finalizers": ["example.com/other"]}})
    await world.delete(PERSISTENT_VOLUME_CLAIMS, "vol")


async def without_pv(world: VolumesWorld) -> None:
    await world.create(a_claim("vol", sc=None, volume="gone", status={"phase": "Bound"}))


async def of_another_claim(world: VolumesWorld) -> None:
    await world.volume()
    made = await world.get(PERSISTENT_VOLUME_CLAIMS, "vol")
    await world.remove_now(PERSISTENT_VOLUME_CLAIMS, "vol")
    await world.create(a_claim("vol", sc=None, volume="vol", status={"phase": "Bound"}))
    assert made["metadata"]["uid"] != (await world.get(PERSISTENT_VOLUME_CLAIMS, "vol"))["metadata"]["uid"]


@in_virtual_time
async def test_VM5_the_lists_name_what_is_not_mounted_not_attached_and_not_known(world: VolumesWorld) -> None:
    async with world.agent():
        here, away = await world.volume("here"), await world.volume("away", attached=False)
        pod = await world.pod(Bound("vol", "handle-vol", "d1"), here, away)
        lists = "unmounted volumes=[away vol], unattached volumes=[away], failed to process volumes=[vol]"
        await world.until_told(pod, f"Unable to attach or mount volumes: {lists}: ")
        await world.attach(away)
        lists = "unmounted volumes=[vol], unattached volumes=[], failed to process volumes=[vol]"
        await world.until_told(pod, f"Unable to attach or mount volumes: {lists}: ")


@each_row(
    ("given", "text"),
    [
        (nothing, "failed to fetch PVC from API server"),
        (pending, "PVC is not bound"),
        (without_volume, "no volume name"),
        (being_deleted, "PVC is being deleted"),
        (without_pv, "failed to fetch PV gone from API server"),
        (of_another_claim, "does not point to"),
    ],
    fresh=[world],
)
@in_virtual_time
async def test_VM5_a_claim_that_is_not_good_is_told_and_nothing_is_called(
    world: VolumesWorld, given: Any, text: str
) -> None:
    await given(world)
    async with world.agent():
        other = await world.volume("other")
        pod = await world.pod(Bound("vol", "handle-vol", "d1"), other)
        message = await world.until_told(pod, text)
        assert "error processing PVC default/vol" in message
        lists = r"unmounted volumes=\[(other )?vol\], unattached volumes=\[(other)?\], failed to process"
        assert re.match(rf"Unable to attach or mount volumes: {lists} volumes=\[vol\]: error processing PVC ", message)
        await world.settle(30.0)
        handles = {call.request.volume_id for call in world.driver.calls if call.method in (STAGE, PUBLISH)}
        assert {other.handle} == handles, "the pod's other volume does not wait for it"
        assert "Pending" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]


@in_virtual_time
async def test_a_pod_that_has_its_volumes_hears_nothing_of_a_claim_that_is_gone(world: VolumesWorld) -> None:
    """Its users were told that its volumes can't be mounted, and it stayed unready when somebody had said so."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.remove_now(PERSISTENT_VOLUME_CLAIMS, "vol")
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        await world.patch(PODS, pod["metadata"]["name"], {"status": unready}, subresource="status")
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["conditions"][0]["status"] == "True")
        await world.settle(300.0)
        assert [] == await world.events(pod["metadata"]["name"])
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_VM5_a_claim_that_is_bound_later_is_mounted_then(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(Bound("vol", "handle-vol", "d1"))
        await world.until_told(pod, "failed to fetch PVC")
        await world.volume()
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")


@in_virtual_time
async def test_VM5_a_volume_that_is_not_csi_s_is_told(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        await world.remove_now(PERSISTENT_VOLUMES, "vol")
        claim = await world.get(PERSISTENT_VOLUME_CLAIMS, "vol")
        reference = {"namespace": "default", "name": "vol", "uid": claim["metadata"]["uid"]}
        spec = {
            "hostPath": {"path": "/tmp"},
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": reference,
        }
        await world.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "vol"}, "spec": spec})
        pod = await world.pod(volume)
        await world.until_told(pod, "no CSI volume")


@each_row("owner", [True, False], fresh=[world])
@in_virtual_time
async def test_VM5_a_generic_ephemeral_claim_must_be_the_pod_s_own(world: VolumesWorld, owner: bool) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    async with world.agent():
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        pod = await world.pod(name="pod", volumes=volumes)
        references = [
            {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": pod["metadata"]["uid"], "controller": True}
        ]
        await world.volume("pod-scratch", claim={"ownerReferences": references} if owner else None)
        if owner:
            await world.shown(PODS, "pod", lambda pod: pod["status"]["phase"] == "Running")
        else:
            await world.until_told(pod, "the pod is not its owner")
            assert [] == world.driver.calls_for_volumes()


@each_row(
    ("mode", "devices", "text"),
    [
        ("Block", False, "volume vol has volumeMode Block, but is specified in volumeMounts"),
        ("Filesystem", True, "volume vol has volumeMode Filesystem, but is specified in volumeDevices"),
    ],
    fresh=[world],
)
@in_virtual_time
async def test_BLK4_a_volume_of_the_wrong_mode_is_told(
    world: VolumesWorld, mode: str, devices: bool, text: str
) -> None:
    async with world.agent():
        pod = await world.pod(await world.volume(mode=mode), devices=devices)
        await world.until_told(pod, text)
        await world.settle(10.0)
        assert [] == world.driver.calls_for_volumes()


@in_virtual_time
async def test_VM6_a_driver_that_wants_it_is_asked_again_when_the_pod_changes_and_now_and_then(
    world: VolumesWorld,
) -> None:
    await world.no_attach(requiresRepublish=True)
    async with world.agent():
        pod = await world.running_pod(await world.volume(attached=False))
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes(), "not by its own note that the pod runs"
        await world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        await world.settle(300.0)
        calls = world.driver.calls_for_volumes()
        assert 1 == calls.count(STAGE)
        assert 2 + 3 <= calls.count(PUBLISH) <= 2 + 5
        targets = {call.request.target_path for call in world.driver.made(PUBLISH)}
        assert {str(world.target(pod, "vol"))} == targets


@in_virtual_time
async def test_VM6_other_drivers_are_not_asked_again(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        await world.patch(PODS, pod["metadata"]["name"], {"metadata": {"labels": {"a": "b"}}})
        await world.settle(300.0)
        assert [STAGE, PUBLISH] == world.driver.calls_for_volumes()


@each_row("is_anew", [False, True], fresh=[world])
@in_virtual_time
async def test_VM6_a_driver_that_comes_to_want_it_is_asked_again_for_pods_that_run(
    world: VolumesWorld, is_anew: bool
) -> None:
    """Also one whose CSIDriver was away for a while, as in an upgrade."""
    await world.no_attach(requiresRepublish=is_anew)
    async with world.agent():
        await world.running_pod(await world.volume(attached=False))
        if is_anew:
            await world.remove_now(CSI_DRIVERS, "d1")
            await world.settle(100.0)
            await world.no_attach(requiresRepublish=True)
        else:
            await world.patch(CSI_DRIVERS, "d1", {"spec": {"requiresRepublish": True}})
        await world.settle(300.0)
        assert len(world.driver.made(PUBLISH)) >= 1 + 3


@in_virtual_time
async def test_a_volume_that_comes_to_be_attached_is_reported_in_use(world: VolumesWorld) -> None:
    """Its CSIDriver was made anew while the pod waited for the driver; nothing else happens on the node."""
    await world.no_attach()
    async with world.agent(is_registered=False):
        volume = await world.volume(attached=False)
        pod = await world.pod(volume)
        await world.settle(5.0)
        await world.remove_now(CSI_DRIVERS, "d1")
        await world.create(a_csi_driver("d1", attachRequired=True))
        await world.attach(volume)
        await world.register()
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
        assert [volume.unique] == await world.in_use()


@each_row("period", [10, None], fresh=[world])
@in_virtual_time
async def test_ALC3_pods_are_rejected_by_a_node_that_is_full(world: VolumesWorld, period: int | None) -> None:
    """Only where the driver's CSIDriver has a period; without one the pod waits, and is told why."""
    await world.create(a_csi_driver("d1", nodeAllocatableUpdatePeriodSeconds=period))
    async with world.agent():
        volume = await world.volume(attached=False)
        pod = await world.pod(volume)
        await world.attach(volume, FULL)
        await world.patch(NODES, "n", {"status": {"volumesAttached": None}}, subresource="status")
        await world.settle(WAIT_S - 20.0)
        assert [] == world.full
        await world.until_told(pod, "no slot left")
        await world.settle(5.0)
        status = (await world.get(PODS, pod["metadata"]["name"]))["status"]
        if period is None:
            assert ("Pending", []) == (status["phase"], world.full)
            return
        assert (["d1"], "Failed", "VolumeAttachmentLimitExceeded") == (world.full, status["phase"], status["reason"])
        assert status["message"].startswith(
            "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[vol]"
        )


@each_row("is_restarted", [False, True], fresh=[world])
@in_virtual_time
async def test_ALC3_a_pod_that_runs_with_the_volume_is_never_rejected(world: VolumesWorld, is_restarted: bool) -> None:
    """The Node does not list the volume any more, after a detach that stopped half way; another pod waits for it."""
    await world.create(a_csi_driver("d1", nodeAllocatableUpdatePeriodSeconds=10))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.agent())
        volume = await world.volume(modes=("ReadWriteMany",))
        runs = await world.running_pod(volume)
        if is_restarted:
            await stack.aclose()
        await world.patch(NODES, "n", {"status": {"volumesAttached": None}}, subresource="status")
        await world.patch(VOLUME_ATTACHMENTS, volume.attachment, {"status": FULL}, subresource="status")
        if is_restarted:
            await stack.enter_async_context(world.agent())
        waits = await world.pod(volume)
        await world.shown(PODS, waits["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Failed")
        await world.settle(2 * WAIT_S)
        assert "Running" == (await world.get(PODS, runs["metadata"]["name"]))["status"]["phase"]
        assert [] == world.driver.made(UNPUBLISH)


@in_virtual_time
async def test_MNT22_the_group_is_set_after_the_publish(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume(fsType="ext4"), securityContext={"fsGroup": a_group()})
        target = world.target(pod, "vol")
        assert {a_group()} == {path.stat().st_gid for path in (target, target / "content")}
        assert 0o2770 == target.stat().st_mode & 0o2770


@each_row(
    ("policy", "fs_type", "modes", "applies"),
    [
        ("None", "ext4", ("ReadWriteOnce",), False),
        ("File", "", ("ReadWriteMany",), True),
        ("ReadWriteOnceWithFSType", "", ("ReadWriteOnce",), False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteOncePod",), True),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteMany",), False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadOnlyMany",), False),
        ("ReadWriteOnceWithFSType", "ext4", ("ReadWriteMany", "ReadWriteOnce"), True),
    ],
    fresh=[world],
)
@in_virtual_time
async def test_MNT22_the_driver_s_policy_decides(
    world: VolumesWorld, policy: str, fs_type: str, modes: tuple[str, ...], applies: bool
) -> None:
    await world.no_attach(fsGroupPolicy=policy)
    async with world.agent():
        pod = await world.running_pod(
            await world.volume(attached=False, modes=modes, **({"fsType": fs_type} if fs_type else {})),
            securityContext={"fsGroup": a_group()},
        )
        assert applies == is_given(world.target(pod, "vol"))


@in_virtual_time
async def test_a_pod_that_is_deleted_while_its_attachment_is_read_harms_nobody(
    world: VolumesWorld, caplog: pytest.LogCaptureFixture
) -> None:
    gate, read = asyncio.Event(), world.cluster.get

    async def late(kind: object, name: str, namespace: str = "") -> object:
        if kind is VOLUME_ATTACHMENTS:
            await gate.wait()
        return await read(kind, name, namespace)  # type: ignore[arg-type]

    world.cluster.get = late  # type: ignore[method-assign, assignment]
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.settle(5.0)
        await world.delete_pod(pod)
        await world.settle(5.0)
        gate.set()
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], []) == (world.left(), await world.in_use())
    assert "Traceback" not in caplog.text
