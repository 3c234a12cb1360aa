"""What a pod that runs says of itself, and whose word counts."""

from __future__ import annotations

from mooring.api.pods import PODS
from tests.support.builders import Json
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld


@in_virtual_time
async def test_a_pod_that_node_health_has_said_not_to_be_ready_is_ready_again(world: VolumesWorld) -> None:
    """Node health says so once, when the node has fallen silent; nobody but the agent knows that its pods run on."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        name = pod["metadata"]["name"]
        unready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await world.patch(PODS, name, {"status": {"conditions": [unready]}}, subresource="status")
        again = await world.shown(PODS, name, lambda pod: _ready(pod)["status"] == "True", "is ready again")
        assert _ready(again)["lastTransitionTime"] > unready["lastTransitionTime"]
        before = again["metadata"]["resourceVersion"]
        await world.settle(60.0)
        assert before == (await world.shown(PODS, name, lambda pod: True, "is there"))["metadata"]["resourceVersion"]


def _ready(pod: Json) -> Json:
    return next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")


@in_virtual_time
async def test_a_deleted_pod_that_somebody_holds_says_that_it_has_ended(world: VolumesWorld) -> None:
    """A Job holds its pods until they are counted, and with podReplacementPolicy Failed it counts those alone that have ended."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        name = pod["metadata"]["name"]
        await world.patch(PODS, name, {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}})
        await world.delete_pod(pod)
        await world.shown(PODS, name, lambda pod: pod["status"]["phase"] == "Failed", "has ended")
        await world.patch(PODS, name, {"metadata": {"finalizers": None}})
        await world.gone(PODS, name)
