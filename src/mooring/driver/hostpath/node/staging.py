"""The host-path driver's volumes are staged on a node: recorded first, mounted then; unmounted first, forgotten
then.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.node.checks import check_fits, check_may_stage, check_may_unstage, is_readonly
from mooring.driver.hostpath.node.mounting import Source
from mooring.driver.hostpath.node.part import NodePart
from mooring.driver.hostpath.publishing import check_reach
from mooring.driver.hostpath.state import Volume
from mooring.driver.sdk import Plugin
from mooring.mounts import targets


class StagingCalls(Plugin):
    _node: NodePart

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        node, path = self._node, targets.plain(request.staging_target_path)
        async with node.alone_with(request.volume_id):
            volume = node.known(request.volume_id)
            check_may_stage(volume, node.node_id, str(path), node.core.options)
            check_fits(volume, request.volume_capability)
            check_reach(volume, node.node_id, node.core.layout)
            readonly = is_readonly(volume, node.node_id, request.volume_capability)
            source = node.source(volume, request.volume_capability, readonly=readonly)
            await check_mountable(node, volume, source, path)
            use = node.use_of(volume)
            await node.save_use(volume.id, msgspec.structs.replace(use, staging_path=str(path)))
            try:
                await node.run(lambda: node.mounts.stage(source, path))
            except DriverError:
                if not use.staging_path:
                    with contextlib.suppress(DriverError):
                        await self._forget_staging(volume)
                raise
        return csi.NodeStageVolumeResponse()

    async def _forget_staging(self, volume: Volume) -> None:
        """Nothing came of it: the record goes, and what was half made."""
        use = self._node.use_of(self._node.known(volume.id))
        source, path = self._node.source(volume), targets.plain(use.staging_path)
        if not await self._node.run(lambda: self._node.mounts.holds(source, path)):
            await self._node.save_use(volume.id, msgspec.structs.replace(use, staging_path=""))
            await release_unused(self._node, volume)

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        """Differs from csi-driver-host-path: OK for a volume that is not known, as NodeUnpublishVolume."""
        node, path = self._node, targets.plain(request.staging_target_path)
        async with node.alone_with(request.volume_id):
            if node.find(request.volume_id) is None:
                await node.run(lambda: node.mounts.leave(node.core.folder.path, path, removes=False))
                return csi.NodeUnstageVolumeResponse()
            volume = node.known(request.volume_id)
            use = node.use_of(volume)
            check_may_unstage(volume, use)
            node.core.check_still(volume)
            source = node.source(volume)
            is_recorded = use.staging_path == str(path)
            if is_recorded or await node.run(lambda: node.mounts.holds(source, path)):
                await node.run(lambda: targets.clear(path))
                if is_recorded:
                    await node.save_use(volume.id, msgspec.structs.replace(use, staging_path=""))
            await release_unused(node, volume)  # also where a kill came between the record and this
            await node.core.journal.flushed()
        return csi.NodeUnstageVolumeResponse()


async def check_mountable(node: NodePart, volume: Volume, source: Source, path: Path) -> None:
    """Raises Aborted for a file system that is copied unmounted: who mounts it and leaves before the end would tear the
    copy.
    """
    if volume.is_image and not await node.run(lambda: node.mounts.holds(source, path)):
        node.core.check_still(volume)


async def release_unused(node: NodePart, volume: Volume) -> None:
    """Gives back the loop devices of a volume that no node has any more."""
    newest = node.find(volume.id)
    if volume.is_file and (newest is None or not newest.uses):
        source = node.source(volume)
        await node.run(lambda: node.mounts.release(source))
