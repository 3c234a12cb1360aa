"""A pod's own volumes: made by the call that publishes them, deleted by the one that unpublishes them."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.creating import KIND, planned
from mooring.driver.hostpath.node.part import NodePart
from mooring.driver.hostpath.state import Volume
from mooring.driver.hostpath.volumes import remove_data, take_back
from mooring.driver.sdk import Plugin
from mooring.wire.grpc.codes import Code

INLINE_BYTES: Final = 100 << 20


class InlineCalls(Plugin):
    _node: NodePart

    async def _created_inline(self, request: csi.NodePublishVolumeRequest) -> None:
        """The volume under an id of our own, whatever its caller calls it: an id becomes a path. Raises DriverError."""
        core = self._node.core
        volume_id = f"vol-{core.randomness.uid()}"
        creation = self._creation(request)
        volume = planned(core.state, creation, core.layout, core.limits, volume_id, core.now_ns(), images=core.options.images)
        volume = msgspec.structs.replace(volume, inline_id=request.volume_id)
        try:
            core.folder.make(volume.id, volume.capacity_bytes if volume.is_file else None)
        except OSError as error:
            raise DriverError(Code.INTERNAL, f"the volume's data can't be made: {error.strerror}") from None
        core.journal.put(core.state.with_volume(volume))
        try:
            await core.journal.flushed()
        except DriverError:
            take_back(core, volume)
            raise

    def _creation(self, request: csi.NodePublishVolumeRequest) -> csi.CreateVolumeRequest:
        kind = request.volume_context.get(KIND, "")
        creation = csi.CreateVolumeRequest(
            name=f"ephemeral-{request.volume_id}",
            capacity_range={"required_bytes": INLINE_BYTES},
            volume_capabilities=[request.volume_capability],
            parameters={KIND: kind} if kind else {},
        )
        layout = self._node.core.layout
        if layout.has_topology:
            creation.accessibility_requirements.requisite.add(segments=layout.nodes[self._node.node_id])
        return creation

    async def _delete_inline(self, volume: Volume) -> None:
        core = self._node.core
        core.journal.put(core.state.without(volume.id))
        await core.journal.flushed()
        await remove_data(core, volume.id)
