"""A driver under the name of the one that took over `gcePersistentDisk`, with disks that are there already, as a
command for `mooring dev`.

Its disks are those of `MountDriver`, by the last part of their handles: as the real one it finds out by itself where a
disk is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

from mooring.csi.proto import csi_pb2 as csi
from tests.support import mount_driver
from tests.support.mount_driver import MountDriver

COMMAND = [sys.executable, "-m", "tests.support.gce_driver"]
PLACE = "projects/p1/zones/z1"
Request = TypeVar("Request", csi.ControllerPublishVolumeRequest, csi.ControllerUnpublishVolumeRequest)


class GceDriver(MountDriver):
    name = "pd.csi.storage.gke.io"

    def data(self, volume_id: str) -> Path:
        return super().data(volume_id.rpartition("/")[2])

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        return await super().controller_publish_volume(_by_name(request))

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        return await super().controller_unpublish_volume(_by_name(request))


def _by_name(request: Request) -> Request:
    """With the names of disk and node in place of their paths."""
    named = type(request)()
    named.CopyFrom(request)
    named.volume_id, named.node_id = request.volume_id.rpartition("/")[2], request.node_id.rpartition("/")[2]
    return named


if __name__ == "__main__":
    mount_driver.main(GceDriver)
