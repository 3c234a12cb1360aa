"""The host-path driver's judgement: what may be created, and what may be published where. Pure: requests and state in, refusals out.

Each rule returns quietly or raises the `DriverError` that the call answers with (the error tables of the CSI specification).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from mooring.csi.codes import Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.state import Publication, State, Volume

Mode = csi.VolumeCapability.AccessMode

_ONE_NODE: Final = frozenset(
    {Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_READER_ONLY, Mode.SINGLE_NODE_SINGLE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER}
)
_MANY_NODES: Final = frozenset({Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_SINGLE_WRITER, Mode.MULTI_NODE_MULTI_WRITER})


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """capacity_bytes: of all volumes together; attach_max: volumes on one node, 0 for no limit."""

    capacity_bytes: int = 1 << 40
    volume_bytes_max: int = 1 << 40
    volume_bytes_default: int = 1 << 30
    attach_max: int = 0


def unsupported(capabilities: Iterable[csi.VolumeCapability]) -> str:
    """Why the driver can't serve one of these capabilities, "" when it can serve all."""
    for capability in capabilities:
        if capability.HasField("block"):
            return "block volumes are not supported: this driver's volumes are folders"
        if capability.access_mode.mode not in _ONE_NODE | _MANY_NODES:
            return f"access mode {capability.access_mode.mode} is not known to this driver"
    return ""


def wanted_bytes(wanted: csi.CapacityRange, limits: Limits) -> int:
    """The size of a new volume. Raises OutOfRange when no size fits."""
    size = wanted.required_bytes or min(limits.volume_bytes_default, limits.volume_bytes_max, wanted.limit_bytes or limits.volume_bytes_max)
    if size > limits.volume_bytes_max:
        raise DriverError(Code.OUT_OF_RANGE, f"{size} bytes are more than the largest volume, {limits.volume_bytes_max} bytes")
    return size


def check_same(volume: Volume, request: csi.CreateVolumeRequest) -> None:
    """A volume of that name is there: is it what the request asks for? Raises AlreadyExists."""
    wanted = request.capacity_range
    if volume.capacity_bytes < wanted.required_bytes or 0 < wanted.limit_bytes < volume.capacity_bytes:
        what = f"volume {volume.name!r} exists with {volume.capacity_bytes} bytes, which is not in the range asked for"
        raise DriverError(Code.ALREADY_EXISTS, what)
    if dict(request.parameters) != volume.parameters:
        raise DriverError(Code.ALREADY_EXISTS, f"volume {volume.name!r} exists with other parameters")


def check_room(state: State, size: int, limits: Limits) -> None:
    """Raises ResourceExhausted when the volume does not fit beside the others."""
    left = available_bytes(state, limits)
    if size > left:
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"{size} bytes asked for, {left} of {limits.capacity_bytes} are left")


def available_bytes(state: State, limits: Limits) -> int:
    """What is left of the capacity; not negative, also when the limit was lowered below what is used."""
    return max(0, limits.capacity_bytes - state.used_bytes)


def check_published(there: Publication, request: csi.ControllerPublishVolumeRequest) -> None:
    """It is on that node already: in the way that the request asks for? Raises AlreadyExists."""
    if there.readonly != request.readonly or there.mode != request.volume_capability.access_mode.mode:
        how = f"readonly={there.readonly} and access mode {Mode.Mode.Name(Mode.Mode.ValueType(there.mode))}"
        raise DriverError(Code.ALREADY_EXISTS, f"volume {request.volume_id!r} is published on node {there.node_id!r} with {how}")


def check_may_publish(state: State, volume: Volume, request: csi.ControllerPublishVolumeRequest, limits: Limits) -> None:
    """May it be published on one node more? Raises FailedPrecondition for what is elsewhere, ResourceExhausted for a full node."""
    mode = request.volume_capability.access_mode.mode
    for other in volume.published:
        assert other.node_id != request.node_id, "asked after check_published"
        if mode in _ONE_NODE or other.mode in _ONE_NODE:
            raise DriverError(
                Code.FAILED_PRECONDITION, f"volume {volume.id!r} is published on node {other.node_id!r}, and may be on one node only"
            )
        if Mode.MULTI_NODE_SINGLE_WRITER in (mode, other.mode) and not (request.readonly or other.readonly):
            raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume.id!r} has its one writer on node {other.node_id!r}")
    if limits.attach_max and state.published_count(request.node_id) >= limits.attach_max:
        raise DriverError(Code.RESOURCE_EXHAUSTED, f"node {request.node_id!r} has {limits.attach_max} volumes already, and takes no more")
