"""Raw devices: the files, links and locks around a driver's device come with the pod and go with it. Their mode is a
fake; see the real mounts for the rest.
"""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from mooring.api.core import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.pods import PODS
from mooring.mounts import loops, system
from mooring.node.volumes.steps import block
from mooring.wire.grpc.codes import Code
from tests.support.fake_mounts import FakeTools
from tests.support.node_driver import EXPAND, NODE_RPC, PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail, Lose
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import METADATA, NODE, Bound, VolumesWorld, world


@pytest.fixture
def tools(world: VolumesWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    tools = FakeTools(world.mounts, tmp_path / "block")
    monkeypatch.setattr(system, "run", tools.run)
    monkeypatch.setattr(loops, "_BLOCK", tools.block)
    monkeypatch.setattr(loops, "_inode_below", lambda device: None)  # the names tell: there are no such devices
    monkeypatch.setattr(loops, "_keep", lambda device, file: True)
    monkeypatch.setattr(block, "stat", types.SimpleNamespace(S_ISBLK=lambda mode: True))
    return tools


async def running(world: VolumesWorld) -> tuple[Bound, dict[str, object]]:
    volume = await world.volume(mode="Block", modes=("ReadWriteMany",))
    return volume, await world.running_pod(volume, devices=True)


@in_virtual_time
async def test_BLK1_the_life_of_a_raw_device(world: VolumesWorld, tools: FakeTools) -> None:
    async with world.agent():
        volume = await world.volume(mode="Block")
        pod = await world.running_pod(volume, devices=True)
        uid, layout = pod["metadata"]["uid"], world.layout
        stage, publish = world.request(STAGE), world.request(PUBLISH)
        top = layout.csi / "volumeDevices"
        assert (str(top / "staging" / "vol"), str(top / "staging" / "vol"), str(top / "publish" / "vol" / uid)) == (
            stage.staging_target_path,
            publish.staging_target_path,
            publish.target_path,
        )
        assert METADATA == dict(stage.publish_context) == dict(publish.publish_context)
        assert stage.volume_capability.HasField("block")
        assert publish.volume_capability.HasField("block")
        assert {
            "attachmentID": volume.attachment,
            "driverName": "d1",
            "nodeName": NODE,
            "specVolID": "vol",
            "volumeHandle": volume.handle,
        } == world.record(top / "vol" / "data")
        link = layout.pods / uid / "volumeDevices" / "kubernetes.io~csi" / "vol"
        assert top / "publish" / "vol" / uid == link.readlink()
        assert [str(top / "vol" / "dev" / uid)] == world.mounts.points == tools.backing_files
        told = [
            message
            for _, reason, message, _ in await world.events(pod["metadata"]["name"])
            if reason == "SuccessfulMountVolume"
        ]
        assert [
            f'MapVolume.MapPodDevice succeeded for volume "vol" globalMapPath "{top / "vol" / "dev"}"',
            f'MapVolume.MapPodDevice succeeded for volume "vol" volumeMapPath "{link.parent}"',
        ] == sorted(told)
        await world.delete_pod(pod)
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, tools.backing_files)
        assert [] == await world.in_use()


@in_virtual_time
async def test_EXP1_a_raw_device_grows_by_its_path(world: VolumesWorld, tools: FakeTools) -> None:
    """Without mount options, and with what holds its pod told in the kubelet's words for devices."""
    world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME, NODE_RPC.EXPAND_VOLUME)
    world.driver.script(EXPAND, Fail(Code.INTERNAL, "not yet"))
    async with world.agent():
        volume = await world.volume(mode="Block")
        await world.patch(PERSISTENT_VOLUMES, volume.name, {"spec": {"capacity": {"storage": "2Gi"}}})
        step = {"allocatedResources": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
        await world.patch_claim(volume.name, step)
        pod = await world.running_pod(volume, devices=True)
        held = (
            'MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "vol" : rpc error: code = '
            "Internal desc = not yet"
        )
        await world.until_told(pod, held, "FailedMapVolume")
        request, top = world.request(EXPAND), world.layout.csi / "volumeDevices"
        assert (str(top / "publish" / "vol" / pod["metadata"]["uid"]), str(top / "staging" / "vol"), 2 << 30) == (
            request.volume_path,
            request.staging_target_path,
            request.capacity_range.required_bytes,
        )
        assert request.volume_capability.HasField("block")
        await world.shown(
            PERSISTENT_VOLUME_CLAIMS, "vol", lambda claim: claim["status"]["capacity"]["storage"] == "2Gi"
        )


@in_virtual_time
async def test_BLK1_two_pods_share_a_device(world: VolumesWorld, tools: FakeTools) -> None:
    async with world.agent():
        volume, first = await running(world)
        second = await world.running_pod(volume, devices=True)
        assert 2 == len(tools.backing_files)
        await world.delete_pod(first)  # type: ignore[arg-type]
        await world.until_calls(STAGE, PUBLISH, PUBLISH, UNPUBLISH)
        assert [str(world.layout.block_map("vol") / second["metadata"]["uid"])] == world.mounts.points
        await world.delete_pod(second)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, UNPUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), tools.backing_files)


@in_virtual_time
async def test_BLK1_a_restart_finds_the_device_again(world: VolumesWorld, tools: FakeTools) -> None:
    async with world.agent():
        volume, pod = await running(world)
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH)
        await world.settle(5.0)
        assert (1, 1) == (len(tools.backing_files), len(world.mounts.points))
    await world.users.delete(PODS, "pod1", "default", grace_period_s=0)
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(UNPUBLISH, UNSTAGE)
        await world.settle()
        assert ([], [], [], []) == (world.left(), world.mounts.points, tools.backing_files, await world.in_use())
    assert (volume.name, "pod1") == ("vol", pod["metadata"]["name"])  # type: ignore[index]


@in_virtual_time
async def test_what_a_driver_left_in_its_staging_folder_goes_with_that(world: VolumesWorld, tools: FakeTools) -> None:
    """As by a kubelet: else the volume would stay on the node for ever. What a link leads to stays."""
    kept = world.layout.csi / "kept"
    async with world.agent():
        volume = await world.volume(mode="Block")
        pod = await world.running_pod(volume, devices=True)
        kept.write_text("the driver's")
        staging = world.layout.block_staging("vol")
        (staging / "meta").mkdir()
        (staging / "meta" / "image.json").write_text("{}")
        (staging / "link").symlink_to(kept)
        await world.delete_pod(pod)
        await world.settle(10.0)
        assert [] == await world.in_use()
    assert (False, True) == (staging.exists(), kept.exists())


@in_virtual_time
async def test_BLK1_a_driver_that_does_not_stage(world: VolumesWorld, tools: FakeTools) -> None:
    world.driver.able = ()
    async with world.agent():
        _, pod = await running(world)
        await world.delete_pod(pod)  # type: ignore[arg-type]
        await world.until_calls(PUBLISH, UNPUBLISH)
        await world.settle()
        assert ([], [], await world.in_use()) == (world.left(), tools.backing_files, [])


@in_virtual_time
async def test_BLK1_a_driver_that_comes_to_stage_stages_what_other_pods_have(
    world: VolumesWorld, tools: FakeTools
) -> None:
    world.driver.able = ()
    async with world.agent():
        volume, first = await running(world)
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        second = await world.running_pod(volume, devices=True)
        await world.until_calls(PUBLISH, STAGE, PUBLISH)
        for pod in (first, second):
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], [], []) == (world.left(), tools.backing_files, await world.in_use())


@in_virtual_time
async def test_BLK1_what_the_disk_tells_of_does_not_count_once_the_driver_has_come_to_stage_again(
    world: VolumesWorld, tools: FakeTools
) -> None:
    """As test_MNT2_what_the_disk_tells_of_does_not_count_once_the_driver_has_come_to_stage_again."""
    async with world.agent():
        volume, first = await running(world)
    world.driver.able = ()
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        world.driver.able = (NODE_RPC.STAGE_UNSTAGE_VOLUME,)
        await world.register()
        second = await world.running_pod(volume, devices=True)
        await world.until_calls(STAGE, PUBLISH, PUBLISH, STAGE, PUBLISH)
        for pod in (first, second):
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], [], []) == (world.left(), tools.backing_files, await world.in_use())


@in_virtual_time
async def test_BLK3_a_stage_that_failed_for_good_leaves_no_folder(world: VolumesWorld, tools: FakeTools) -> None:
    world.driver.always(STAGE, Fail(Code.INTERNAL))
    async with world.agent():
        pod = await world.pod(await world.volume(mode="Block"), devices=True)
        message = await world.until_told(pod, "MapVolume.SetUpDevice failed", "FailedMapVolume")
        assert 'for volume "vol"' in message
        await world.settle()
        assert [] == world.left()
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        assert {STAGE} == set(world.driver.calls_for_volumes())


@in_virtual_time
async def test_a_stage_of_a_device_that_may_have_happened_is_taken_back(world: VolumesWorld, tools: FakeTools) -> None:
    world.driver.always(STAGE, Lose(Code.UNAVAILABLE))
    async with world.agent():
        pod = await world.pod(await world.volume(mode="Block"), devices=True)
        await world.until_called(STAGE, 2)
        await world.delete_pod(pod)
        await world.until_called(UNSTAGE)
        await world.settle()
        assert [] == world.left()


@each_row("tool", ["mount", "losetup"], fresh=[world, tools])
@in_virtual_time
async def test_a_device_that_can_t_be_mapped_is_told_and_taken_back(
    world: VolumesWorld, tools: FakeTools, tool: str
) -> None:
    tools.fails.add(tool)
    async with world.agent():
        pod = await world.pod(await world.volume(mode="Block"), devices=True)
        await world.until_told(pod, f"{tool} ", "FailedMapVolume")
        assert "Pending" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]
        tools.fails.clear()
        await world.shown(PODS, pod["metadata"]["name"], lambda pod: pod["status"]["phase"] == "Running")
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], [], []) == (world.left(), world.mounts.points, tools.backing_files)


@in_virtual_time
async def test_a_device_that_can_t_be_unmapped_stays_known(world: VolumesWorld, tools: FakeTools) -> None:
    async with world.agent():
        volume, pod = await running(world)
        tools.fails.add("umount")
        await world.delete_pod(pod)  # type: ignore[arg-type]
        await world.settle(10.0)
        assert (UNPUBLISH in world.driver.calls_for_volumes(), [volume.unique]) == (False, await world.in_use())
        tools.fails.clear()
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE)
        await world.settle()
        assert [] == world.left()


@in_virtual_time
async def test_a_republished_device_stays_the_pod_s_when_the_driver_refuses(
    world: VolumesWorld, tools: FakeTools
) -> None:
    await world.no_attach(requiresRepublish=True)
    async with world.agent():
        volume = await world.volume(mode="Block", attached=False)
        pod = await world.running_pod(volume, devices=True)
        world.driver.always(PUBLISH, Fail(Code.INTERNAL))
        await world.until_told(pod, "MapVolume.MapPodDevice failed", "FailedMapVolume")
        assert [1] == [len(list(world.node.published()))]


@in_virtual_time
async def test_something_that_is_no_device_is_not_mapped(
    world: VolumesWorld, tools: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block, "stat", types.SimpleNamespace(S_ISBLK=lambda mode: False))
    async with world.agent():
        pod = await world.pod(await world.volume(mode="Block"), devices=True)
        await world.until_told(pod, "it is no block device", "FailedMapVolume")
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert ([], []) == (world.left(), tools.backing_files)


async def two_of_one_handle(world: VolumesWorld) -> tuple[Bound, Bound]:
    await world.no_attach()
    first = await world.volume("a", handle="h", attached=False, mode="Block", volumeAttributes={"path": "/a"})
    return first, await world.volume("b", handle="h", attached=False, mode="Block", volumeAttributes={"path": "/b"})


@in_virtual_time
async def test_a_raw_device_is_one_persistent_volume_s_at_a_time(world: VolumesWorld, tools: FakeTools) -> None:
    """The other's pod is told, and gets it when the first has gone."""
    async with world.agent():
        first, second = await two_of_one_handle(world)
        pod = await world.pod(first, devices=True)
        await world.until_calls(STAGE, PUBLISH)
        other = await world.pod(second, devices=True)
        told = await world.until_told(other, "PersistentVolume b names the volume h")
        assert "by PersistentVolume a" in told
        await world.settle(30.0)
        assert 1 == len(world.driver.made(PUBLISH))
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.until_calls(STAGE, PUBLISH, UNPUBLISH, UNSTAGE, STAGE, PUBLISH)
        assert "/staging/b" in world.request(STAGE).staging_target_path
        assert "/b" == world.request(PUBLISH).volume_context["path"]
        assert not world.layout.block_volume("a").exists()
