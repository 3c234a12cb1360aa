"""The host-path driver's volumes are published at paths: recorded first, mounted then; unmounted and removed first,
forgotten then.

A pod's own volume is made by the call that publishes it, and deleted by the one that unpublishes it. For a driver with
VOLUME_MOUNT_GROUP a volume's files are given to a group.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import msgspec

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.creating import KIND, planned
from mooring.driver.hostpath.node import checks
from mooring.driver.hostpath.node.part import NodePart
from mooring.driver.hostpath.node.staging import check_mountable, release_unused
from mooring.driver.hostpath.publishing import check_reach
from mooring.driver.hostpath.state import Target, Use, Volume
from mooring.driver.hostpath.volumes import remove_data, take_back
from mooring.driver.sdk import Plugin
from mooring.mounts import targets
from mooring.mounts.fs_group import Walk
from mooring.wire.grpc.codes import Code

_INLINE_BYTES: Final = 100 << 20


class Targets(Plugin):
    _node: NodePart

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        target = targets.plain(request.target_path)
        async with self._node.alone_with(request.volume_id):
            if checks.is_inline(request) and self._node.find(request.volume_id) is None:
                await self._created_inline(request)
            volume = self._node.known(request.volume_id)
            self._check_publish(volume, request, target)
            await self._put_at(volume, request, target)
        return csi.NodePublishVolumeResponse()

    def _check_publish(self, volume: Volume, request: csi.NodePublishVolumeRequest, target: Path) -> None:
        node, capability = self._node, request.volume_capability
        use = volume.use_on(node.node_id)
        checks.check_single_writer(volume, use, str(target), capability.access_mode.mode)
        if not volume.inline_id and node.core.options.stages:
            checks.check_staged(volume, use, str(targets.plain(request.staging_target_path)))
        checks.check_fits(volume, capability)
        check_reach(volume, node.node_id, node.core.layout)
        if not volume.inline_id and node.core.options.attach and volume.on(node.node_id) is None:
            raise DriverError(
                Code.FAILED_PRECONDITION, f"volume {volume.id!r} is no longer attached to node {node.node_id!r}"
            )
        checks.check_same_target(volume, use, str(target), readonly=self._readonly(volume, request))

    def _readonly(self, volume: Volume, request: csi.NodePublishVolumeRequest) -> bool:
        return checks.is_readonly(volume, self._node.node_id, request.volume_capability, wanted=request.readonly)

    async def _put_at(self, volume: Volume, request: csi.NodePublishVolumeRequest, path: Path) -> None:
        node, readonly, group = (
            self._node,
            self._readonly(volume, request),
            checks.group_of(request.volume_capability, self._node.core.options),
        )
        source = node.source(volume, request.volume_capability, readonly=readonly)
        staging = targets.plain(node.use_of(volume).staging_path or str(node.own_staging(volume)))
        await check_mountable(node, volume, source, staging)
        was_there = node.use_of(volume).at(str(path)) is not None
        target = Target(str(path), request.volume_capability.access_mode.mode, readonly)
        await node.save_use(volume.id, node.use_of(volume).with_target(target))
        try:
            await node.run(lambda: node.mounts.publish(source, staging, path))
            if group is not None and not readonly and not volume.is_block:
                await node.run(lambda: _give_to_group(path, group))
        except DriverError:
            if not was_there:
                with contextlib.suppress(DriverError):  # what can't be undone stays recorded: the caller unpublishes it
                    await self._undo_target(volume, path)
            raise

    async def _undo_target(self, volume: Volume, path: Path) -> None:
        """Nothing came of it. Something at the path may be somebody else's: it goes only if it is the volume."""
        node = self._node
        source, use = node.source(volume), node.use_of(node.known(volume.id))
        if await node.run(lambda: node.mounts.holds(source, path)):
            await node.run(lambda: targets.withdraw(path))
        await self._forget_target(volume, use.without_target(str(path)))
        await self._end(volume)

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        """Differs from csi-driver-host-path: OK for a volume that is not known (any more). A node that was given up
        could not let it go.
        """
        node, target = self._node, targets.plain(request.target_path)
        async with node.alone_with(request.volume_id):
            if node.find(request.volume_id) is None:
                await node.run(lambda: node.mounts.leave(node.core.folder.path, target, removes=True))
            else:
                await self._withdraw_from(node.known(request.volume_id), target)
        return csi.NodeUnpublishVolumeResponse()

    async def _withdraw_from(self, volume: Volume, target: Path) -> None:
        """The volume is no longer at the path, and nobody says that it is."""
        node, use = self._node, self._node.use_of(self._node.known(volume.id))
        source = node.source(volume)
        left = use.without_target(str(target))
        if left != use or await node.run(lambda: node.mounts.holds(source, target)):
            await node.run(lambda: targets.withdraw(target))
            await self._forget_target(volume, left)
        else:
            await node.run(lambda: targets.remove_empty(target))
            await release_unused(node, volume)
        await self._end(volume)

    async def _end(self, volume: Volume) -> None:
        """The records are saved; a pod's own volume that is nowhere any more is deleted."""
        await self._node.core.journal.flushed()
        if volume.inline_id and not self._node.use_of(self._node.known(volume.id)).targets:
            await self._delete_inline(volume)

    async def _forget_target(self, volume: Volume, left: Use) -> None:
        """A target less: with the last one goes the staging path of the driver's own."""
        node = self._node
        if not left.targets and not left.staging_path:
            node.core.check_still(volume)
            own = targets.plain(str(node.own_staging(volume)))
            await node.run(lambda: targets.withdraw(own))
        await node.save_use(volume.id, left)
        await release_unused(node, volume)

    # a pod's own volumes

    async def _created_inline(self, request: csi.NodePublishVolumeRequest) -> None:
        """The volume under an id of our own, whatever its caller calls it: an id becomes a path. Raises DriverError."""
        core = self._node.core
        volume_id = f"vol-{core.randomness.uid()}"
        creation = self._creation(request)
        volume = planned(
            core.state, creation, core.layout, core.limits, volume_id, core.now_ns(), images=core.options.images
        )
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
            capacity_range={"required_bytes": _INLINE_BYTES},
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


def _give_to_group(path: Path, group: int) -> None:
    """The group owns, reads and writes all that is in the folder, and what is made there later. Raises OSError."""
    Walk(Path(os.path.realpath(path)), group, "").run()  # without mounts, a link shows the volume
