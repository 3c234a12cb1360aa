"""CSI's own rules for a driver's responses, told as `field: problem`, the first broken one only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf.message import Message

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.checks import missing, sizes

_REQUIRED: Final[Mapping[type[Message], tuple[str, ...]]] = {
    csi.CreateVolumeResponse: ("volume", "volume.volume_id"),
    csi.CreateSnapshotResponse: ("snapshot", "snapshot.snapshot_id", "snapshot.source_volume_id", "snapshot.creation_time"),
    csi.GetSnapshotResponse: ("snapshot", "snapshot.snapshot_id", "snapshot.source_volume_id", "snapshot.creation_time"),
    csi.CreateVolumeGroupSnapshotResponse: ("group_snapshot",),
    csi.GetVolumeGroupSnapshotResponse: ("group_snapshot",),
    csi.VolumeGroupSnapshot: ("group_snapshot_id", "snapshots", "creation_time"),
    csi.Snapshot: ("snapshot_id", "source_volume_id", "creation_time"),
    csi.NodeGetInfoResponse: ("node_id",),
}


def response_fault(response: Message) -> str | None:
    """The problem of a driver's response, None for none."""
    return next((fault for rule in (_missing, _group, _node, sizes) for fault in rule(response)), None)


def _missing(response: Message) -> Iterator[str]:
    yield from missing(response, _REQUIRED)


def _group(response: Message) -> Iterator[str]:
    """A group and its members: each is whole, and says which group it is of."""
    if not isinstance(response, csi.CreateVolumeGroupSnapshotResponse | csi.GetVolumeGroupSnapshotResponse):
        return
    group = response.group_snapshot
    yield from (f"group_snapshot.{fault}" for fault in _missing(group))
    for number, member in enumerate(group.snapshots):
        here = f"group_snapshot.snapshots[{number}]"
        yield from (f"{here}.{fault}" for fault in _missing(member))
        if member.group_snapshot_id != group.group_snapshot_id:
            yield f"{here}.group_snapshot_id: {member.group_snapshot_id!r} is not the group's, {group.group_snapshot_id!r}"


def _node(response: Message) -> Iterator[str]:
    """The numbers of a node and of its volumes."""
    if isinstance(response, csi.NodeGetInfoResponse) and response.max_volumes_per_node < 0:
        yield "max_volumes_per_node: must not be negative"
    if isinstance(response, csi.NodeExpandVolumeResponse) and response.capacity_bytes < 0:
        yield "capacity_bytes: must not be negative"
    if not isinstance(response, csi.NodeGetVolumeStatsResponse):
        return
    for number, usage in enumerate(response.usage):
        if usage.unit == csi.VolumeUsage.UNKNOWN:
            yield f"usage[{number}].unit is required"
        if min(usage.available, usage.total, usage.used) < 0:
            yield f"usage[{number}]: must not be negative"
