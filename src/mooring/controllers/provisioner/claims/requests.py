"""CreateVolume's request, field by field as external-provisioner fills it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from google.protobuf import json_format

from mooring.api.core import PersistentVolumeClaim
from mooring.base.errors import MooringError
from mooring.controllers.provisioner.claims.claim import Source
from mooring.controllers.provisioner.intents.intent import Intent
from mooring.controllers.provisioner.topology import Requirements, Term
from mooring.csi.proto import csi_pb2 as csi

_Mode = csi.VolumeCapability.AccessMode

_MODES: Final[Mapping[str, tuple[int, int]]] = {
    "ReadWriteOnce": (_Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_MULTI_WRITER),
    "ReadWriteOncePod": (_Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_SINGLE_WRITER),
    "ReadOnlyMany": (_Mode.MULTI_NODE_READER_ONLY, _Mode.MULTI_NODE_READER_ONLY),
    "ReadWriteMany": (_Mode.MULTI_NODE_MULTI_WRITER, _Mode.MULTI_NODE_MULTI_WRITER),
}
"""Claim's mode → CSI's, for drivers that don't tell one writer from several on a node, and for those that do."""


class RequestError(MooringError):
    """The claim can't be expressed as a request."""


def capabilities(
    claim: PersistentVolumeClaim, fs_type: str, mount_flags: tuple[str, ...] | None, single_node_multi_writer: bool
) -> list[csi.VolumeCapability]:
    """One for each access mode of the claim, in its order. Raises RequestError."""
    found = []
    for mode in claim.spec.access_modes or ():
        if mode not in _MODES:
            raise RequestError(f"unsupported AccessMode combination: [{mode}]")
        number = _MODES[mode][1 if single_node_multi_writer else 0]
        access = _Mode(mode=number)  # type: ignore[arg-type]
        if claim.spec.volume_mode == "Block":
            found.append(csi.VolumeCapability(access_mode=access, block=csi.VolumeCapability.BlockVolume()))
        else:
            mount = csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=mount_flags or ())
            found.append(csi.VolumeCapability(access_mode=access, mount=mount))
    return found


def is_read_only(wanted: list[csi.VolumeCapability]) -> bool:
    """True for readers on many nodes and nothing else."""
    return [one.access_mode.mode for one in wanted] == [_Mode.MULTI_NODE_READER_ONLY]


def requirement(places: Requirements | None) -> csi.TopologyRequirement | None:
    if places is None:
        return None
    return csi.TopologyRequirement(requisite=_topologies(places.requisite), preferred=_topologies(places.preferred))


def _topologies(terms: tuple[Term, ...]) -> list[csi.Topology]:
    return [csi.Topology(segments=term) for term in terms]


def content_source(source: Source, handle: str) -> csi.VolumeContentSource:
    """handle: the driver's name for the snapshot or the volume."""
    if source.is_snapshot:
        return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=handle))
    return csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=handle))


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """A volume to be created: the intent, and its request without the secret's values. source: of its data, to be held.

    fingerprint: of the claim and the class; None for an order that repeats a former request, whose failure says nothing about the present
    one. secret_is_lost: the driver is called without it, since it seems to be gone for good.
    """

    intent: Intent
    request: csi.CreateVolumeRequest
    source: Source | None = None
    fingerprint: object = None
    secret_is_lost: bool = False

    @property
    def is_former(self) -> bool:
        return self.fingerprint is None

    @property
    def is_retained(self) -> bool:
        """Its claim is gone, and somebody may have kept the volume on purpose."""
        return self.intent.unattended

    @property
    def required_bytes(self) -> int:
        return self.request.capacity_range.required_bytes

    def with_secrets(self, secrets: Mapping[str, str]) -> csi.CreateVolumeRequest:
        if not secrets:
            return self.request
        whole = csi.CreateVolumeRequest()
        whole.CopyFrom(self.request)
        whole.secrets.update(secrets)
        return whole


def ordered_again(intent: Intent) -> Order:
    """The order of an open intent."""
    return Order(intent, _parsed(intent.request), intent.source)


def request_text(request: csi.CreateVolumeRequest) -> str:
    """As an intent holds it, the same in every process: protobuf orders map keys differently in each. The request has no secrets."""
    assert not request.secrets
    return json_format.MessageToJson(request, indent=None, preserving_proto_field_name=True, sort_keys=True)


def is_same_request(one: str, other: str) -> bool:
    """Both as intents hold them; earlier versions wrote the keys of maps in any order."""
    return one == other or _parsed(one) == _parsed(other)


def is_same_call(one: Intent, other: Intent) -> bool:
    """The same request with the same secret: in another account there would be another volume."""
    return one.secret == other.secret and is_same_request(one.request, other.request)


def _parsed(text: str) -> csi.CreateVolumeRequest:
    return json_format.Parse(text, csi.CreateVolumeRequest())
