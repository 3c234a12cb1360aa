"""Drivers that hold up whoever runs them, each at one place: they hang, they block the event loop, or they fail.

Volumes are folders below $MOUNT_DRIVER_FOLDER.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.sdk import Code, DriverError, Plugin
from mooring.mounts import targets

LONG_S = 1000.0


async def hang() -> None:
    print("it hangs", flush=True)
    await asyncio.sleep(LONG_S)


def block() -> None:
    print("it blocks", flush=True)
    time.sleep(LONG_S)


class Working(Plugin):
    name = "hanging.csi.test"
    vendor_version = "1"

    def __init__(self, node_id: str = "") -> None:
        self.node_id, self._folder = node_id, Path(os.environ["MOUNT_DRIVER_FOLDER"])

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        (self._folder / request.name).mkdir(parents=True, exist_ok=True)
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id=request.name, capacity_bytes=1 << 30))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        await blocking(targets.bind, self._folder / request.volume_id, targets.plain(request.target_path))
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        await blocking(targets.withdraw, targets.plain(request.target_path))
        return csi.NodeUnpublishVolumeResponse()


class ConstructorBlocks(Working):
    def __init__(self) -> None:
        super().__init__()
        block()


class ProbeHangs(Working):
    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        await hang()
        raise AssertionError


class ProbeBlocks(Working):
    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        block()
        raise AssertionError


class InfoIgnoresItsEnd(Working):
    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await hang()


class UnpublishHangs(Working):
    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        await hang()
        raise AssertionError


class UnpublishBlocks(Working):
    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        block()
        raise AssertionError


class UnpublishHangsInAThread(Working):
    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        await blocking(block)
        raise AssertionError


class UnpublishFails(Working):
    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        raise DriverError(Code.INTERNAL, "no storage today")
