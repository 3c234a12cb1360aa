"""The host-path driver's queries: volumes, capabilities, capacity."""

from __future__ import annotations

import os
from pathlib import Path

from google.protobuf.wrappers_pb2 import Int64Value

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, nodes_of
from mooring.driver.hostpath.creating import check_capabilities, check_mutable, check_parameters
from mooring.driver.hostpath.layout import room
from mooring.driver.hostpath.publishing import unsupported
from mooring.driver.hostpath.state import Volume, is_volume_id
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code


class QuestionCalls(Plugin):
    """None changes anything; each answers what the disk has."""

    _core: Core

    async def validate_volume_capabilities(self, request: csi.ValidateVolumeCapabilitiesRequest) -> csi.ValidateVolumeCapabilitiesResponse:
        volume = self._core.known(request.volume_id)
        await self._core.journal.flushed()
        if reason := self._refusal(volume, request):
            return csi.ValidateVolumeCapabilitiesResponse(message=reason)
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context,
            volume_capabilities=request.volume_capabilities,
            parameters=request.parameters,
            mutable_parameters=request.mutable_parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    def _refusal(self, volume: Volume, request: csi.ValidateVolumeCapabilitiesRequest) -> str:
        """The difference between volume and request, "" for none."""
        try:
            check_mutable(request.mutable_parameters, self._core.mutable_names)
        except DriverError as error:
            return error.message
        if request.volume_context and dict(request.volume_context) != volume.parameters:
            return "the volume has another volume_context"
        if request.parameters and dict(request.parameters) != volume.parameters:
            return "the volume was created with other parameters"
        return unsupported(volume, request.volume_capabilities)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        """Sorted by id; a page's token is the last id on it, so that volumes which come and go between pages move nothing."""
        if request.starting_token and not is_volume_id(request.starting_token):
            raise DriverError(Code.ABORTED, f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning")
        volumes = self._core.state.volumes
        await self._core.journal.flushed()
        ids = sorted(one.id for one in volumes.values() if one.id > request.starting_token and not one.inline_id)
        page = ids[: request.max_entries or None]
        entries = [self._entry(volumes[volume_id]) for volume_id in page]
        return csi.ListVolumesResponse(entries=entries, next_token=page[-1] if len(page) < len(ids) else "")

    def _entry(self, volume: Volume) -> csi.ListVolumesResponse.Entry:
        status = csi.ListVolumesResponse.VolumeStatus(published_node_ids=nodes_of(volume), volume_condition=self._condition(volume))
        return csi.ListVolumesResponse.Entry(volume=self._core.described(volume), status=status)

    def _condition(self, volume: Volume) -> csi.VolumeCondition:
        return controller_condition(volume, self._core.folder.data(volume.id))

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        volume = self._core.known(request.volume_id)
        await self._core.journal.flushed()
        status = csi.ControllerGetVolumeResponse.VolumeStatus(published_node_ids=nodes_of(volume), volume_condition=self._condition(volume))
        return csi.ControllerGetVolumeResponse(volume=self._core.described(volume), status=status)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        """The room that CreateVolume would have for such a request: none where it would refuse it."""
        state = self._core.state
        await self._core.journal.flushed()
        limits, layout = self._core.limits, self._core.layout
        try:
            check_capabilities(request.volume_capabilities)
            check_parameters(request.parameters, limits)
        except DriverError:
            return csi.GetCapacityResponse(maximum_volume_size=Int64Value())
        found = room(state, limits, layout.matching(request.accessible_topology.segments), request.parameters.get("kind", ""))
        largest = min(max((left for _, _, left in found), default=0), limits.volume_bytes_max)
        of_one_kind = not limits.kinds or "kind" in request.parameters
        available = sum(left for _, _, left in found) if of_one_kind else 0  # as csi-driver-host-path: a volume is of one kind
        return csi.GetCapacityResponse(available_capacity=available, maximum_volume_size=Int64Value(value=largest))


def controller_condition(volume: Volume, data: Path) -> csi.VolumeCondition:
    """The condition that the controller sees: the data is there, and the file system below has room. In csi-driver-host-path's words."""
    if volume.is_filling:
        return csi.VolumeCondition(message="the volume's data is being copied")
    try:
        below = os.statvfs(data)
    except OSError:
        return csi.VolumeCondition(abnormal=True, message="The source path of the volume doesn't exist")
    if volume.capacity_bytes > below.f_blocks * below.f_frsize:
        return csi.VolumeCondition(abnormal=True, message="The capacity of volume is greater than actual storage")
    if not below.f_bavail:
        return csi.VolumeCondition(abnormal=True, message="The free space of the volume is insufficient")
    return csi.VolumeCondition(message=f"the volume's {'file' if volume.is_file else 'folder'} is there")
