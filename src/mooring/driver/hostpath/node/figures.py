"""The host-path driver tells about a node, and about volumes on it; and lets them grow."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.hostpath.creating import grown_bytes
from mooring.driver.hostpath.node.checks import check_fits, check_growth
from mooring.driver.hostpath.node.mounting import Mounts, Source
from mooring.driver.hostpath.node.part import NodePart
from mooring.driver.hostpath.state import Volume
from mooring.driver.sdk import Plugin
from mooring.mounts.targets import plain
from mooring.wire.grpc.codes import Code

Usage = csi.VolumeUsage


class Figures(Plugin):
    _node: NodePart

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        core, node_id = self._node.core, self._node.node_id
        limit = core.options.volumes_per_node
        most = 1 + core.randomness.below(10) if limit < 0 else limit
        answer = csi.NodeGetInfoResponse(node_id=node_id, max_volumes_per_node=most)
        if core.layout.has_topology:
            answer.accessible_topology.segments.update(core.layout.nodes[node_id])
        return answer

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        node, path = self._node, plain(request.volume_path)
        volume = node.known(request.volume_id)
        use = node.use_of(volume)
        if use.at(str(path)) is None and use.staging_path != str(path) and not await self._is_mapped(volume, path):
            raise DriverError(Code.NOT_FOUND, f"volume {request.volume_id!r} is not at {request.volume_path!r}")
        await node.core.journal.flushed()
        source = node.source(volume)
        if not await node.run(lambda: os.path.lexists(path)):
            raise DriverError(Code.NOT_FOUND, f"nothing is at {request.volume_path!r}")
        condition, usage = await node.run(lambda: (node_condition(node.mounts, source, path), usage_of(volume, path)))
        return csi.NodeGetVolumeStatsResponse(usage=usage, volume_condition=condition)

    async def _is_mapped(self, volume: Volume, path: Path) -> bool:
        """Whether the caller has mounted a block volume there itself: a kubelet asks for
        .../volumeDevices/NAME/dev/POD.
        """
        source = self._node.source(volume)
        return volume.is_block and await self._node.run(lambda: self._node.mounts.holds(source, path))

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        """The volume's file and what is in it get the size; also that which the controller has not given it."""
        node = self._node
        async with node.alone_with(request.volume_id):
            volume = node.known(request.volume_id)
            self._check_expansion(volume, request)
            node.core.check_still(volume)
            size = grown_bytes(node.core.state, volume, request.capacity_range, node.core.limits)
            source = node.source(volume)
            if volume.is_file:
                await node.run(lambda: node.core.folder.grow(volume.id, size))
            if size > volume.capacity_bytes:
                node.core.journal.put(node.core.state.with_volume(node.known(request.volume_id).grown_to(size)))
            await node.core.journal.flushed()
            await node.run(lambda: node.mounts.grow(source))
        return csi.NodeExpandVolumeResponse(capacity_bytes=size)

    def _check_expansion(self, volume: Volume, request: csi.NodeExpandVolumeRequest) -> None:
        """Raises InvalidArgument, OutOfRange."""
        if not request.volume_path:
            raise DriverError(Code.INVALID_ARGUMENT, "volume_path is required")
        if not request.HasField("capacity_range"):
            raise DriverError(Code.INVALID_ARGUMENT, "capacity_range is required")
        check_growth(volume, request.capacity_range, self._node.core.options)
        if request.HasField("volume_capability"):
            check_fits(volume, request.volume_capability)
        kind = kind_of(Path(request.volume_path))
        if not kind:
            raise DriverError(Code.INVALID_ARGUMENT, f"volume_path: nothing is at {request.volume_path!r}")
        if (kind == "folder") is volume.is_block:
            wanted = "a block volume's" if volume.is_block else "a mounted volume's"
            raise DriverError(
                Code.INVALID_ARGUMENT, f"volume_path: {request.volume_path!r} is a {kind}, and not {wanted}"
            )


def kind_of(path: Path) -> str:
    """`folder`, `device` or `file` (a block volume that is linked), "" for anything else."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    return "folder" if stat.S_ISDIR(mode) else "device" if stat.S_ISBLK(mode) else "file" if stat.S_ISREG(mode) else ""


def usage_of(volume: Volume, path: Path) -> list[Usage]:
    """Bytes and inodes of the file system at the path; of a block volume its size. Nothing where they can't be told.
    Raises OSError.
    """
    if volume.is_block:
        return [Usage(unit=Usage.BYTES, total=volume.capacity_bytes)]
    try:
        found = os.statvfs(path)
    except FileNotFoundError:  # a link to data that is gone: the condition says so
        return []
    size = found.f_frsize
    used = (found.f_blocks - found.f_bfree) * size
    return [
        Usage(unit=Usage.BYTES, total=found.f_blocks * size, available=found.f_bavail * size, used=used),
        Usage(unit=Usage.INODES, total=found.f_files, available=found.f_favail, used=found.f_files - found.f_ffree),
    ]


def node_condition(mounts: Mounts, source: Source, path: Path) -> csi.VolumeCondition:
    """The condition that a node sees: the data is there, and at the path. In csi-driver-host-path's words. Raises
    OSError.
    """
    if not source.path.exists():
        return csi.VolumeCondition(abnormal=True, message="The source path of the volume doesn't exist")
    if not mounts.shows(source, path):
        return csi.VolumeCondition(abnormal=True, message="The volume isn't mounted")
    return csi.VolumeCondition(message="the volume is mounted")
