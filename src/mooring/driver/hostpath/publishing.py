"""The driver's checks of publishing. Pure. Each returns or raises the call's `DriverError` (error tables of the CSI
specification).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.volume_capability import SINGLE_NODE_MODES
from mooring.driver.hostpath.layout import NodeTopology, StorageLimits, shown
from mooring.driver.hostpath.options import HostpathOptions
from mooring.driver.hostpath.state import Publication, State, Volume
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

Mode = csi.VolumeCapability.AccessMode

_MANY_NODES: Final = frozenset(
    {Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_SINGLE_WRITER, Mode.MULTI_NODE_MULTI_WRITER}
)


def unknown_mode(capability: csi.VolumeCapability) -> str:
    """The problem with a capability's access mode, "" for none."""
    if capability.access_mode.mode in SINGLE_NODE_MODES | _MANY_NODES:
        return ""
    return f"access mode {capability.access_mode.mode} is not known to this driver: ask for one of CSI 1.12"


def unsupported(volume: Volume, capabilities: Iterable[csi.VolumeCapability]) -> str:
    """The problem of the volume with one of these capabilities, "" for none."""
    for capability in capabilities:
        if capability.HasField("block") is not volume.is_block:
            return f"volume {volume.id!r} is of type {'block' if volume.is_block else 'mount'}: ask for that one"
        if reason := unknown_mode(capability):
            return reason
    return ""


def check_published(there: Publication, request: csi.ControllerPublishVolumeRequest) -> None:
    """It is on that node already: in the way that the request asks for? Raises AlreadyExists."""
    if there.readonly != request.readonly or there.mode != request.volume_capability.access_mode.mode:
        how = f"readonly={there.readonly} and access mode {Mode.Mode.Name(Mode.Mode.ValueType(there.mode))}"
        raise DriverError(
            Code.ALREADY_EXISTS, f"volume {request.volume_id!r} is published on node {there.node_id!r} with {how}"
        )


def check_reach(volume: Volume, node_id: str, layout: NodeTopology) -> None:
    """Can it be reached from the node at all? Raises FailedPrecondition."""
    if not layout.reaches(volume, node_id):
        what = (
            f"volume {volume.id!r} is in {shown(volume.segments)}, and node {node_id!r} in "
            f"{shown(layout.nodes[node_id])}"
        )
        raise DriverError(Code.FAILED_PRECONDITION, f"{what}: publish it on a node that it can be reached from")


def check_unused(volume: Volume, options: HostpathOptions) -> None:
    """May it be deleted? Raises FailedPrecondition, or Internal where the life cycle is checked, as
    csi-driver-host-path does.

    A node that the volume was taken from by force counts only where the life cycle is checked: nobody waits for a dead
    node.
    """
    published = [one.node_id for one in volume.published]
    used = [
        use.node_id for use in volume.uses if options.check_lifecycle or not options.attach or use.node_id in published
    ]
    if nodes := sorted({*published, *used}):
        code = Code.INTERNAL if options.check_lifecycle else Code.FAILED_PRECONDITION
        where = ", ".join(map(repr, nodes))
        raise DriverError(
            code, f"volume {volume.id!r} is still used: published or staged on {where}: unpublish it first"
        )


def check_left_node(volume: Volume, node_id: str, options: HostpathOptions) -> None:
    """May it be taken from the node, or from all for ""? Raises Internal where the life cycle is checked, and the node
    still has it.
    """
    used = [use.node_id for use in volume.uses if node_id in ("", use.node_id)]
    if used and options.check_lifecycle:
        where = ", ".join(map(repr, used))
        raise DriverError(
            Code.INTERNAL, f"volume {volume.id!r} is still used: staged or published on {where}: unstage it there first"
        )
    if used:
        _log.warning("A volume is detached while the node still has it", volume_id=volume.id, node_id=node_id or "all")


def check_may_publish(
    state: State, volume: Volume, request: csi.ControllerPublishVolumeRequest, limits: StorageLimits
) -> None:
    """May it be published on one node more? Raises FailedPrecondition for what is elsewhere, ResourceExhausted for a
    full node.
    """
    mode = request.volume_capability.access_mode.mode
    for other in volume.published:
        assert other.node_id != request.node_id, "asked after check_published"
        if mode in SINGLE_NODE_MODES or other.mode in SINGLE_NODE_MODES:
            raise DriverError(
                Code.FAILED_PRECONDITION,
                f"volume {volume.id!r} is published on node {other.node_id!r}, and may be on one node only",
            )
        if Mode.MULTI_NODE_SINGLE_WRITER in (mode, other.mode) and not (request.readonly or other.readonly):
            raise DriverError(
                Code.FAILED_PRECONDITION, f"volume {volume.id!r} has its one writer on node {other.node_id!r}"
            )
    if limits.attach_max and state.published_count(request.node_id) >= limits.attach_max:
        raise DriverError(
            Code.RESOURCE_EXHAUSTED,
            f"node {request.node_id!r} has {limits.attach_max} volumes already, and takes no more",
        )
