"""Drivers that break one rule of CSI each, on a good driver that mounts: each class says which."""

from __future__ import annotations

import uuid
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
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


def _make(folder: str) -> None:
    Path(folder).mkdir(exist_ok=True)
