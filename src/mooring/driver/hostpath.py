"""The reference driver: volumes are folders on this machine, and attaching is book-keeping with the rules of a real disk.

It is what `mooring dev` runs, and what drivers can be measured by: every call is idempotent, every answer is on the disk before it
is given (`driver/journal.py`), and a kill at any moment loses nothing that was answered (`driver/statefile.py`). It serves volumes
that it has created, and no others: who wants a PersistentVolume made by hand creates the volume with CreateVolume first and takes
the id as the volume's handle. Identity and controller services; the node's come later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from google.protobuf.wrappers_pb2 import Int64Value

import mooring
from mooring.base.chance import Chance
from mooring.csi.codes import Code, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability
from mooring.driver.journal import Journal
from mooring.driver.publishing import (
    Limits,
    available_bytes,
    check_may_publish,
    check_published,
    check_room,
    check_same,
    unsupported,
    wanted_bytes,
)
from mooring.driver.sdk import Plugin
from mooring.driver.state import Publication, Volume, is_volume_id
from mooring.driver.statefile import StateFolder

DRIVER_NAME: Final = "hostpath.csi.mooring"
PUBLICATION_KEY: Final = "publication"
"""In publish_context: the publication's number. A volume that was away and came back has another one."""


class HostPath(Plugin):
    """A driver over one folder; holds the folder until `close`.

    node_ids: the nodes that volumes can be published on. attach: False leaves out publishing, as drivers do that need no attach.
    Raises ConfigError when the folder can't be used.
    """

    controller_flags: Collection[int] = (
        Capability.PUBLISH_READONLY,
        Capability.LIST_VOLUMES_PUBLISHED_NODES,
        Capability.SINGLE_NODE_MULTI_WRITER,
        Capability.VOLUME_CONDITION,
    )

    def __init__(
        self,
        folder: Path,
        *,
        node_ids: Collection[str],
        chance: Chance,
        name: str = DRIVER_NAME,
        limits: Limits | None = None,
        attach: bool = True,
    ) -> None:
        self.name = name
        self.vendor_version = mooring.__version__
        self._chance = chance
        self._node_ids = frozenset(node_ids)
        self._limits = limits or Limits()
        if not attach:
            self.withheld = ("controller_publish_volume", "controller_unpublish_volume")
            self.controller_flags = (Capability.SINGLE_NODE_MULTI_WRITER, Capability.VOLUME_CONDITION)
        self._folder, state = StateFolder.opened(folder)
        self._journal = Journal(state, self._folder.write)

    def close(self) -> None:
        """Gives the folder back. Call it when no call is running any more."""
        self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None) -> None:
        self.close()

    # Volumes

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        if reason := unsupported(request.volume_capabilities):
            raise DriverError(Code.INVALID_ARGUMENT, reason)
        state = self._journal.state
        volume = state.named(request.name)
        if volume is not None:
            check_same(volume, request)
            await self._journal.settled()
        else:
            size = wanted_bytes(request.capacity_range, self._limits)
            check_room(state, size, self._limits)
            volume = Volume(f"vol-{self._chance.uid()}", request.name, size, dict(request.parameters))
            await self._added(volume)
        return csi.CreateVolumeResponse(volume=_described(volume))

    async def _added(self, volume: Volume) -> None:
        """The folder first, then the record that names it."""
        try:
            self._folder.make_volume(volume.id)
        except OSError as error:
            raise DriverError(Code.INTERNAL, f"the volume's folder can't be made: {error.strerror}") from None
        self._journal.put(self._journal.state.with_volume(volume))  # no await since the checks
        try:
            await self._journal.settled()
        except DriverError:
            self._folder.remove_volume(volume.id)
            raise

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        """The record first, then the folder: what is half removed must not be taken for a volume."""
        state, volume_id = self._journal.state, request.volume_id
        volume = state.volumes.get(volume_id)
        if volume is not None:
            if volume.published:
                nodes = ", ".join(repr(one.node_id) for one in volume.published)
                raise DriverError(Code.FAILED_PRECONDITION, f"volume {volume_id!r} is in use: published on {nodes}")
            self._journal.put(state.without_volume(volume_id))
        await self._journal.settled()
        if volume_id in self._journal.state.deleting:
            await self._remove_data(volume_id)
        return csi.DeleteVolumeResponse()

    async def _remove_data(self, volume_id: str) -> None:
        assert is_volume_id(volume_id)
        try:
            await asyncio.to_thread(self._folder.remove_volume, volume_id)
        except OSError as error:
            raise DriverError(Code.INTERNAL, f"the data of volume {volume_id!r} can't be removed: {error.strerror}") from None
        self._journal.put(self._journal.state.forgotten(volume_id))  # may reach the disk with the next change: forgetting twice is the same

    # Publishing

    async def controller_publish_volume(self, request: csi.ControllerPublishVolumeRequest) -> csi.ControllerPublishVolumeResponse:
        volume = self._known(request.volume_id)
        if request.node_id not in self._node_ids:
            raise DriverError(Code.NOT_FOUND, f"there is no node {request.node_id!r}")
        if reason := unsupported([request.volume_capability]):
            raise DriverError(Code.INVALID_ARGUMENT, reason)
        publication = volume.on(request.node_id)
        if publication is not None:
            check_published(publication, request)
        else:
            publication = self._published(volume, request)
        await self._journal.settled()
        return csi.ControllerPublishVolumeResponse(publish_context={PUBLICATION_KEY: str(publication.number)})

    def _published(self, volume: Volume, request: csi.ControllerPublishVolumeRequest) -> Publication:
        state = self._journal.state
        check_may_publish(state, volume, request, self._limits)
        mode = request.volume_capability.access_mode.mode
        self._journal.put(state.with_publication(volume, request.node_id, mode, readonly=request.readonly))
        publication = self._journal.state.volumes[volume.id].on(request.node_id)
        assert publication is not None
        return publication

    async def controller_unpublish_volume(self, request: csi.ControllerUnpublishVolumeRequest) -> csi.ControllerUnpublishVolumeResponse:
        """OK also for volumes and nodes that it does not know: its own state says for sure that nothing is published there."""
        state = self._journal.state
        volume = state.volumes.get(request.volume_id)
        if volume is not None:
            left = volume.unpublished_from(request.node_id)
            if left != volume:
                self._journal.put(state.with_volume(left))
        await self._journal.settled()
        return csi.ControllerUnpublishVolumeResponse()

    # Questions

    async def validate_volume_capabilities(self, request: csi.ValidateVolumeCapabilitiesRequest) -> csi.ValidateVolumeCapabilitiesResponse:
        volume = self._known(request.volume_id)
        await self._journal.settled()
        reason = unsupported(request.volume_capabilities)
        if request.volume_context and dict(request.volume_context) != volume.parameters:
            reason = "the volume has another volume_context"
        if request.parameters and dict(request.parameters) != volume.parameters:
            reason = "the volume was created with other parameters"
        if request.mutable_parameters:
            reason = "this driver has no mutable parameters"
        if reason:
            return csi.ValidateVolumeCapabilitiesResponse(message=reason)
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context, volume_capabilities=request.volume_capabilities, parameters=request.parameters
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        """Sorted by id; a page's token is the last id on it, so that volumes which come and go between pages move nothing."""
        if request.starting_token and not is_volume_id(request.starting_token):
            raise DriverError(Code.ABORTED, f"starting_token {request.starting_token!r} is none of this driver's: start from the beginning")
        volumes = self._journal.state.volumes
        await self._journal.settled()
        ids = sorted(one for one in volumes if one > request.starting_token)
        page = ids[: request.max_entries or None]
        entries = []
        for volume_id in page:
            status = csi.ListVolumesResponse.VolumeStatus(
                published_node_ids=_nodes(volumes[volume_id]), volume_condition=self._condition(volume_id)
            )
            entries.append(csi.ListVolumesResponse.Entry(volume=_described(volumes[volume_id]), status=status))
        return csi.ListVolumesResponse(entries=entries, next_token=page[-1] if len(page) < len(ids) else "")

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        volume = self._known(request.volume_id)
        await self._journal.settled()
        status = csi.ControllerGetVolumeResponse.VolumeStatus(
            published_node_ids=_nodes(volume), volume_condition=self._condition(volume.id)
        )
        return csi.ControllerGetVolumeResponse(volume=_described(volume), status=status)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        await self._journal.settled()
        left = 0 if unsupported(request.volume_capabilities) else available_bytes(self._journal.state, self._limits)
        largest = Int64Value(value=min(left, self._limits.volume_bytes_max))
        return csi.GetCapacityResponse(available_capacity=left, maximum_volume_size=largest)

    def _known(self, volume_id: str) -> Volume:
        volume = self._journal.state.volumes.get(volume_id)
        if volume is None:
            raise DriverError(Code.NOT_FOUND, f"there is no volume {volume_id!r}")
        return volume

    def _condition(self, volume_id: str) -> csi.VolumeCondition:
        if self._folder.volume(volume_id).is_dir():
            return csi.VolumeCondition(abnormal=False, message="the volume's folder is there")
        return csi.VolumeCondition(abnormal=True, message="the volume's folder is gone")


def _described(volume: Volume) -> csi.Volume:
    return csi.Volume(volume_id=volume.id, capacity_bytes=volume.capacity_bytes, volume_context=volume.parameters)


def _nodes(volume: Volume) -> list[str]:
    return [one.node_id for one in volume.published]
