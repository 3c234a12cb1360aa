"""The driver's checks of new volumes. Pure. Each returns or raises the call's `DriverError` (error tables of the CSI
specification).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from mooring.base.flagkinds import read_bool
from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.layout import NodeTopology, StorageLimits, chosen, left_bytes
from mooring.driver.hostpath.publishing import unknown_mode
from mooring.driver.hostpath.state import Snapshot, State, Volume
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

SECTOR_BYTES: Final = 512
KIND: Final = "kind"
OF_THE_CLUSTER: Final = "csi.storage.k8s.io/"
"""The prefix of the parameters that provisioners and snapshotters add to those of a class."""
_OF_PROVISIONERS: Final = re.compile("csi(Provisioner|ControllerPublish|NodeStage|NodePublish)Secret(Name|Namespace)")
"""Parameters by which a class names secrets in the old spelling: provisioners read them, and pass them on."""


def check_capabilities(capabilities: Iterable[csi.VolumeCapability]) -> None:
    """Raises InvalidArgument for capabilities that no volume of this driver can have together."""
    capabilities = list(capabilities)
    for capability in capabilities:
        if reason := unknown_mode(capability):
            raise DriverError(Code.INVALID_ARGUMENT, reason)
    if len({capability.HasField("block") for capability in capabilities}) > 1:
        raise DriverError(
            Code.INVALID_ARGUMENT, "volume_capabilities: a volume is either block or mount: ask for one of both"
        )


def check_parameters(parameters: Mapping[str, str], limits: StorageLimits) -> None:
    """Raises InvalidArgument for a kind of storage that there is not."""
    kind = parameters.get(KIND)
    if kind is not None and not limits.kinds:
        raise DriverError(
            Code.INVALID_ARGUMENT,
            f"parameters: this driver has one kind of storage: leave {KIND!r} out, or start it with "
            "--capacity=KIND=SIZE",
        )
    if kind is not None and kind not in limits.kinds:
        there = ", ".join(sorted(limits.kinds))
        raise DriverError(Code.INVALID_ARGUMENT, f"parameters: there is no {KIND} {kind!r}: take one of {there}")


def tell_ignored(parameters: Mapping[str, str], known: str, name: str) -> None:
    """Logs the parameters of a class that this driver does not know: it ignores them, as csi-driver-host-path does.
    name: what is made.
    """
    for key in sorted(parameters):
        if key != known and not key.startswith(OF_THE_CLUSTER) and not _OF_PROVISIONERS.fullmatch(key):
            _log.warning("A parameter of the class is not known, and ignored", parameter=key, known=known, name=name)


IGNORE_FAILED_READ: Final = "ignoreFailedRead"
"""For snapshots, as csi-driver-host-path has it: true or false. No read fails here that could be ignored."""


def check_snapshot_parameters(parameters: Mapping[str, str]) -> None:
    """Raises InvalidArgument for a parameter of snapshots that can't be read."""
    try:
        read_bool(parameters.get(IGNORE_FAILED_READ, "false"))
    except ValueError:
        raise DriverError(Code.INVALID_ARGUMENT, f"parameters: {IGNORE_FAILED_READ!r} must be true or false") from None


def check_mutable(parameters: Mapping[str, str], accepted: Collection[str]) -> None:
    """Raises InvalidArgument for mutable parameters that are not accepted; nothing is accepted by name, everything
    is.
    """
    unknown = sorted(key for key in parameters if accepted and key not in accepted)
    if unknown:
        names = ", ".join(sorted(accepted))
        raise DriverError(
            Code.INVALID_ARGUMENT,
            f"invalid parameters: [{' '.join(unknown)}]: this driver's mutable parameters are {names}",
        )


def source_of(request: csi.CreateVolumeRequest) -> str:
    """The id of the volume or snapshot that the new volume's data comes from, or ""."""
    source = request.volume_content_source
    return source.snapshot.snapshot_id or source.volume.volume_id


def found_source(state: State, request: csi.CreateVolumeRequest, now_ns: int) -> Volume | Snapshot | None:
    """The source of a new volume, usable. Raises NotFound, FailedPrecondition, InvalidArgument."""
    if not request.HasField("volume_content_source"):
        return None
    wants_snapshot = request.volume_content_source.HasField("snapshot")
    source_id = source_of(request)
    source = state.snapshots.get(source_id) if wants_snapshot else state.volumes.get(source_id)
    what = "snapshot" if wants_snapshot else "volume"
    if source is None:
        raise DriverError(Code.NOT_FOUND, f"volume_content_source: there is no {what} {source_id!r}")
    if source.is_filling or (isinstance(source, Snapshot) and source.ready_ns > now_ns):
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume_content_source: {what} {source_id!r} is not ready yet: try again later"
        )
    if source.is_block is not wants_block(request):
        kind = "block" if source.is_block else "mount"
        raise DriverError(
            Code.INVALID_ARGUMENT, f"volume_content_source: {what} {source_id!r} is of type {kind}: ask for that one"
        )
    return source


def wants_block(request: csi.CreateVolumeRequest) -> bool:
    return request.volume_capabilities[0].HasField("block")


def wanted_bytes(
    wanted: csi.CapacityRange, limits: StorageLimits, source_bytes: int = 0, *, is_file: bool = False
) -> int:
    """The size of a new volume, that of its source or more. Raises OutOfRange when no size fits, InvalidArgument for a
    source too large.
    """
    size = wanted.required_bytes or min(
        limits.volume_bytes_default, limits.volume_bytes_max, wanted.limit_bytes or limits.volume_bytes_max
    )
    if source_bytes > (wanted.required_bytes or wanted.limit_bytes or source_bytes):
        what = (
            f"capacity_range: {wanted.required_bytes or wanted.limit_bytes} bytes are less than the {source_bytes} "
            "of the source"
        )
        raise DriverError(Code.INVALID_ARGUMENT, f"{what}: ask for as many")
    size = max(size, source_bytes)
    if is_file:
        size = -(-size // SECTOR_BYTES) * SECTOR_BYTES
    if size > limits.volume_bytes_max:
        what = f"{size} bytes are more than the largest volume, {limits.volume_bytes_max} bytes: ask for less"
        raise DriverError(Code.OUT_OF_RANGE, f"capacity_range: {what}")
    if 0 < wanted.limit_bytes < size:
        what = f"block volumes are of whole sectors of {SECTOR_BYTES} bytes, the next size is {size}"
        raise DriverError(Code.OUT_OF_RANGE, f"capacity_range: limit_bytes is {wanted.limit_bytes}, and {what}")
    return size


def planned(
    state: State,
    request: csi.CreateVolumeRequest,
    layout: NodeTopology,
    limits: StorageLimits,
    volume_id: str,
    now_ns: int,
    *,
    images: bool = False,
) -> Volume:
    """The record of the new volume that a request asks for, to be filled if it has a source. images: not folders.
    Raises DriverError.
    """
    check_parameters(request.parameters, limits)
    source = found_source(state, request, now_ns)
    is_block = wants_block(request)
    is_image = not is_block and (images if source is None else source.is_image)
    source_bytes = 0 if source is None else source.size_bytes
    size = wanted_bytes(request.capacity_range, limits, source_bytes, is_file=is_block or is_image)
    place, kind = chosen(state, limits, layout, request, size)
    return Volume(
        volume_id,
        request.name,
        size,
        dict(request.parameters),
        is_block=is_block,
        kind=kind,
        segments=dict(place),
        mutable_parameters=dict(request.mutable_parameters),
        source_id=source_of(request),
        is_filling=source is not None,
        is_image=is_image,
    )


def check_same(volume: Volume, request: csi.CreateVolumeRequest) -> None:
    """Raises AlreadyExists unless the existing volume fits the request. Mutable parameters may differ: they can be
    changed later, too.
    """
    wanted = request.capacity_range
    if volume.capacity_bytes < wanted.required_bytes or 0 < wanted.limit_bytes < volume.capacity_bytes:
        raise _exists(volume, f"{volume.capacity_bytes} bytes, which is not in the range asked for")
    if dict(request.parameters) != volume.parameters:
        raise _exists(volume, "other parameters")
    if volume.is_block is not wants_block(request):
        raise _exists(volume, f"the type {'block' if volume.is_block else 'mount'}")
    if volume.source_id != source_of(request):
        raise _exists(volume, f"the content of {volume.source_id!r}" if volume.source_id else "no content source")
    requisite = request.accessibility_requirements.requisite
    if (
        volume.segments
        and requisite
        and not any(volume.segments.items() >= term.segments.items() for term in requisite)
    ):
        raise _exists(volume, "another topology")


def _exists(volume: Volume, how: str) -> DriverError:
    return DriverError(
        Code.ALREADY_EXISTS, f"volume {volume.name!r} exists with {how}: take another name, or delete it first"
    )


def grown_bytes(state: State, volume: Volume, wanted: csi.CapacityRange, limits: StorageLimits) -> int:
    """The size that a volume is to have: as much as it has, or more. Raises OutOfRange, ResourceExhausted."""
    if 0 < wanted.limit_bytes < volume.capacity_bytes:
        what = f"volume {volume.id!r} has {volume.capacity_bytes} bytes, and volumes don't shrink"
        raise DriverError(Code.OUT_OF_RANGE, f"capacity_range: limit_bytes is {wanted.limit_bytes}, but {what}")
    if wanted.required_bytes <= volume.capacity_bytes:
        return volume.capacity_bytes
    size = wanted_bytes(wanted, limits, is_file=volume.is_file)
    left = left_bytes(state, limits, volume.segments, volume.kind)
    if size - volume.capacity_bytes > left:
        what = f"{size - volume.capacity_bytes} bytes more asked for, {left} are left: delete volumes, or ask for less"
        raise DriverError(Code.RESOURCE_EXHAUSTED, what)
    return size
