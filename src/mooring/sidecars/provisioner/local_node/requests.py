"""CSI requests of the provisioner of one node."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.csi.driver import Call, Driver
from mooring.csi.proto import csi_pb2 as csi


async def learn_place(driver: Driver, timeout_s: float) -> Mapping[str, str]:
    """The topology segments of the node, from its driver. Raises DriverError."""
    answer = await driver.node_get_info(csi.NodeGetInfoRequest(), Call(timeout_s))
    return dict(answer.accessible_topology.segments)


def capacity_requests(request: csi.CreateVolumeRequest) -> tuple[csi.GetCapacityRequest, ...]:
    """One for each place where the volume may be; one without a place where none is required."""
    places: list[csi.Topology | None] = [*request.accessibility_requirements.requisite] or [None]
    capabilities, parameters = request.volume_capabilities, request.parameters
    return tuple(
        csi.GetCapacityRequest(volume_capabilities=capabilities, parameters=parameters, accessible_topology=place) for place in places
    )
