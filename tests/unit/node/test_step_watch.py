"""How long steps take: the kubelet's metrics, and the pod's event about a step that hangs. Also: volumes out of the
node's reach.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.api.pods import PODS
from mooring.mounts import fs_group
from mooring.node.volumes.steps.threads import Threads
from mooring.wire.grpc.codes import Code
from tests.support.groups import a_group
from tests.support.node_driver import PUBLISH, STAGE, UNPUBLISH
from tests.support.scripted_driver import Fail, Wait
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld

PLUGIN = "kubernetes.io/csi:d1"
ZONE = {
    "nodeAffinity": {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}]}
    }
}


def operations(world: VolumesWorld, name: str, status: str = "success") -> float:
    labels = {"volume_plugin": PLUGIN, "operation_name": name, "status": status, "migrated": "false"}
    return world.metrics.registry.get_sample_value("storage_operation_duration_seconds_count", labels) or 0.0


def sample(world: VolumesWorld, name: str, **labels: str) -> float | None:
    return world.metrics.registry.get_sample_value(name, labels)


@in_virtual_time
async def test_mounting_and_unmounting_are_counted_as_the_kubelet_counts_them(world: VolumesWorld) -> None:
    async with world.agent():
        world.driver.script(PUBLISH, Fail(Code.UNAVAILABLE))
        pod = await world.running_pod(await world.volume())
        assert (1.0, 1.0) == (operations(world, "volume_mount"), operations(world, "volume_mount", "fail-unknown"))
        whole = {"plugin_name": "kubernetes.io/csi", "operation_name": "overall_volume_mount"}
        assert 1.0 == sample(world, "volume_operation_total_seconds_count", **whole)
        assert (sample(world, "volume_operation_total_seconds_sum", **whole) or 0.0) >= 0.5, (
            "the try that failed is part of the wait"
        )
        for state in ("desired_state_of_world", "actual_state_of_world"):
            assert 1.0 == sample(world, "volume_manager_total_volumes", plugin_name="kubernetes.io/csi", state=state)
        await world.delete_pod(pod)
        await world.gone(PODS, pod["metadata"]["name"])
        await world.settle()
        assert (1.0, 1.0) == (operations(world, "volume_unmount"), operations(world, "unmount_device"))


@in_virtual_time
async def test_records_that_a_start_finds_are_counted(world: VolumesWorld) -> None:
    async with world.agent():
        volume = await world.volume()
        pod = await world.running_pod(volume)
    (world.target(pod, "vol").parent / "vol_data.json").write_text("{")
    async with world.agent():
        await world.settle()
        assert 2.0 == sample(world, "reconstruct_volume_operations_total")
        assert 1.0 == sample(world, "reconstruct_volume_operations_errors_total")


@in_virtual_time
async def test_a_call_that_hangs_is_told_to_the_pods_users(world: VolumesWorld) -> None:
    async with world.agent():
        world.driver.script(STAGE, Wait(60.0))
        pod = await world.pod(await world.volume())
        text = await world.until_told(pod, "takes long")
        assert 'MountVolume.MountDevice of volume "vol" takes long: driver d1 has not answered for 30 s' in text
        await world.shown(PODS, pod["metadata"]["name"], lambda seen: seen["status"]["phase"] == "Running", "runs")


@in_virtual_time
async def test_a_walk_that_takes_long_is_not_told_as_the_drivers(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has answered; the walk tells of itself."""
    run = Threads.run

    async def slow(self: Threads, driver: str, *args: Any, **options: Any) -> Any:
        if driver.endswith("/fs-group"):
            await asyncio.sleep(100.0)
        return await run(self, driver, *args, **options)

    monkeypatch.setattr(Threads, "run", slow)
    async with world.agent():
        pod = await world.running_pod(await world.volume(fsType="ext4"), securityContext={"fsGroup": os.getgid()})
        assert "OnRootMismatch" in await world.until_told(
            pod, "Setting volume ownership", "VolumePermissionChangeInProgress"
        )
        texts = [message for _, _, message, _ in await world.events(pod["metadata"]["name"])]
        assert [] == [text for text in texts if "has not answered" in text]


@in_virtual_time
async def test_walks_that_set_a_group_are_counted_as_the_kubelet_counts_them(
    world: VolumesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, tries = "volume_apply_access_control", iter((OSError(5, "Input/output error"),))
    run = fs_group.Walk.run

    def fails_once(walk: fs_group.Walk) -> bool:
        for error in tries:
            raise error
        return run(walk)

    monkeypatch.setattr(fs_group.Walk, "run", fails_once)
    async with world.agent():
        security = {"fsGroup": a_group(), "fsGroupChangePolicy": fs_group.ON_ROOT_MISMATCH}
        await world.running_pod(await world.volume(fsType="ext4"), securityContext=security)
    counted = operations(world, name), operations(world, name, "fail-unknown")
    assert (1.0, 1.0) == counted
    async with world.agent():
        await world.until_called(PUBLISH, times=3)
        await world.settle(1.0)
        assert counted == (operations(world, name), operations(world, name, "fail-unknown")), "it was right already"


@in_virtual_time
async def test_a_pod_that_can_not_end_is_told_the_reason(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.running_pod(await world.volume())
        world.driver.script(UNPUBLISH, Wait(60.0))
        await world.delete_pod(pod)
        assert "MountVolume.TearDown" in await world.until_told(pod, "takes long")
        await world.gone(PODS, pod["metadata"]["name"])


@in_virtual_time
async def test_a_volume_out_of_reach_is_refused_until_the_nodes_labels_fit(world: VolumesWorld) -> None:
    async with world.agent():
        pod = await world.pod(await world.volume(pv=ZONE))
        text = await world.until_told(pod, "NodeAffinity")
        assert 'MountVolume.NodeAffinity check failed for volume "vol" : no matching NodeSelectorTerms' == text
        assert [] == world.driver.calls_for_volumes()
        labels: dict[str, Any] = {"metadata": {"labels": {"zone": "z1"}}}
        await world.patch(NODES, "n", labels)
        await world.until_calls(STAGE, PUBLISH)
