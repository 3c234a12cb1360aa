"""The object of a pod that has ended goes with one request, however many volumes it had, and however long somebody else
holds it.
"""

from __future__ import annotations

from mooring.api.pods import PODS
from mooring.wire.grpc.codes import Code
from tests.support.node_driver import PUBLISH
from tests.support.rows import each_row
from tests.support.scripted_driver import Fail
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld, world

DELETE = "delete pods"


@each_row("finalizers", [None, ["a-user.example.com/x"]], fresh=[world])
@in_virtual_time
async def test_a_pod_is_deleted_once(world: VolumesWorld, finalizers: list[str] | None) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume("v1"), await world.volume("v2"))
        name = pod["metadata"]["name"]
        await world.patch(PODS, name, {"metadata": {"finalizers": finalizers}})
        await world.delete_pod(pod)
        if finalizers:
            await world.until_called("NodeUnstageVolume", 2)
            await world.settle()
            await world.patch(PODS, name, {"metadata": {"finalizers": None}})
        await world.gone(PODS, name)
        await world.settle()
        assert 1 == world.story.count(DELETE), world.story


@in_virtual_time
async def test_the_folder_of_a_pod_that_is_removed_at_once_goes_also_where_it_never_had_its_volume(
    world: VolumesWorld,
) -> None:
    """The driver has refused, so that no step is left to be done for the pod."""
    world.driver.always(PUBLISH, Fail(Code.INTERNAL))
    async with world.agent():
        pod = await world.pod(await world.volume())
        await world.until_told(pod, "MountVolume.SetUp failed")
        assert world.layout.pod(pod["metadata"]["uid"]).exists()
        await world.users.delete(PODS, pod["metadata"]["name"], "default", grace_period_s=0)
        await world.settle(5.0)
        assert not world.layout.pod(pod["metadata"]["uid"]).exists()
