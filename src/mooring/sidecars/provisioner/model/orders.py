"""An order for a volume: CreateVolume's request, field by field as external-provisioner fills it, and whether an answer
fulfils it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from google.protobuf import json_format

from mooring.api.core import PersistentVolumeClaim
from mooring.base.errors import MooringError
from mooring.base.json_text import from_json
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.model.cached import Source
from mooring.sidecars.provisioner.model.intent import Intent, OwnVolume
from mooring.sidecars.provisioner.model.outcomes import Failure, State
from mooring.sidecars.provisioner.model.topology import Places, Requirements, Term

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
    """One capability for each access mode of the claim, in its order. Raises RequestError."""
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


def content_source(source: Source, handle: str) -> csi.VolumeContentSource:
    """handle: the driver's name for the snapshot or the volume."""
    if source.is_snapshot:
        return csi.VolumeContentSource(snapshot=csi.VolumeContentSource.SnapshotSource(snapshot_id=handle))
    return csi.VolumeContentSource(volume=csi.VolumeContentSource.VolumeSource(volume_id=handle))


class Order(msgspec.Struct, frozen=True):
    """A volume to be created: the intent, and its request without the secret's values and without places."""

    intent: Intent
    request: csi.CreateVolumeRequest
    #: The places, None where the driver is told of none.
    where: Requirements | None = None
    #: The source of the volume's data, to be held.
    source: Source | None = None
    #: What the claim and the class say; None for an order that repeats a former request: its failure says nothing
    #: about the present one.
    fingerprint: object = None
    #: The driver is called without it, since it seems to be gone for good.
    secret_is_lost: bool = False
    #: `ClaimIntents.own` where the claim is gone; nobody has taken a volume out of one that is there.
    own: OwnVolume = OwnVolume.NONE

    @property
    def is_former(self) -> bool:
        return self.fingerprint is None

    @property
    def is_retained(self) -> bool:
        """True when somebody may have kept the volume on purpose: a driver with unique names answers with that one."""
        return self.own in (OwnVolume.UNSEEN, OwnVolume.STORED)

    @property
    def required_bytes(self) -> int:
        return self.request.capacity_range.required_bytes

    def whole(self, secrets: Mapping[str, str]) -> csi.CreateVolumeRequest:
        """The message for the driver. Costs a millisecond for every five thousand places."""
        found = csi.CreateVolumeRequest()
        found.CopyFrom(self.request)
        found.secrets.update(secrets)
        if self.where is not None:
            found.accessibility_requirements.MergeFromString(self.where.places.encoded(self.where.start))
        return found


PLACES_STORED_MAX: Final = 16
"""An intent with more places names the preferred one alone: the others are worked out again from class and nodes
where it is needed.
"""


def is_stored_whole(where: Requirements | None) -> bool:
    return where is None or len(where.places) <= PLACES_STORED_MAX


def request_text(request: csi.CreateVolumeRequest, where: Requirements | None = None) -> str:
    """The text that an intent holds, the same in every process: protobuf orders map keys differently in each. The
    request has no secrets.
    """
    assert not request.secrets
    stored = csi.CreateVolumeRequest()
    stored.CopyFrom(request)
    if where is not None:
        kept = where if is_stored_whole(where) else Requirements(Places((where.first,)))
        stored.accessibility_requirements.CopyFrom(kept.message())
    return json_format.MessageToJson(stored, indent=None, preserving_proto_field_name=True, sort_keys=True)


def stored_request(intent: Intent) -> tuple[csi.CreateVolumeRequest, Requirements | None]:
    """The request without places, and the places that are stored with it. Raises RequestError."""
    request = _parsed(intent.request)
    if not request.HasField("accessibility_requirements"):
        return request, None
    asked = request.accessibility_requirements
    places = Places(dict(one.segments) for one in asked.requisite)
    start = places.position(dict(asked.preferred[0].segments)) if asked.preferred else None
    request.ClearField("accessibility_requirements")
    return request, Requirements(places, start or 0) if places else None


def _parsed(text: str) -> csi.CreateVolumeRequest:
    """Raises RequestError."""
    try:
        return json_format.ParseDict(from_json(text), csi.CreateVolumeRequest())
    except (json_format.ParseError, ValueError) as error:
        raise RequestError(f"the request that an earlier provisioner wrote down can't be read: {error}") from error


SHOWN_MAX: Final = 10
"""Places of a request that an error names."""


class Unusable(msgspec.Struct, frozen=True):
    """The volume does not match the request."""

    failure: Failure
    #: The id of the volume, "" when the driver gave none.
    volume_id: str = ""


def judged(order: Order, answer: csi.CreateVolumeResponse) -> Unusable | None:
    """Why the volume can't be used, None when it can. Its content source and places are taken as the driver words them.

    Differs from external-provisioner, which crashes on an answer without a volume and saves one without a handle again
    and again.
    """
    volume = answer.volume
    if not answer.HasField("volume"):
        return Unusable(_failure("the CSI driver's answer to CreateVolume has no volume", State.FINISHED))
    if not volume.volume_id:  # there may be one, that nobody can name
        return Unusable(_failure("the CSI driver's answer to CreateVolume has no volume_id", State.BACKGROUND))
    required = order.required_bytes
    if 0 < volume.capacity_bytes < required:
        why = f"created volume capacity {volume.capacity_bytes} less than requested capacity {required}"
        return Unusable(_failure(why, State.BACKGROUND), volume.volume_id)
    if order.request.HasField("volume_content_source") and not volume.HasField("content_source"):
        return Unusable(_failure("volume content source missing", State.BACKGROUND), volume.volume_id)
    return None


def placed_elsewhere(where: Requirements | None, volume: csi.Volume) -> str:
    """A warning about a volume that lies outside of the requested places, where its pod may not reach it; "" for none.

    A place under another of the driver's keys than was asked for (aws-ebs and azuredisk answer such) can't be compared.
    """
    given = [dict(one.segments) for one in volume.accessible_topology if one.segments]
    if where is None or not given or any(_may_be_at(one, where) for one in given):
        return ""
    asked = f"{_shown(where.preferred[:SHOWN_MAX])}{' or elsewhere' * (len(where.places) > SHOWN_MAX)}"
    return f"the created volume is where {_shown(given)}, it was asked for where {asked}"


def _may_be_at(given: Term, where: Requirements) -> bool:
    """True unless every requested place says something else under a key that both have."""
    return where.places.position(given) is not None or any(
        all(given.get(key, value) == value for key, value in asked.items()) for asked in where.requisite
    )


def _shown(places: Iterable[Mapping[str, str]]) -> str:
    return " or ".join(" and ".join(f'"{key}" = "{place[key]}"' for key in sorted(place)) for place in places)


def _failure(error: str, state: State) -> Failure:
    return Failure(error, state)
