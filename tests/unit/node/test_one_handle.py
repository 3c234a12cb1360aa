"""Two PersistentVolumes that name one volume: nobody should make them, some drivers' users do."""

from __future__ import annotations

from mooring.api.pods import PODS
from tests.support.builders import a_secret
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH, UNSTAGE
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import Bound, VolumesWorld


async def two(world: VolumesWorld) -> tuple[Bound, Bound]:
    await world.no_attach()
    first = await world.volume("a", handle="h", attached=False, volumeAttributes={"path": "/a"})
    return first, await world.volume("b", handle="h", attached=False, volumeAttributes={"path": "/b"})


@in_virtual_time
async def test_each_pod_gets_the_attributes_of_its_own(world: VolumesWorld) -> None:
    async with world.agent():
        pods = [await world.running_pod(volume) for volume in await two(world)]
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        assert ["/a", "/b"] == [call.request.volume_context["path"] for call in world.driver.made(PUBLISH)]
        assert [str(world.target(pod, name)) for pod, name in zip(pods, "ab", strict=True)] == [
            call.request.target_path for call in world.driver.made(PUBLISH)
        ]
        assert "b" == (world.record(world.target(pods[1], "b").parent) or {})["specVolID"]
        for pod in pods:
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), world.mounts.points)


@in_virtual_time
async def test_each_pod_keeps_its_own_over_a_restart(world: VolumesWorld) -> None:
    async with world.agent():
        pods = [await world.running_pod(volume) for volume in await two(world)]
    world.driver.calls.clear()
    async with world.agent():
        await world.until_calls(STAGE, PUBLISH, PUBLISH)
        made = {call.request.target_path: call.request.volume_context["path"] for call in world.driver.made(PUBLISH)}
        assert {str(world.target(pod, name)): f"/{name}" for pod, name in zip(pods, "ab", strict=True)} == made
        await world.delete_pod(pods[0])
        await world.until_called(UNPUBLISH)
        assert str(world.target(pods[0], "a")) == world.request(UNPUBLISH).target_path


@in_virtual_time
async def test_one_pod_that_wants_both_is_told_which_holds_it(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(*await two(world))
        told = await world.until_told(pod, "PersistentVolume b names the volume h")
        assert "by PersistentVolume a" in told
        await world.settle(30.0)
        assert "Pending" == (await world.get(PODS, pod["metadata"]["name"]))["status"]["phase"]


@in_virtual_time
async def test_a_pod_whose_first_try_failed_loses_its_own_at_its_end(world: VolumesWorld) -> None:
    """A try that failed before the driver was asked is remembered under the pod's own PersistentVolume, not under the
    first pod's.
    """
    await world.no_attach()
    secret = {"name": "s", "namespace": "default"}
    first = await world.volume("a", handle="h", attached=False)
    second = await world.volume("b", handle="h", attached=False, nodePublishSecretRef=secret)
    async with world.agent():
        pods = [await world.running_pod(first), await world.pod(second)]
        await world.until_told(pods[1], 'MountVolume.SetUp failed for volume "b" : fetching secret default/s failed')
        await world.create(a_secret("s", {}))
        await world.until_called(PUBLISH, 2)
        await world.settle(1.0)
        for pod in pods:
            await world.delete_pod(pod)
            await world.gone(PODS, pod["metadata"]["name"])
        taken = [call.request.target_path for call in world.driver.made(UNPUBLISH)]
        assert [str(world.target(pod, name)) for pod, name in zip(pods, "ab", strict=True)] == taken
        await world.until_called(UNSTAGE)
        await world.settle()
        assert ([], []) == (world.left(), world.mounts.points)
