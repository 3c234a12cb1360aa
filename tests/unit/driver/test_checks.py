"""CSI's rules, one row each: a request that breaks it, and the field that is named."""

from __future__ import annotations

from typing import Any

import msgspec
from google.protobuf.message import Message

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability, NodeCapability, Service
from mooring.driver.checks import Advertised, request_fault
from tests.support.rows import each_row
from tests.unit.driver.calls import Mode, a_capability, a_creation, a_publication

NOTHING = Advertised(frozenset(), frozenset())
EVERYTHING = Advertised(
    frozenset(Capability.Type.values()), frozenset(Service.Type.values()), frozenset(NodeCapability.Type.values())
)

LONG = "é" * 65  # 130 bytes, 65 characters: the limit counts bytes
BIG_MAP = {"key": "v" * 4094}


def a_node_expansion(**fields: Any) -> csi.NodeExpandVolumeRequest:
    return csi.NodeExpandVolumeRequest(volume_id="v", volume_path="p", **fields)


def expansion(**fields: Any) -> csi.ControllerExpandVolumeRequest:
    return csi.ControllerExpandVolumeRequest(volume_id="v", **fields)


def a_publishing(**fields: Any) -> csi.NodePublishVolumeRequest:
    fields = {"volume_id": "v", "target_path": "/t", "volume_capability": a_capability(), **fields}
    return csi.NodePublishVolumeRequest(**fields)


def mounted(**fields: Any) -> csi.VolumeCapability:
    return csi.VolumeCapability(mount=fields, access_mode={"mode": Mode.SINGLE_NODE_WRITER})


GROUPED = mounted(volume_mount_group="7")


@each_row(
    ("request_", "fault"),
    [
        (csi.CreateVolumeRequest(), "name is required"),
        (csi.CreateVolumeRequest(name="n"), "volume_capabilities is required"),
        (csi.DeleteVolumeRequest(), "volume_id is required"),
        (csi.ControllerPublishVolumeRequest(), "volume_id is required"),
        (csi.ControllerPublishVolumeRequest(volume_id="v"), "node_id is required"),
        (csi.ControllerPublishVolumeRequest(volume_id="v", node_id="n"), "volume_capability is required"),
        (csi.ControllerUnpublishVolumeRequest(), "volume_id is required"),
        (csi.ValidateVolumeCapabilitiesRequest(), "volume_id is required"),
        (csi.ValidateVolumeCapabilitiesRequest(volume_id="v"), "volume_capabilities is required"),
        (csi.ControllerGetVolumeRequest(), "volume_id is required"),
        (csi.ControllerModifyVolumeRequest(), "volume_id is required"),
        (csi.ControllerModifyVolumeRequest(volume_id="v"), "mutable_parameters is required"),
        (expansion(), "capacity_range is required"),
        (csi.CreateSnapshotRequest(), "name is required"),
        (csi.CreateSnapshotRequest(name="s"), "source_volume_id is required"),
        (csi.DeleteSnapshotRequest(), "snapshot_id is required"),
        (csi.GetSnapshotRequest(), "snapshot_id is required"),
        (csi.CreateVolumeGroupSnapshotRequest(), "name is required"),
        (csi.CreateVolumeGroupSnapshotRequest(name="g"), "source_volume_ids is required"),
        (csi.DeleteVolumeGroupSnapshotRequest(), "group_snapshot_id is required"),
        (csi.GetVolumeGroupSnapshotRequest(), "group_snapshot_id is required"),
        (csi.NodeStageVolumeRequest(), "volume_id is required"),
        (csi.NodeStageVolumeRequest(volume_id="v"), "staging_target_path is required"),
        (csi.NodeStageVolumeRequest(volume_id="v", staging_target_path="/s"), "volume_capability is required"),
        (csi.NodeUnstageVolumeRequest(), "volume_id is required"),
        (csi.NodeUnstageVolumeRequest(volume_id="v"), "staging_target_path is required"),
        (csi.NodePublishVolumeRequest(), "volume_id is required"),
        (csi.NodePublishVolumeRequest(volume_id="v"), "target_path is required"),
        (csi.NodePublishVolumeRequest(volume_id="v", target_path="/t"), "volume_capability is required"),
        (csi.NodeUnpublishVolumeRequest(), "volume_id is required"),
        (csi.NodeUnpublishVolumeRequest(volume_id="v"), "target_path is required"),
        (csi.NodeGetVolumeStatsRequest(), "volume_id is required"),
        (csi.NodeGetVolumeStatsRequest(volume_id="v"), "volume_path is required"),
        (csi.NodeExpandVolumeRequest(), "volume_id is required"),
        (csi.NodeExpandVolumeRequest(volume_id="v"), "volume_path is required"),
        (a_publishing(target_path="some/path"), "target_path: 'some/path' is not absolute"),
        (a_publishing(staging_target_path="./s"), "staging_target_path: './s' is not absolute"),
        (csi.NodeUnpublishVolumeRequest(volume_id="v", target_path="/a\0b"), "target_path: has a NUL byte"),
        (csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path="\0"), "volume_path: has a NUL byte"),
        (a_publishing(volume_capability={"block": {}}), "volume_capability.access_mode.mode is required"),
        (a_node_expansion(capacity_range={"required_bytes": -1}), "must not be negative"),
        (a_node_expansion(volume_capability={"block": {}}), "access_mode.mode is required"),
        (
            a_creation(volume_capabilities=[a_capability(), {"access_mode": {"mode": 1}}]),
            "volume_capabilities[1]: either block or mount",
        ),
        (a_creation(volume_capabilities=[{"mount": {}}]), "volume_capabilities[0].access_mode.mode is required"),
        (a_publication("v", volume_capability={"block": {}}), "volume_capability.access_mode.mode is required"),
        (a_creation(capacity_range={"required_bytes": -1}), "capacity_range: must not be negative"),
        (a_creation(capacity_range={"limit_bytes": -1}), "capacity_range: must not be negative"),
        (
            expansion(capacity_range={"required_bytes": 3, "limit_bytes": 2}),
            "capacity_range: required_bytes 3 is above limit_bytes 2",
        ),
        (csi.ListVolumesRequest(max_entries=-1), "max_entries: must not be negative"),
        (csi.ListSnapshotsRequest(max_entries=-1), "max_entries: must not be negative"),
        (a_creation("a\x07b"), "name: has control characters"),
        (a_creation(secrets={"a key": "canary"}), "secrets: key 'a key' is not"),
        (a_creation(volume_content_source={}), "volume_content_source: either snapshot or volume"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_told_with_its_field(request_: Message, fault: str) -> None:
    told = request_fault(request_, EVERYTHING)
    assert told is not None
    assert fault in told
    assert "canary" not in told


@each_row(
    ("request_", "fault"),
    [
        (a_creation(LONG), "name: 130 bytes, 128 are allowed"),
        (a_publication("v" * 129), "volume_id: 129 bytes, 128 are allowed"),
        (a_publication("v", "n" * 257), "node_id: 257 bytes, 256 are allowed"),
        (a_publication("v", volume_context=BIG_MAP), "volume_context: 4097 bytes, 4096 are allowed"),
        (a_publication("v", secrets=BIG_MAP), "secrets: 4097 bytes, 4096 are allowed"),
        (a_creation(volume_capabilities=[mounted(fs_type=LONG)]), "volume_capabilities[0].mount.fs_type: 130 bytes"),
        (
            a_creation(volume_capabilities=[mounted(mount_flags=["f" * 4000, "g" * 97])]),
            "mount.mount_flags: 4097 bytes",
        ),
    ],
)
def test_what_is_longer_than_csi_allows_is_refused_only_by_a_driver_that_asks_for_that(
    request_: Message, fault: str
) -> None:
    """A kubelet sends Secrets and tokens of any size, and no Go driver refuses them."""
    assert None is request_fault(request_, EVERYTHING)
    told = request_fault(request_, msgspec.structs.replace(EVERYTHING, refuses_oversize=True))
    assert told is not None
    assert fault in told
    assert "canary" not in told


def test_the_tokens_of_a_kubelet_are_a_secret_like_others() -> None:
    tokens = {"csi.storage.k8s.io/serviceAccount.tokens": "{}"}
    assert None is request_fault(a_publication("v", secrets=tokens), EVERYTHING)


@each_row(
    ("request_", "field", "capability"),
    [
        (a_publication("v", readonly=True), "readonly", "PUBLISH_READONLY"),
        (a_publication("v", mode=6), "volume_capability.access_mode.mode", "SINGLE_NODE_MULTI_WRITER"),
        (
            a_creation(volume_capabilities=[a_capability(7)]),
            "volume_capabilities[0].access_mode.mode",
            "SINGLE_NODE_MULTI_WRITER",
        ),
        (
            a_creation(volume_content_source={"snapshot": {}}),
            "volume_content_source.snapshot",
            "CREATE_DELETE_SNAPSHOT",
        ),
        (a_creation(volume_content_source={"volume": {}}), "volume_content_source.volume", "CLONE_VOLUME"),
        (a_creation(mutable_parameters={"a": "b"}), "mutable_parameters", "MODIFY_VOLUME"),
        (
            a_publishing(volume_capability=a_capability(6)),
            "volume_capability.access_mode.mode",
            "SINGLE_NODE_MULTI_WRITER",
        ),
        (
            a_publishing(volume_capability=mounted(volume_mount_group="7")),
            "volume_capability.mount.volume_mount_group",
            "VOLUME_MOUNT_GROUP",
        ),
        (a_creation(accessibility_requirements={}), "accessibility_requirements", "VOLUME_ACCESSIBILITY_CONSTRAINTS"),
    ],
)
def test_a_field_whose_capability_is_not_advertised_is_refused(request_: Message, field: str, capability: str) -> None:
    expected = f"{field}: needs the capability {capability}, which this driver does not have"
    assert expected == request_fault(request_, NOTHING)
    assert request_fault(request_, EVERYTHING) is None


@each_row(
    "request_",
    [
        a_creation("n" * 128),
        a_creation("a name\twith ünicode and\nwhite space"),
        a_creation(capacity_range=None),
        a_creation(capacity_range={"limit_bytes": 5}),
        a_creation(capacity_range={"required_bytes": 5, "limit_bytes": 5}),
        a_creation(volume_capabilities=[a_capability(), a_capability(Mode.MULTI_NODE_MULTI_WRITER, block=True)]),
        a_creation(volume_capabilities=[{"mount": {}, "access_mode": {"mode": 77}}]),
        a_publication("v", "n" * 256, secrets={"a.b-c_D9": "x"}),
        csi.ControllerUnpublishVolumeRequest(volume_id="v"),
        csi.NodeGetVolumeStatsRequest(volume_id="v", volume_path="some/path"),
        csi.NodeExpandVolumeRequest(volume_id="v", volume_path="some/path"),
        csi.NodePublishVolumeRequest(
            volume_id="v", target_path="/" + "t" * 4000, readonly=True, volume_capability=a_capability()
        ),
        csi.DeleteVolumeGroupSnapshotRequest(group_snapshot_id="g"),
        csi.GetVolumeGroupSnapshotRequest(group_snapshot_id="g"),
        csi.ListVolumesRequest(),
        csi.GetCapacityRequest(),
        csi.ProbeRequest(),
    ],
)
def test_what_csi_allows_passes(request_: Message) -> None:
    assert request_fault(request_, NOTHING) is None
