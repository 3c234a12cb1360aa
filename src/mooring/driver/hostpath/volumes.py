"""The host-path driver's volumes come and go, grow and change, and answer questions: what there is, what it can, how
much room is left.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.wrappers_pb2 import Int64Value

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, check_whole, nodes_of
from mooring.driver.hostpath.creating import (
    KIND,
    check_capabilities,
    check_mutable,
    check_parameters,
    check_same,
    grown_bytes,
    planned,
    tell_ignored,
)
from mooring.driver.hostpath.layout import room
from mooring.driver.hostpath.publishing import check_unused, unsupported
from mooring.driver.hostpath.state import Volume, is_volume_id
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code


class VolumeCalls(Plugin):
    """Between the checks and the change of the state there is never an await."""

    _core: Core

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        check_capabilities(request.volume_capabilities)
        check_mutable(request.mutable_parameters, self._core.mutable_names)
        volume = self._core.state.named(request.name)
        if volume is not None:
            check_same(volume, request)
            self._modified(volume, request.mutable_parameters)
        else:
            volume_id = f"vol-{self._core.randomness.uid()}"
            core = self._core
            volume = planned(
                core.state, request, core.layout, core.limits, volume_id, core.now_ns(), images=core.options.images
            )
            tell_ignored(request.parameters, KIND, request.name)
            self._add(volume)
        try:
            await self._core.filling.filled(volume.id)
            await self._core.journal.flushed()
        except DriverError:
            take_back(self._core, volume)
            raise
        return csi.CreateVolumeResponse(volume=self._core.described(volume))

    def _add(self, volume: Volume) -> None:
        """Empty data first, then the record that names it; data to be copied comes after its record."""
        assert self._core.state.owner(volume.id) is None, "ids are never given twice"
        if not volume.is_filling:
            try:
                self._core.folder.make(volume.id, volume.capacity_bytes if volume.is_file else None)
            except OSError as error:
                raise DriverError(Code.INTERNAL, f"the volume's data can't be made: {error.strerror}") from None
        self._core.journal.put(self._core.state.with_volume(volume))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        """The record first, then the data: what is half removed must not be taken for a volume."""
        state, volume_id = self._core.state, request.volume_id
        volume = state.volumes.get(volume_id)
        if volume is not None:
            check_unused(volume, self._core.options)
            check_whole(volume)
            self._core.check_unread(volume_id)
            self._core.journal.put(state.without(volume_id))
        await self._core.journal.flushed()
        await remove_data(self._core, volume_id)
        return csi.DeleteVolumeResponse()

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        """The volume's file first, then the record; its devices and file system grow on the node."""
        volume = self._core.whole(request.volume_id)
        if request.HasField("volume_capability") and (reason := unsupported(volume, [request.volume_capability])):
            raise DriverError(Code.INVALID_ARGUMENT, f"volume_capability: {reason}")
        size = grown_bytes(self._core.state, volume, request.capacity_range, self._core.limits)
        if size > volume.capacity_bytes:
            if volume.is_file:
                self._grow_file(volume, size)
            self._core.journal.put(self._core.state.with_volume(volume.grown_to(size)))
        await self._core.journal.flushed()
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=size, node_expansion_required=self._core.options.grows_on_nodes
        )

    def _grow_file(self, volume: Volume, size: int) -> None:
        try:
            self._core.folder.grow(volume.id, size)
        except OSError as error:
            raise DriverError(Code.INTERNAL, f"the file of volume {volume.id!r} can't grow: {error.strerror}") from None

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        volume = self._core.whole(request.volume_id)
        check_mutable(request.mutable_parameters, self._core.mutable_names)
        self._modified(volume, request.mutable_parameters)
        await self._core.journal.flushed()
        return csi.ControllerModifyVolumeResponse()

    def _modified(self, volume: Volume, mutable_parameters: Mapping[str, str]) -> None:
        changed = volume.modified(mutable_parameters)
        if changed != volume:
            self._core.journal.put(self._core.state.with_volume(changed))


def take_back(core: Core, volume: Volume) -> None:
    """The disk did not take the record of an empty volume: its data goes, too."""
    if volume.id not in core.state.volumes and not volume.is_filling:
        core.folder.remove(volume.id)


async def remove_data(core: Core, record_id: str) -> None:
    """The data of a record that is on its way out; nothing to do for any other id. Raises DriverError: the caller comes
    back.
    """
    if record_id not in core.state.deleting:
        return
    try:
        await asyncio.to_thread(core.folder.remove, record_id)
    except OSError as error:
        code = Code.FAILED_PRECONDITION if error.errno == errno.EBUSY else Code.INTERNAL
        raise DriverError(code, f"the data of {record_id!r} can't be removed: {error.strerror}") from None
    core.journal.put(core.state.forgotten(record_id))
    await core.journal.flushed()  # not for a restart, which would forget it again: for people who read the state file


class QuestionCalls(Plugin):
    """None changes anything; each answers what the disk has."""

    _core: Core

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
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
        """Sorted by id; a page's token is the last id on it, so that volumes which come and go between pages move
        nothing.
        """
        if request.starting_token and not is_volume_id(request.starting_token):
            raise DriverError(
                Code.ABORTED,
                f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning",
            )
        volumes = self._core.state.volumes
        await self._core.journal.flushed()
        ids = sorted(one.id for one in volumes.values() if one.id > request.starting_token and not one.inline_id)
        page = ids[: request.max_entries or None]
        entries = [self._entry(volumes[volume_id]) for volume_id in page]
        return csi.ListVolumesResponse(entries=entries, next_token=page[-1] if len(page) < len(ids) else "")

    def _entry(self, volume: Volume) -> csi.ListVolumesResponse.Entry:
        status = csi.ListVolumesResponse.VolumeStatus(
            published_node_ids=nodes_of(volume), volume_condition=self._condition(volume)
        )
        return csi.ListVolumesResponse.Entry(volume=self._core.described(volume), status=status)

    def _condition(self, volume: Volume) -> csi.VolumeCondition:
        return _controller_condition(volume, self._core.folder.data(volume.id))

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        volume = self._core.known(request.volume_id)
        await self._core.journal.flushed()
        status = csi.ControllerGetVolumeResponse.VolumeStatus(
            published_node_ids=nodes_of(volume), volume_condition=self._condition(volume)
        )
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
        found = room(
            state, limits, layout.matching(request.accessible_topology.segments), request.parameters.get("kind", "")
        )
        largest = min(max((left for _, _, left in found), default=0), limits.volume_bytes_max)
        of_one_kind = not limits.kinds or "kind" in request.parameters
        available = (
            sum(left for _, _, left in found) if of_one_kind else 0
        )  # as csi-driver-host-path: a volume is of one kind
        return csi.GetCapacityResponse(available_capacity=available, maximum_volume_size=Int64Value(value=largest))


def _controller_condition(volume: Volume, data: Path) -> csi.VolumeCondition:
    """The condition that the controller sees: the data is there, and the file system below has room. In
    csi-driver-host-path's words.
    """
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
