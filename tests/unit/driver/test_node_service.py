"""A driver's node service and group controller: they follow from the methods, and the same guard stands before them."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Mapping
from typing import Any

import pytest

from mooring.base import log
from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.driver import Call
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import NODE, GroupCapability, NodeCapability, Service, left_out, methods_of
from mooring.driver.sdk import Plugin
from mooring.driver.server import check_identity
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.unit.driver.calls import a_capability, refused

GROUP = csi.VolumeGroupSnapshot(
    group_snapshot_id="group-1",
    creation_time={"seconds": 1},
    snapshots=[
        {"snapshot_id": "s", "source_volume_id": "v", "group_snapshot_id": "group-1", "creation_time": {"seconds": 1}}
    ],
)


class Publishing(Plugin):
    """The least node service there is."""

    name = "publishing.example.com"
    node_id = "node-1"

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.entered, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        await self._work(request)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        await self._work(request)
        return csi.NodeUnpublishVolumeResponse()

    async def _work(self, request: Any) -> None:
        self.calls.append(request)
        self.entered.set()
        await self.gate.wait()


class Staging(Publishing):
    """Stages, too."""

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        await self._work(request)
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        await self._work(request)
        return csi.NodeUnstageVolumeResponse()

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        await self._work(request)
        return csi.NodeExpandVolumeResponse(capacity_bytes=5)

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        return csi.NodeGetVolumeStatsResponse(usage=[{"total": 5, "unit": csi.VolumeUsage.BYTES}])


class Grouping(Plugin):
    name = "grouping.example.com"

    async def create_volume_group_snapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest
    ) -> csi.CreateVolumeGroupSnapshotResponse:
        return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=GROUP)

    async def delete_volume_group_snapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
        return csi.DeleteVolumeGroupSnapshotResponse()

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot=GROUP)


def a_publishing(volume_id: str = "v", target: str = "/pods/a/mount", **fields: Any) -> csi.NodePublishVolumeRequest:
    fields = {"volume_capability": a_capability(), **fields}
    return csi.NodePublishVolumeRequest(volume_id=volume_id, target_path=target, **fields)


def a_staging(volume_id: str = "v", path: str = "/staged/v", **fields: Any) -> csi.NodeStageVolumeRequest:
    fields = {"volume_capability": a_capability(), **fields}
    return csi.NodeStageVolumeRequest(volume_id=volume_id, staging_target_path=path, **fields)


async def node_capabilities(plugin: Plugin) -> set[int]:
    answer = await plugin.node_get_capabilities(csi.NodeGetCapabilitiesRequest())
    return {one.rpc.type for one in answer.capabilities}


async def services(plugin: Plugin) -> set[int]:
    answer = await plugin.get_plugin_capabilities(csi.GetPluginCapabilitiesRequest())
    return {one.service.type for one in answer.capabilities}


async def test_node_capabilities_are_those_of_the_overridden_methods() -> None:
    assert set() == await node_capabilities(Publishing())
    derived = {NodeCapability.STAGE_UNSTAGE_VOLUME, NodeCapability.GET_VOLUME_STATS, NodeCapability.EXPAND_VOLUME}
    assert derived == await node_capabilities(Staging())
    assert set() == await services(Staging())  # no capability of the plugin shows a node service


async def test_a_driver_without_node_methods_has_no_node_service() -> None:
    for call in (
        Grouping().node_get_capabilities(csi.NodeGetCapabilitiesRequest()),
        Grouping().node_get_info(csi.NodeGetInfoRequest()),
        Grouping().node_publish_volume(csi.NodePublishVolumeRequest()),
    ):
        await refused(call, Code.UNIMPLEMENTED)


async def test_node_flags_add_what_no_method_shows() -> None:
    class Flagged(Staging):
        node_flags = (
            NodeCapability.VOLUME_MOUNT_GROUP,
            NodeCapability.SINGLE_NODE_MULTI_WRITER,
            NodeCapability.VOLUME_CONDITION,
        )

    assert {1, 2, 3, 4, 5, 6} == await node_capabilities(Flagged())


@each_row(
    ("flag", "text"),
    [
        (
            NodeCapability.STAGE_UNSTAGE_VOLUME,
            "STAGE_UNSTAGE_VOLUME is no flag: override node_stage_volume and node_unstage_volume",
        ),
        (NodeCapability.VOLUME_CONDITION, "VOLUME_CONDITION needs node_get_volume_stats"),
    ],
)
async def test_a_node_flag_that_makes_no_sense_is_a_mistake(flag: int, text: str) -> None:
    class Boasting(Publishing):
        node_flags = (flag,)

    with pytest.raises(TypeError, match=text):
        await node_capabilities(Boasting())


@each_row(
    ("method", "absent"),
    [
        ("node_get_info", "node_publish_volume and node_unpublish_volume"),
        ("node_publish_volume", "node_unpublish_volume"),
        ("node_stage_volume", "node_unstage_volume and node_publish_volume and node_unpublish_volume"),
        ("create_volume_group_snapshot", "delete_volume_group_snapshot and get_volume_group_snapshot"),
    ],
)
def test_half_of_a_service_is_a_mistake(method: str, absent: str) -> None:
    async def call(self: Plugin, request: Any) -> Any:
        return request

    with pytest.raises(TypeError, match=f"^Half must override {absent} too"):
        type("Half", (Plugin,), {method: call})()


async def test_the_attributes_describe_the_node() -> None:
    class Placed(Publishing):
        node_volumes_max = 16
        node_segments = {"zone": "a"}  # noqa: RUF012

    info = await Placed().node_get_info(csi.NodeGetInfoRequest())
    assert ("node-1", 16, {"zone": "a"}) == (
        info.node_id,
        info.max_volumes_per_node,
        dict(info.accessible_topology.segments),
    )
    assert not (await Publishing().node_get_info(csi.NodeGetInfoRequest())).HasField("accessible_topology")


class ByProperty(Publishing):
    """Types are checked strictly here, too: `make check` fails where a property or a method is none."""

    @property
    def node_segments(self) -> Mapping[str, str]:
        return {"zone": f"of-{self.node_id}"}


class ByMethod(Publishing):
    def node_segments(self) -> Mapping[str, str]:
        return {"zone": f"of-{self.node_id}"}


@each_row("kind", [ByProperty, ByMethod])
async def test_the_topology_may_be_a_property_or_a_method(kind: type[Publishing]) -> None:
    """B3 of what hurt drivers' authors."""
    plugin = kind()
    plugin.node_id = "n7"  # which comes after the constructor, as in `mooring dev`
    info = await plugin.node_get_info(csi.NodeGetInfoRequest())
    assert {"zone": "of-n7"} == dict(info.accessible_topology.segments)


class Announcing(Publishing):
    plugin_flags = (Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,)


@each_row(
    ("segments", "fault"),
    [
        ({}, "Announcing.node_segments is empty, and plugin_flags announce VOLUME_ACCESSIBILITY_CONSTRAINTS"),
        ({"zone": ""}, "Announcing.node_segments has no value for 'zone'"),
        ({"": "a"}, "has no value for ''"),
        ({"zone": 5}, "gives {'zone': 5}: give texts by their keys"),
        (lambda: None, "gives None: give texts by their keys"),
        (["zone"], "gives ['zone']"),
    ],
)
async def test_nobody_gets_a_silent_empty_topology(segments: Any, fault: str) -> None:
    """B3 of what hurt drivers' authors."""
    plugin = Announcing()
    plugin.node_segments = segments
    await refused(plugin.node_get_info(csi.NodeGetInfoRequest()), Code.INTERNAL, fault)
    with pytest.raises(ConfigError, match=re.escape(fault)):
        check_identity(plugin)


async def test_an_async_method_is_no_topology() -> None:
    """B3 of what hurt drivers' authors."""

    class Waiting(Publishing):
        async def node_segments(self) -> Mapping[str, str]:
            return {"zone": "a"}

    with pytest.raises(ConfigError, match=r"Waiting\.node_segments is `async def`: make it a plain one"):
        check_identity(Waiting())


async def test_a_node_without_an_id_is_the_drivers_mistake() -> None:
    plugin = Publishing()
    plugin.node_id = ""
    await refused(plugin.node_get_info(csi.NodeGetInfoRequest()), Code.INTERNAL, "node_id is required")


async def test_what_is_withheld_takes_its_capability_along() -> None:
    plugin = Staging()
    plugin.withheld, plugin.node_flags = left_out(
        (NodeCapability.VOLUME_CONDITION,), [NodeCapability.GET_VOLUME_STATS], NODE
    )
    assert {NodeCapability.STAGE_UNSTAGE_VOLUME, NodeCapability.EXPAND_VOLUME} == await node_capabilities(plugin)
    request = csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path="/p")
    await refused(plugin.node_get_volume_stats(request), Code.UNIMPLEMENTED)


async def test_a_whole_service_can_be_withheld() -> None:
    plugin = Staging()
    plugin.withheld = methods_of("Node")
    await refused(plugin.node_get_capabilities(csi.NodeGetCapabilitiesRequest()), Code.UNIMPLEMENTED)


async def test_groups_follow_from_their_methods() -> None:
    assert {Service.GROUP_CONTROLLER_SERVICE} == await services(Grouping())
    answer = await Grouping().group_controller_get_capabilities(csi.GroupControllerGetCapabilitiesRequest())
    assert [GroupCapability.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT] == [one.rpc.type for one in answer.capabilities]
    await refused(
        Publishing().group_controller_get_capabilities(csi.GroupControllerGetCapabilitiesRequest()), Code.UNIMPLEMENTED
    )
    await refused(Grouping().controller_get_capabilities(csi.ControllerGetCapabilitiesRequest()), Code.UNIMPLEMENTED)


async def test_a_volume_has_one_operation_at_a_time_on_its_node_as_well() -> None:
    plugin = Staging()
    plugin.gate.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(plugin.node_stage_volume(a_staging()), name="first")
        await plugin.entered.wait()
        for call in (
            plugin.node_stage_volume(a_staging()),
            plugin.node_unstage_volume(csi.NodeUnstageVolumeRequest(volume_id="v", staging_target_path="/staged/v")),
            plugin.node_publish_volume(a_publishing(staging_target_path="/staged/v")),
            plugin.node_unpublish_volume(csi.NodeUnpublishVolumeRequest(volume_id="v", target_path="/t")),
            plugin.node_expand_volume(csi.NodeExpandVolumeRequest(volume_id="v", volume_path="/t")),
        ):
            await refused(call, Code.ABORTED, "NodeStageVolume is pending for volume 'v'")
        await plugin.node_get_volume_stats(csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path="/t"))
        other = group.create_task(plugin.node_stage_volume(a_staging("other")), name="another volume")
        plugin.gate.set()
    assert other.done()
    await plugin.node_publish_volume(a_publishing(staging_target_path="/staged/v"))


async def test_publishing_without_staging_is_refused_where_volumes_are_staged() -> None:
    """FailedPrecondition is the code that the specification names; InvalidArgument comes first."""
    await refused(
        Staging().node_publish_volume(a_publishing()), Code.FAILED_PRECONDITION, "staging_target_path is required"
    )
    await refused(
        Staging().node_publish_volume(csi.NodePublishVolumeRequest(volume_id="v")), Code.INVALID_ARGUMENT, "target_path"
    )
    await Staging().node_publish_volume(a_publishing(volume_context={"csi.storage.k8s.io/ephemeral": "true"}))
    await Publishing().node_publish_volume(a_publishing())


async def test_secrets_of_node_calls_stay_out_of_the_log() -> None:
    plugin, lines = Staging(), io.StringIO()
    log.configure(stream=lines, verbosity=5)
    tokens = {"csi.storage.k8s.io/serviceAccount.tokens": '{"a": {"token": "canary-token"}}'}
    try:
        await plugin.node_stage_volume(a_staging(secrets={"password": "canary-password"}))
        await plugin.node_publish_volume(a_publishing(staging_target_path="/s", volume_context=tokens))
    finally:
        log.configure()
    assert 4 == len(lines.getvalue().splitlines())
    assert "canary" not in lines.getvalue()


async def test_a_node_service_works_in_process_as_over_a_socket() -> None:
    driver, call = InProcessDriver(Staging(), clock=LoopClock()), Call(timeout_s=5.0)
    await driver.node_stage_volume(a_staging(), call)
    assert "node-1" == (await driver.node_get_info(csi.NodeGetInfoRequest(), call)).node_id
    await refused(driver.node_stage_volume(a_staging(""), call), Code.INVALID_ARGUMENT, "volume_id is required")
