"""Drivers that break one rule of CSI each, on a good driver that mounts: each class says which."""

from __future__ import annotations

import subprocess
import uuid
from pathlib import Path

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.mount_driver import MountDriver


class NotIdempotent(MountDriver):
    """Makes a new volume for each CreateVolume, whatever its name."""

    breaks = "CSI201"

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        renamed = csi.CreateVolumeRequest()
        renamed.CopyFrom(request)
        renamed.name = f"{request.name}-{uuid.uuid4().hex[:8]}"
        return await super().create_volume(renamed)


class PlainFolder(MountDriver):
    """Publishes a folder on which nothing is mounted."""

    breaks = "CSI511"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        _make(request.target_path)
        return csi.NodePublishVolumeResponse()


class LeavesTarget(MountDriver):
    """Leaves the folder of a pod's volume behind when it is unmounted."""

    breaks = "CSI515"

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        answer = await super().node_unpublish_volume(request)
        _make(request.target_path)
        return answer


class MountsAgain(MountDriver):
    """Mounts on target_path once more with each call."""

    breaks = "CSI521"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        _make(request.target_path)
        _bind(request.staging_target_path, request.target_path)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        while _unmount(request.target_path):
            pass
        return await super().node_unpublish_volume(request)


class ExpectsTarget(MountDriver):
    """Leaves it to its caller to make target_path."""

    breaks = "CSI522"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if not _is_there(request.target_path):
            raise DriverError(Code.INTERNAL, f"mount: {request.target_path}: No such file or directory")
        return await super().node_publish_volume(request)


class FileForFolder(MountDriver):
    """Mounts a file where a pod wants a folder."""

    breaks = "CSI514"

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        _bind_file(request.staging_target_path, request.target_path)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        _unmount(request.target_path)
        _remove(request.target_path)
        return csi.NodeUnpublishVolumeResponse()


def _make(folder: str) -> None:
    Path(folder).mkdir(exist_ok=True)


def _is_there(path: str) -> bool:
    return Path(path).exists()


def _bind(source: str, target: str) -> None:
    subprocess.run(["mount", "--bind", source, target], check=True)


def _bind_file(folder: str, target: str) -> None:
    file = Path(folder, "disk.img")
    file.touch()
    Path(target).touch()
    if f" {target} " not in Path("/proc/self/mountinfo").read_text():
        _bind(str(file), target)


def _unmount(path: str) -> bool:
    """True where something was mounted."""
    return subprocess.run(["umount", path], check=False, capture_output=True).returncode == 0


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)
