"""What a pod that runs says of itself, and whose word counts."""

from __future__ import annotations

from mooring.api.pods import PODS
from mooring.apiserver.printers.core import POD
from tests.support.builders import CONTAINER, Json
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


INIT = {"name": "before", "image": "i1", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
SIDECAR = {**INIT, "name": "beside", "image": "i2", "restartPolicy": "Always"}


def _states(pod: Json, field: str) -> list[tuple[str, str, bool, list[str]]]:
    """Name, image and readiness of each container, and the states that it is in."""
    return [(one["name"], one["image"], one["ready"], sorted(one["state"])) for one in pod["status"].get(field) or []]


@in_virtual_time
async def test_a_pod_that_runs_is_ready_to_kubectl(world: VolumesWorld) -> None:
    """Item A11 of issue 27: READY is 1/1. Containers that come before the others have ended, and sidecars run."""
    async with world.agent():
        pod = await world.running_pod(await world.volume(), initContainers=[INIT, SIDECAR])
        assert [(CONTAINER["name"], CONTAINER["image"], True, ["running"])] == _states(pod, "containerStatuses")
        before = [("before", "i1", True, ["terminated"]), ("beside", "i2", True, ["running"])]
        assert before == _states(pod, "initContainerStatuses")
        assert ["2/2", "Running"] == [column.cell(pod, 0.0) for column in POD if column.name in ("Ready", "Status")]


@in_virtual_time
async def test_a_pod_of_which_an_earlier_agent_said_nothing_is_ready_once_more(world: VolumesWorld) -> None:
    """Item A11 of issue 27: Mooring said no word of containers before. What is there is not written anew."""
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        name = pod["metadata"]["name"]
        await world.patch(PODS, name, {"status": {"containerStatuses": None}}, subresource="status")
        again = await world.shown(PODS, name, lambda pod: pod["status"].get("containerStatuses"), "says so again")
        theirs = [{**again["status"]["containerStatuses"][0], "restartCount": 3}]
        await world.patch(PODS, name, {"status": {"containerStatuses": theirs}}, subresource="status")
        await world.settle(300.0)
        assert theirs == (await world.get(PODS, name))["status"]["containerStatuses"]


def _ready(pod: Json) -> Json:
    return next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")


@in_virtual_time
async def test_a_deleted_pod_that_somebody_holds_says_that_it_has_ended(world: VolumesWorld) -> None:
    """A Job holds its pods until they are counted, and with podReplacementPolicy Failed it counts those alone that have
    ended.
    """
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        name = pod["metadata"]["name"]
        await world.patch(PODS, name, {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}})
        await world.delete_pod(pod)
        ended = await world.shown(PODS, name, lambda pod: pod["status"]["phase"] == "Failed", "has ended")
        assert [(CONTAINER["name"], CONTAINER["image"], False, ["terminated"])] == _states(ended, "containerStatuses")
        await world.patch(PODS, name, {"metadata": {"finalizers": None}})
        await world.gone(PODS, name)
