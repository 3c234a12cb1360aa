"""Compares the driver's answer to CreateVolume with the request."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.provisioner.claims.outcomes import Failure, State
from mooring.sidecars.provisioner.claims.requests import Order
from mooring.sidecars.provisioner.topology import Requirements, Term

SHOWN_MAX: Final = 10
"""Places of a request that an error names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unusable:
    """The volume does not match the request. volume_id: to be deleted, "" when the driver named none."""

    failure: Failure
    volume_id: str = ""


def judged(order: Order, answer: csi.CreateVolumeResponse) -> Unusable | None:
    """None when the volume can be used.

    Differs from external-provisioner, which crashes on an answer without a volume and saves one without a handle again and again.
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
    why = _content_wrong(order.request, volume) or _place_wrong(order.where, volume)
    return Unusable(_failure(why, State.BACKGROUND), volume.volume_id) if why else None


def _content_wrong(request: csi.CreateVolumeRequest, volume: csi.Volume) -> str:
    """The problem with the source of the volume's data, "" for none.

    Differs from external-provisioner, which does not check the source in the answer. A driver may spell a handle out more fully: the last
    part counts.
    """
    if not request.HasField("volume_content_source"):
        return ""
    if not volume.HasField("content_source"):
        return "volume content source missing"
    wanted, given = _source(request.volume_content_source), _source(volume.content_source)
    if (wanted[0], _last_part(wanted[1])) == (given[0], _last_part(given[1])):
        return ""
    return f'created volume was filled from {given[0]} "{given[1]}" instead of {wanted[0]} "{wanted[1]}"'


def _source(source: csi.VolumeContentSource) -> tuple[str, str]:
    match source.WhichOneof("type"):
        case "snapshot":
            return "snapshot", source.snapshot.snapshot_id
        case "volume":
            return "volume", source.volume.volume_id
    return "nothing", ""


def _last_part(handle: str) -> str:
    return handle.rstrip("/").rpartition("/")[2].lower()


def _place_wrong(where: Requirements | None, volume: csi.Volume) -> str:
    """The problem with the volume's topology, "" when it may be reached from one of the requested places, as CSI demands.

    A place that the driver tells under another of its keys than was asked for (aws-ebs and azuredisk do) can't be compared: it counts as
    right, as in external-provisioner. Differs from that in the rest: it stores a volume that no pod can ever use.
    """
    given = [dict(one.segments) for one in volume.accessible_topology if one.segments]
    if where is None or not given or any(_may_be_at(one, where) for one in given):
        return ""
    asked = f"{_shown(where.preferred[:SHOWN_MAX])}{' or elsewhere' * (len(where.places) > SHOWN_MAX)}"
    return f"created volume is where {_shown(given)}, it was asked for where {asked}"


def _may_be_at(given: Term, where: Requirements) -> bool:
    """True unless every requested place says something else under a key that both have."""
    return where.places.position(given) is not None or any(
        all(given.get(key, value) == value for key, value in asked.items()) for asked in where.requisite
    )


def _shown(places: Iterable[Mapping[str, str]]) -> str:
    return " or ".join(" and ".join(f'"{key}" = "{place[key]}"' for key in sorted(place)) for place in places)


def _failure(error: str, state: State) -> Failure:
    return Failure(error, state, from_driver=True)
