"""The driver's checks of a node's calls. Pure. Each returns or raises the call's `DriverError`."""

from __future__ import annotations

from typing import Final

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.publishing import Mode, unsupported
from mooring.driver.hostpath.state import Use, Volume
from mooring.wire.grpc.codes import Code

EPHEMERAL: Final = "csi.storage.k8s.io/ephemeral"
"""In volume_context: the volume is the pod's own, made when it is published and deleted afterwards."""

_READERS: Final = frozenset({Mode.SINGLE_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY})


def is_inline(request: csi.NodePublishVolumeRequest) -> bool:
    return request.volume_context.get(EPHEMERAL) == "true"


def is_readonly(volume: Volume, node_id: str, capability: csi.VolumeCapability, *, wanted: bool = False) -> bool:
    """Whether nobody may write: asked for, or all that the access mode or the attachment allows."""
    publication = volume.on(node_id)
    return wanted or capability.access_mode.mode in _READERS or (publication is not None and publication.readonly)


def check_fits(volume: Volume, capability: csi.VolumeCapability) -> None:
    if reason := unsupported(volume, [capability]):
        raise DriverError(Code.INVALID_ARGUMENT, f"volume_capability: {reason}")


def check_may_stage(volume: Volume, node_id: str, staging_path: str, options: HostpathOptions) -> None:
    """Raises Internal for a volume that is not attached, FailedPrecondition for one that is staged elsewhere."""
    if options.attach and volume.on(node_id) is None:
        raise DriverError(
            Code.INTERNAL,
            f"volume {volume.id!r} is not attached to node {node_id!r}: call ControllerPublishVolume first",
        )
    use = volume.use_on(node_id)
    if use is not None and use.staging_path not in ("", staging_path):
        raise DriverError(
            Code.FAILED_PRECONDITION,
            f"volume {volume.id!r} is staged at {use.staging_path!r} already: unstage it there first",
        )


def check_may_unstage(volume: Volume, use: Use) -> None:
    if use.targets:
        paths = ", ".join(repr(target.path) for target in use.targets)
        raise DriverError(Code.INTERNAL, f"volume {volume.id!r} is still published at {paths}: unpublish it first")


def check_single_writer(volume: Volume, use: Use | None, target_path: str, mode: int) -> None:
    """Raises FailedPrecondition where the volume's one writer is at another path of this node."""
    for target in use.targets if use is not None else ():
        if target.path != target_path and Mode.SINGLE_NODE_SINGLE_WRITER in (mode, target.mode):
            what = f"volume {volume.id!r} is published at {target.path!r}"
            raise DriverError(
                Code.FAILED_PRECONDITION,
                f"{what}, and SINGLE_NODE_SINGLE_WRITER allows one path: unpublish it there first",
            )


def check_staged(volume: Volume, use: Use | None, staging_path: str) -> None:
    """Raises FailedPrecondition for a volume that was never staged, InvalidArgument for another path than where it
    is.
    """
    if use is None or not use.staging_path:
        raise DriverError(
            Code.FAILED_PRECONDITION, f"volume {volume.id!r} is not staged on this node: call NodeStageVolume first"
        )
    if use.staging_path != staging_path:
        raise DriverError(
            Code.INVALID_ARGUMENT,
            f"staging_target_path: volume {volume.id!r} is staged at {use.staging_path!r}, not at {staging_path!r}",
        )


def check_same_target(volume: Volume, use: Use | None, target_path: str, *, readonly: bool) -> None:
    """Raises AlreadyExists for a target that shows the volume in another way."""
    target = use.at(target_path) if use is not None else None
    if target is not None and target.readonly != readonly:
        raise DriverError(
            Code.ALREADY_EXISTS, f"volume {volume.id!r} is at {target_path!r} with readonly={target.readonly}"
        )


def group_of(capability: csi.VolumeCapability, options: HostpathOptions) -> int | None:
    """The group that a volume is to be given to, None for no other than it has. Raises InvalidArgument."""
    group = capability.mount.volume_mount_group if options.mount_group else ""
    if group and not (group.isascii() and group.isdecimal() and int(group) < 2**32):
        raise DriverError(Code.INVALID_ARGUMENT, f"volume_mount_group: {group!r} is no number of a group")
    return int(group) if group else None


def check_growth(volume: Volume, wanted: csi.CapacityRange, options: HostpathOptions) -> None:
    """Raises OutOfRange for more than a node takes."""
    if 0 < options.node_volume_bytes_max < wanted.required_bytes:
        what = (
            f"{wanted.required_bytes} bytes are more than the {options.node_volume_bytes_max} that a volume on a "
            "node may have"
        )
        raise DriverError(Code.OUT_OF_RANGE, f"capacity_range: {what}")
