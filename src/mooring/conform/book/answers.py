"""CSI11x: an answer by itself, whatever came before it: required fields, sizes, signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.fields import missing, sizes
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.csi.proto import csi_pb2 as csi

REQUIRED = Rule(
    "CSI111",
    "a required field is not set",
    "A REQUIRED field MUST be set: volume_id, snapshot_id, source_volume_id, creation_time, node_id and their like.",
    "rpc-interface",
    "The sidecar takes the answer for a failure, and asks again for ever; what the driver made is lost to the cluster.",
    "Fill the field.",
)
SIZE = Rule(
    "CSI112",
    "a field is too long",
    "A text MUST NOT have more than 128 bytes (a node's id 256), a map not more than 4 KiB with all its "
    "keys and values.",
    "size-limits",
    "Kubernetes may refuse to store the id or the context: the volume is made, and no object names it.",
    "Give things short ids, and keep their details in your backend; look them up by the id.",
    "azuredisk's volume_ids are paths of some 170 bytes.",
)
SIGN = Rule(
    "CSI113",
    "a number can't be",
    "Sizes and counts MUST NOT be negative, and a figure of a volume's usage MUST have its unit.",
    "rpc-interface",
    "Kubernetes refuses the answer, or shows the figure as it is.",
    "Leave a figure out that you don't know.",
)
MEMBER = Rule(
    "CSI114",
    "a member does not name its group",
    "A snapshot of a group MUST have the group's id in group_snapshot_id.",
    "createvolumegroupsnapshot",
    "The snapshotter takes the member for a snapshot by itself: it can be deleted while the group needs it.",
    "Fill group_snapshot_id of each member.",
)

RULES: Final = (REQUIRED, SIZE, SIGN, MEMBER)

_REQUIRED: Final[Mapping[type[Message], tuple[str, ...]]] = {
    csi.CreateVolumeResponse: ("volume", "volume.volume_id"),
    csi.CreateSnapshotResponse: (
        "snapshot",
        "snapshot.snapshot_id",
        "snapshot.source_volume_id",
        "snapshot.creation_time",
    ),
    csi.GetSnapshotResponse: (
        "snapshot",
        "snapshot.snapshot_id",
        "snapshot.source_volume_id",
        "snapshot.creation_time",
    ),
    csi.CreateVolumeGroupSnapshotResponse: ("group_snapshot",),
    csi.GetVolumeGroupSnapshotResponse: ("group_snapshot",),
    csi.VolumeGroupSnapshot: ("group_snapshot_id", "snapshots", "creation_time"),
    csi.Snapshot: ("snapshot_id", "source_volume_id", "creation_time"),
    csi.NodeGetInfoResponse: ("node_id",),
    csi.ControllerGetVolumeResponse: ("volume", "volume.volume_id", "status"),
    csi.VolumeCondition: ("message",),
    csi.ValidateVolumeCapabilitiesResponse.Confirmed: ("volume_capabilities",),
}


def judge(exchange: Exchange, _past: Past) -> Iterator[Breach]:
    if exchange.ok:
        yield from (exchange.breaks(rule, found) for rule, found in faults(exchange.response))


def faults(response: Message) -> Iterator[tuple[Rule, str]]:
    """The rules that an answer breaks by itself, each with `field: problem`."""
    for found in _missing(response):
        yield REQUIRED, found
    for found in sizes(response):
        yield SIZE, found
    for found in _signs(response):
        yield SIGN, found
    for found in _strangers(response):
        yield MEMBER, found


def _missing(response: Message) -> Iterator[str]:
    yield from missing(response, _REQUIRED)
    if isinstance(response, csi.CreateVolumeGroupSnapshotResponse | csi.GetVolumeGroupSnapshotResponse):
        yield from (f"group_snapshot.{fault}" for fault in missing(response.group_snapshot, _REQUIRED))
        for number, member in enumerate(response.group_snapshot.snapshots):
            yield from (f"group_snapshot.snapshots[{number}].{fault}" for fault in missing(member, _REQUIRED))
    if isinstance(response, csi.ListVolumesResponse):
        nameless = (number for number, one in enumerate(response.entries) if not one.volume.volume_id)
        yield from (f"entries[{number}].volume.volume_id is required" for number in nameless)
    for path, part in _parts(response):
        yield from (f"{path}.{fault}" for fault in missing(part, _REQUIRED))
    if isinstance(response, csi.ListSnapshotsResponse):
        for number, one in enumerate(response.entries):
            yield from (f"entries[{number}].snapshot.{fault}" for fault in missing(one.snapshot, _REQUIRED))


def _parts(response: Message) -> Iterator[tuple[str, Message]]:
    """Messages that an answer need not have, and whose fields it needs where it has them. A volume that is well needs
    no words.
    """
    conditions: dict[str, csi.VolumeCondition] = {}
    if isinstance(response, csi.ListVolumesResponse):
        told = ((f"entries[{number}].status", one.status) for number, one in enumerate(response.entries))
        conditions = {f"{path}.volume_condition": status.volume_condition for path, status in told}
    elif isinstance(response, csi.ControllerGetVolumeResponse):
        conditions = {"status.volume_condition": response.status.volume_condition}
    elif isinstance(response, csi.NodeGetVolumeStatsResponse):
        conditions = {"volume_condition": response.volume_condition}
    yield from ((path, condition) for path, condition in conditions.items() if condition.abnormal)
    if isinstance(response, csi.ValidateVolumeCapabilitiesResponse) and response.HasField("confirmed"):
        yield "confirmed", response.confirmed


def _strangers(response: Message) -> Iterator[str]:
    if not isinstance(response, csi.CreateVolumeGroupSnapshotResponse | csi.GetVolumeGroupSnapshotResponse):
        return
    group = response.group_snapshot
    for number, member in enumerate(group.snapshots):
        if member.group_snapshot_id != group.group_snapshot_id:
            told = f"{member.group_snapshot_id!r} is not the group's, {group.group_snapshot_id!r}"
            yield f"group_snapshot.snapshots[{number}].group_snapshot_id: {told}"


_NUMBERS: Final[Mapping[type[Message], tuple[str, ...]]] = {
    csi.CreateVolumeResponse: ("volume.capacity_bytes",),
    csi.ControllerExpandVolumeResponse: ("capacity_bytes",),
    csi.CreateSnapshotResponse: ("snapshot.size_bytes",),
    csi.GetSnapshotResponse: ("snapshot.size_bytes",),
    csi.GetCapacityResponse: ("available_capacity", "maximum_volume_size.value", "minimum_volume_size.value"),
    csi.ControllerGetVolumeResponse: ("volume.capacity_bytes",),
    csi.NodeGetInfoResponse: ("max_volumes_per_node",),
    csi.NodeExpandVolumeResponse: ("capacity_bytes",),
}


def _signs(response: Message) -> Iterator[str]:
    for path in _NUMBERS.get(type(response), ()):
        value: Any = response
        for name in path.split("."):
            value = getattr(value, name)
        if value < 0:
            yield f"{path}: must not be negative"
    yield from _listed(response)
    if isinstance(response, csi.NodeGetVolumeStatsResponse):
        yield from _usage(response)


def _listed(response: Message) -> Iterator[str]:
    if isinstance(response, csi.ListVolumesResponse):
        sizes_of = {
            f"entries[{number}].volume.capacity_bytes": one.volume.capacity_bytes
            for number, one in enumerate(response.entries)
        }
    elif isinstance(response, csi.ListSnapshotsResponse):
        sizes_of = {
            f"entries[{number}].snapshot.size_bytes": one.snapshot.size_bytes
            for number, one in enumerate(response.entries)
        }
    elif isinstance(response, csi.CreateVolumeGroupSnapshotResponse | csi.GetVolumeGroupSnapshotResponse):
        members = response.group_snapshot.snapshots
        sizes_of = {
            f"group_snapshot.snapshots[{number}].size_bytes": one.size_bytes for number, one in enumerate(members)
        }
    else:
        return
    yield from (f"{path}: must not be negative" for path, size in sizes_of.items() if size < 0)


def _usage(response: csi.NodeGetVolumeStatsResponse) -> Iterator[str]:
    for number, usage in enumerate(response.usage):
        if usage.unit == csi.VolumeUsage.UNKNOWN:
            yield f"usage[{number}].unit is required"
        if min(usage.available, usage.total, usage.used) < 0:
            yield f"usage[{number}]: must not be negative"
