"""The CSI driver as a port: one line per unary RPC of CSI 1.12, and one method, `invoke`, through which all calls go.

`await driver.create_volume(request, call)`: an RPC's attribute is its name in snake case. The real implementation
speaks gRPC over a unix socket (`csi/wire_driver.py`), the one in process calls a Python driver object
(`csi/in_process.py`). Every call raises `DriverError` and nothing else; a call past its deadline raises
DeadlineExceeded, and *may have happened*. The two server streams of the alpha service SnapshotMetadata have no caller
in this project and are left out.

A line binds an RPC to its messages; its path and service are read from the descriptors, and a line with the wrong
messages does not load. Rejected: thirty methods by hand (three lines each, all alike), the same generated (a second
thing to regenerate), `__getattr__` (mypy sees nothing).
"""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Coroutine, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar, overload

from google.protobuf.message import Message

from mooring.base import clock
from mooring.csi.proto import csi_pb2 as csi

time_left_s = clock.time_left_s
"""`clock.time_left_s`, for authors of drivers, who import it from here."""

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
Q_contra = TypeVar("Q_contra", bound=Message, contravariant=True)
A_co = TypeVar("A_co", bound=Message, covariant=True)

PORT_SERVICES: Final = ("Identity", "Controller", "GroupController", "Node")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


_METHODS: Final = {
    _snake(method.name): method
    for service in PORT_SERVICES
    for method in csi.DESCRIPTOR.services_by_name[service].methods
}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """How one call is made. timeout_s: its deadline, > 0. migrated: it concerns an in-tree volume (a metrics label
    only).
    """

    timeout_s: float
    migrated: bool = False


class Bound(Protocol[Q_contra, A_co]):
    """An RPC of one driver, ready to be called."""

    def __call__(self, request: Q_contra, call: Call) -> Coroutine[Any, Any, A_co]: ...


class Rpc(Generic[Q, A]):
    """One unary RPC. name: `CreateVolume`; service: `Controller`; path: `/csi.v1.Controller/CreateVolume`."""

    def __init__(self, request_type: type[Q], response_type: type[A]) -> None:
        self.request_type = request_type
        self.response_type = response_type

    def __set_name__(self, owner: type, attribute: str) -> None:
        method = _METHODS[attribute]
        assert method.input_type is self.request_type.DESCRIPTOR, attribute
        assert method.output_type is self.response_type.DESCRIPTOR, attribute
        self.attribute = attribute
        self.name = method.name
        self.service = method.containing_service.name
        self.path = f"/{method.containing_service.full_name}/{method.name}"

    @overload
    def __get__(self, driver: None, owner: type) -> Rpc[Q, A]: ...
    @overload
    def __get__(self, driver: Driver, owner: type) -> Bound[Q, A]: ...
    def __get__(self, driver: Driver | None, owner: type) -> Rpc[Q, A] | Bound[Q, A]:
        if driver is None:
            return self

        def bound(request: Q, call: Call) -> Coroutine[Any, Any, A]:
            return driver.invoke(self, request, call)

        return bound


class Driver(abc.ABC):
    """A driver. Its capabilities say which RPCs it answers; the others raise Unimplemented."""

    @abc.abstractmethod
    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        """The answer of one call. Raises DriverError; CancelledError passes."""

    get_plugin_info = Rpc(csi.GetPluginInfoRequest, csi.GetPluginInfoResponse)
    get_plugin_capabilities = Rpc(csi.GetPluginCapabilitiesRequest, csi.GetPluginCapabilitiesResponse)
    probe = Rpc(csi.ProbeRequest, csi.ProbeResponse)

    create_volume = Rpc(csi.CreateVolumeRequest, csi.CreateVolumeResponse)
    delete_volume = Rpc(csi.DeleteVolumeRequest, csi.DeleteVolumeResponse)
    controller_publish_volume = Rpc(csi.ControllerPublishVolumeRequest, csi.ControllerPublishVolumeResponse)
    controller_unpublish_volume = Rpc(csi.ControllerUnpublishVolumeRequest, csi.ControllerUnpublishVolumeResponse)
    validate_volume_capabilities = Rpc(csi.ValidateVolumeCapabilitiesRequest, csi.ValidateVolumeCapabilitiesResponse)
    list_volumes = Rpc(csi.ListVolumesRequest, csi.ListVolumesResponse)
    get_capacity = Rpc(csi.GetCapacityRequest, csi.GetCapacityResponse)
    controller_get_capabilities = Rpc(csi.ControllerGetCapabilitiesRequest, csi.ControllerGetCapabilitiesResponse)
    create_snapshot = Rpc(csi.CreateSnapshotRequest, csi.CreateSnapshotResponse)
    delete_snapshot = Rpc(csi.DeleteSnapshotRequest, csi.DeleteSnapshotResponse)
    list_snapshots = Rpc(csi.ListSnapshotsRequest, csi.ListSnapshotsResponse)
    get_snapshot = Rpc(csi.GetSnapshotRequest, csi.GetSnapshotResponse)
    controller_expand_volume = Rpc(csi.ControllerExpandVolumeRequest, csi.ControllerExpandVolumeResponse)
    controller_get_volume = Rpc(csi.ControllerGetVolumeRequest, csi.ControllerGetVolumeResponse)
    controller_modify_volume = Rpc(csi.ControllerModifyVolumeRequest, csi.ControllerModifyVolumeResponse)

    group_controller_get_capabilities = Rpc(
        csi.GroupControllerGetCapabilitiesRequest, csi.GroupControllerGetCapabilitiesResponse
    )
    create_volume_group_snapshot = Rpc(csi.CreateVolumeGroupSnapshotRequest, csi.CreateVolumeGroupSnapshotResponse)
    delete_volume_group_snapshot = Rpc(csi.DeleteVolumeGroupSnapshotRequest, csi.DeleteVolumeGroupSnapshotResponse)
    get_volume_group_snapshot = Rpc(csi.GetVolumeGroupSnapshotRequest, csi.GetVolumeGroupSnapshotResponse)

    node_stage_volume = Rpc(csi.NodeStageVolumeRequest, csi.NodeStageVolumeResponse)
    node_unstage_volume = Rpc(csi.NodeUnstageVolumeRequest, csi.NodeUnstageVolumeResponse)
    node_publish_volume = Rpc(csi.NodePublishVolumeRequest, csi.NodePublishVolumeResponse)
    node_unpublish_volume = Rpc(csi.NodeUnpublishVolumeRequest, csi.NodeUnpublishVolumeResponse)
    node_get_volume_stats = Rpc(csi.NodeGetVolumeStatsRequest, csi.NodeGetVolumeStatsResponse)
    node_expand_volume = Rpc(csi.NodeExpandVolumeRequest, csi.NodeExpandVolumeResponse)
    node_get_capabilities = Rpc(csi.NodeGetCapabilitiesRequest, csi.NodeGetCapabilitiesResponse)
    node_get_info = Rpc(csi.NodeGetInfoRequest, csi.NodeGetInfoResponse)


RPCS: Final[Mapping[str, Rpc[Any, Any]]] = {
    attribute: rpc for attribute, rpc in vars(Driver).items() if isinstance(rpc, Rpc)
}
"""Every RPC of the port by its attribute, `create_volume`."""

RPCS_BY_PATH: Final[Mapping[str, Rpc[Any, Any]]] = {rpc.path: rpc for rpc in RPCS.values()}
"""And by its path, `/csi.v1.Controller/CreateVolume`."""
