"""The rules that an answer breaks by itself, one row each."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from mooring.conform.book.answers import faults
from mooring.csi.proto import csi_pb2 as csi
from tests.support.rows import each_row

BIG_MAP = {"key": "v" * 4094}
TAKEN = {"seconds": 1}


def a_snapshot(**fields: Any) -> csi.Snapshot:
    fields = {"snapshot_id": "s", "source_volume_id": "v", "creation_time": TAKEN, **fields}
    return csi.Snapshot(**{name: value for name, value in fields.items() if value is not None})


def a_group(*members: csi.Snapshot, **fields: Any) -> csi.CreateVolumeGroupSnapshotResponse:
    fields = {"group_snapshot_id": "g", "creation_time": TAKEN, **fields}
    return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=csi.VolumeGroupSnapshot(snapshots=members, **fields))


@each_row(
    ("response", "fault"),
    [
        (csi.ControllerPublishVolumeResponse(publish_context=BIG_MAP), "publish_context: 4097 bytes, 4096 are allowed"),
        (csi.CreateVolumeResponse(), "volume is required"),
        (csi.CreateVolumeResponse(volume={}), "volume.volume_id is required"),
        (csi.CreateVolumeResponse(volume={"volume_id": "v" * 129}), "volume.volume_id: 129 bytes, 128 are allowed"),
        (csi.CreateSnapshotResponse(), "snapshot is required"),
        (csi.CreateSnapshotResponse(snapshot=a_snapshot(snapshot_id="")), "snapshot.snapshot_id is required"),
        (csi.CreateSnapshotResponse(snapshot=a_snapshot(source_volume_id="")), "snapshot.source_volume_id is required"),
        (csi.GetSnapshotResponse(snapshot=a_snapshot(creation_time=None)), "snapshot.creation_time is required"),
        (csi.CreateVolumeGroupSnapshotResponse(), "group_snapshot is required"),
        (a_group(a_snapshot(), group_snapshot_id=""), "group_snapshot.group_snapshot_id is required"),
        (a_group(), "group_snapshot.snapshots is required"),
        (csi.GetVolumeGroupSnapshotResponse(group_snapshot={}), "group_snapshot.group_snapshot_id is required"),
        (
            a_group(a_snapshot(group_snapshot_id="g", snapshot_id="")),
            "group_snapshot.snapshots[0].snapshot_id is required",
        ),
        (
            a_group(a_snapshot(group_snapshot_id="x")),
            "group_snapshot.snapshots[0].group_snapshot_id: 'x' is not the group's, 'g'",
        ),
        (csi.NodeGetInfoResponse(), "node_id is required"),
        (csi.NodeGetInfoResponse(node_id="n" * 257), "node_id: 257 bytes, 256 are allowed"),
        (csi.NodeGetInfoResponse(node_id="n", max_volumes_per_node=-1), "max_volumes_per_node: must not be negative"),
        (csi.NodeExpandVolumeResponse(capacity_bytes=-1), "capacity_bytes: must not be negative"),
        (csi.NodeGetVolumeStatsResponse(usage=[{"total": 1, "unit": 1}, {"total": 1}]), "usage[1].unit is required"),
        (csi.NodeGetVolumeStatsResponse(usage=[{"total": 1, "unit": 1, "used": -1}]), "usage[0]: must not be negative"),
    ],
)
def test_a_broken_rule_is_told_with_its_field(response: Message, fault: str) -> None:
    assert fault == next(found for _, found in faults(response))


@each_row(
    "response",
    [
        csi.ValidateVolumeCapabilitiesResponse(message="why " * 100),
        csi.CreateSnapshotResponse(snapshot=a_snapshot()),
        a_group(a_snapshot(group_snapshot_id="g"), a_snapshot(group_snapshot_id="g", snapshot_id="t")),
        csi.NodeGetInfoResponse(node_id="n" * 256, accessible_topology={"segments": {"zone": "a"}}),
        csi.NodeGetVolumeStatsResponse(usage=[{"total": 2, "used": 1, "available": 1, "unit": csi.VolumeUsage.INODES}]),
        csi.NodeExpandVolumeResponse(),
    ],
)
def test_what_csi_allows_passes(response: Message) -> None:
    assert list(faults(response)) == []
