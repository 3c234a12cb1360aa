"""The object of a pod that has ended goes with one request, however many volumes it had, and however long somebody else holds it."""

from __future__ import annotations

import pytest

from mooring.api.pods import PODS
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld

DELETE = "delete pods"


@pytest.mark.parametrize("finalizers", [None, ["a-user.example.com/x"]])
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
