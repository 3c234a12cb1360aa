"""A scripted driver's mounts and devices as real ones, for scenes in a mount namespace of their own."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts import system
from mooring.mounts.targets import mount_table
from tests.support.node_driver import PUBLISH, NodeDriver


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def umount(point: Path) -> None:
    subprocess.run(["umount", str(point)], check=True)


def a_loop_device(image: Path) -> int:
    """Its number."""
    return os.stat(system.run("losetup", "-f", "--show", str(image)).strip()).st_rdev


def remove_device(path: Path) -> None:
    if path.is_block_device():
        path.unlink()


def _plain(point: str | Path) -> Path:
    """As the kernel has it, without links."""
    return Path(point).parent.resolve() / Path(point).name


class RealMounts:
    """In place of a fake table: the first mount of a volume is a tmpfs, further ones are bound to it. root: the node's,
    itself a mount.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._first: dict[str, str] = {}

    @property
    def points(self) -> list[str]:
        return [one.point for one in mount_table().below(str(self._root))][1:]

    def mount(self, point: str | Path, *, root: str = "/", device: str = "") -> None:
        point = _plain(point)
        Path(point).mkdir(exist_ok=True)
        if mount_table().at(str(point)) is not None:
            return
        first = self._first.setdefault(root, str(point))
        if first == str(point):
            mount("-t", "tmpfs", "-o", "size=64k", "none", point)
        else:
            mount("--bind", first, point)

    def unmount(self, point: str | Path, *, keeps_folder: bool = False) -> None:
        point = _plain(point)
        if mount_table().at(str(point)) is not None:
            umount(Path(point))
        if not keeps_folder and Path(point).is_dir():
            os.rmdir(point)


class DeviceDriver(NodeDriver):
    """Its devices are a loop device's."""

    def __init__(self, mounts: Any, image: Path) -> None:
        super().__init__(mounts)
        self.image = image

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if request.volume_capability.HasField("block"):
            number = a_loop_device(self.image)

            def publish() -> csi.NodePublishVolumeResponse:
                os.mknod(request.target_path, stat.S_IFBLK | 0o600, number)
                return csi.NodePublishVolumeResponse()

            return await self._call(PUBLISH, request, request.volume_id, publish)
        return await super().node_publish_volume(request)

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        remove_device(Path(request.target_path))
        return await super().node_unpublish_volume(request)
