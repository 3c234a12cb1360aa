"""The host-path driver's volumes are published on nodes: book-keeping with the rules of a real disk."""

from __future__ import annotations

from typing import Final

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.core import Core
from mooring.driver.hostpath.publishing import (
    check_left_node,
    check_may_publish,
    check_published,
    check_reach,
    unsupported,
)
from mooring.driver.hostpath.state import Publication, Volume
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code

PUBLICATION_KEY: Final = "publication"
"""In publish_context: the publication's number. A volume that was away and came back has another one."""


class AttachmentCalls(Plugin):
    _core: Core

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        volume = self._core.whole(request.volume_id)
        if request.node_id not in self._core.layout.nodes:
            raise DriverError(Code.NOT_FOUND, f"there is no node {request.node_id!r}")
        if reason := unsupported(volume, [request.volume_capability]):
            raise DriverError(Code.INVALID_ARGUMENT, f"volume_capability: {reason}")
        publication = volume.on(request.node_id)
        if publication is not None:
            check_published(publication, request)
        else:
            publication = self._published(volume, request)
        await self._core.journal.flushed()
        return csi.ControllerPublishVolumeResponse(publish_context={PUBLICATION_KEY: str(publication.number)})

    def _published(self, volume: Volume, request: csi.ControllerPublishVolumeRequest) -> Publication:
        state = self._core.state
        check_reach(volume, request.node_id, self._core.layout)
        check_may_publish(state, volume, request, self._core.limits)
        mode = request.volume_capability.access_mode.mode
        self._core.journal.put(state.with_publication(volume, request.node_id, mode, readonly=request.readonly))
        publication = self._core.state.volumes[volume.id].on(request.node_id)
        assert publication is not None
        return publication

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        """OK also for volumes and nodes that it does not know: its own state says for sure that nothing is published
        there.
        """
        state = self._core.state
        volume = state.volumes.get(request.volume_id)
        if volume is not None:
            left = volume.unpublished_from(request.node_id)
            if left != volume:
                check_left_node(volume, request.node_id, self._core.options)
                self._core.journal.put(state.with_volume(left))
        await self._core.journal.flushed()
        return csi.ControllerUnpublishVolumeResponse()
