"""CSI12x: requests that a driver must refuse, and some that it must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf.message import Message

from mooring.conform.book.exchange import Exchange
from mooring.conform.book.fields import missing
from mooring.conform.book.past import Past
from mooring.conform.book.rule import Breach, Rule
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code

INCOMPLETE = Rule(
    "CSI121",
    "a request without a required field is not refused",
    "A request that lacks a REQUIRED field MUST be refused with InvalidArgument.",
    "error-scheme",
    "Kubernetes fills these fields; a fault in a manifest or a tool makes a volume that nobody can name, or "
    "deletes one that nobody meant.",
    "Look at each required field first, and answer InvalidArgument with the field's name.",
)
UNKNOWN = Rule(
    "CSI122",
    "what does not exist is not told by NotFound",
    "A call about a volume, snapshot, group or node that the driver does not know MUST be answered with NotFound.",
    "error-scheme",
    "Another code is tried again for ever; OK stands for a volume, a copy or an attachment that is not there.",
    "Look the id up first, and answer NotFound where there is nothing.",
)
FULL_NAME = Rule(
    "CSI123",
    "a name of full length is refused",
    "Names of 128 bytes MUST be taken; names that differ in the last one are two names.",
    "size-limits",
    "Names with a long prefix (--volume-name-prefix) make claims that stay Pending.",
    "Derive your backend's name from a hash of the whole name where it takes fewer bytes.",
)

RULES: Final = (INCOMPLETE,)
ASKED: Final = (UNKNOWN, FULL_NAME)

REQUIRED: Final[Mapping[type[Message], tuple[str, ...]]] = {
    csi.CreateVolumeRequest: ("name", "volume_capabilities"),
    csi.DeleteVolumeRequest: ("volume_id",),
    csi.ControllerPublishVolumeRequest: ("volume_id", "node_id", "volume_capability"),
    csi.ControllerUnpublishVolumeRequest: ("volume_id",),
    csi.ValidateVolumeCapabilitiesRequest: ("volume_id", "volume_capabilities"),
    csi.ControllerGetVolumeRequest: ("volume_id",),
    csi.ControllerModifyVolumeRequest: ("volume_id", "mutable_parameters"),
    csi.ControllerExpandVolumeRequest: ("volume_id", "capacity_range"),
    csi.CreateSnapshotRequest: ("name", "source_volume_id"),
    csi.DeleteSnapshotRequest: ("snapshot_id",),
    csi.GetSnapshotRequest: ("snapshot_id",),
    csi.CreateVolumeGroupSnapshotRequest: ("name", "source_volume_ids"),
    csi.DeleteVolumeGroupSnapshotRequest: ("group_snapshot_id",),
    csi.GetVolumeGroupSnapshotRequest: ("group_snapshot_id",),
    csi.NodeStageVolumeRequest: ("volume_id", "staging_target_path", "volume_capability"),
    csi.NodeUnstageVolumeRequest: ("volume_id", "staging_target_path"),
    csi.NodePublishVolumeRequest: ("volume_id", "target_path", "volume_capability"),
    csi.NodeUnpublishVolumeRequest: ("volume_id", "target_path"),
    csi.NodeGetVolumeStatsRequest: ("volume_id", "volume_path"),
    csi.NodeExpandVolumeRequest: ("volume_id", "volume_path"),
}
"""snapshot_ids of groups are not among them, though CSI says REQUIRED: csi-sanity leaves them out and wants the
driver's own answer.
"""


def lacking(request: Message) -> str:
    """The first required field that a request lacks, as `name is required`; "" for none."""
    return next(missing(request, REQUIRED), "")


def judge(exchange: Exchange, _past: Past) -> Iterator[Breach]:
    """A call that the driver does not have, or that found nobody, is no answer about its request."""
    fault = lacking(exchange.request)
    if not fault or exchange.code in (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED):
        return
    if exchange.ok or exchange.refused:
        yield exchange.breaks(INCOMPLETE, f"{fault}, and the driver answers {exchange.error or 'OK'}")
