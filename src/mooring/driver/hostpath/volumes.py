"""The host-path driver's volumes come and go, grow and change."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core, check_whole
from mooring.driver.hostpath.creating import KIND, check_capabilities, check_mutable, check_same, grown_bytes, planned, tell_ignored
from mooring.driver.hostpath.publishing import check_unused, unsupported
from mooring.driver.hostpath.state import Volume
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
            volume = planned(core.state, request, core.layout, core.limits, volume_id, core.now_ns(), images=core.options.images)
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

    async def controller_expand_volume(self, request: csi.ControllerExpandVolumeRequest) -> csi.ControllerExpandVolumeResponse:
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
        return csi.ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=self._core.options.grows_on_nodes)

    def _grow_file(self, volume: Volume, size: int) -> None:
        try:
            self._core.folder.grow(volume.id, size)
        except OSError as error:
            raise DriverError(Code.INTERNAL, f"the file of volume {volume.id!r} can't grow: {error.strerror}") from None

    async def controller_modify_volume(self, request: csi.ControllerModifyVolumeRequest) -> csi.ControllerModifyVolumeResponse:
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
    """The data of a record that is on its way out; nothing to do for any other id. Raises DriverError: the caller comes back."""
    if record_id not in core.state.deleting:
        return
    try:
        await asyncio.to_thread(core.folder.remove, record_id)
    except OSError as error:
        code = Code.FAILED_PRECONDITION if error.errno == errno.EBUSY else Code.INTERNAL
        raise DriverError(code, f"the data of {record_id!r} can't be removed: {error.strerror}") from None
    core.journal.put(core.state.forgotten(record_id))
    await core.journal.flushed()  # not for a restart, which would forget it again: for people who read the state file
