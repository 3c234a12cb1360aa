"""The driver that other implementations' clients call, served as every driver of the SDK is. Usage: python -m
bench.interop.driver SOCKET.

What each method does stands in `check.py`; but DeleteSnapshot's text has 5,000 letters: not every client takes more. It
prints `ready` once it listens, and ends in good order at SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from bench.interop.check import TEXT
from mooring.csi.driver import time_left_s
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code


class Answers:
    """No `Plugin`: that would look at the requests. given_up: calls whose client has gone."""

    name = "interop.csi.mooring"

    def __init__(self) -> None:
        self.given_up = 0

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        return csi.ControllerModifyVolumeResponse.FromString(request.SerializeToString())

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        raise DriverError(Code.NOT_FOUND, TEXT)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        raise DriverError(Code.INTERNAL, "x" * 5_000)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            self.given_up += 1

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        return csi.GetCapacityResponse(available_capacity=self.given_up)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        left_s = time_left_s()
        if left_s is None:
            raise DriverError(Code.INVALID_ARGUMENT, "no deadline")
        return csi.ControllerExpandVolumeResponse(capacity_bytes=int(left_s * 1000))

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        await asyncio.sleep(0.3)
        return csi.CreateSnapshotResponse()


async def main(path: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with serving(Answers(), path):
        print("ready", flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
