"""The requests for capacity for a volume that is not made yet."""

from __future__ import annotations

from mooring.csi.proto import csi_pb2 as csi


def capacity_requests(request: csi.CreateVolumeRequest) -> tuple[csi.GetCapacityRequest, ...]:
    """One for each place where the volume may be; one for anywhere where no place is said."""
    places: list[csi.Topology | None] = [*request.accessibility_requirements.requisite] or [None]
    capabilities, parameters = request.volume_capabilities, request.parameters
    return tuple(
        csi.GetCapacityRequest(volume_capabilities=capabilities, parameters=parameters, accessible_topology=place) for place in places
    )
