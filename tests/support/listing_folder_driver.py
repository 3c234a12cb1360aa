"""The driver over folders once more, on another socket, for whoever asks it where its volumes are: it lists them with
their nodes.

python -m tests.support.listing_folder_driver FOLDER SOCKET
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability
from mooring.driver.server import serving
from tests.support.folder_driver import FolderDriver
from tests.support.programs import Program


class ListingFolderDriver(FolderDriver):
    controller_flags = (Capability.LIST_VOLUMES_PUBLISHED_NODES,)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        there = sorted(one.name for one in self.volumes.iterdir() if not one.name.startswith("."))
        entries = [{"volume": {"volume_id": one}, "status": {"published_node_ids": self.nodes(one)}} for one in there]
        return csi.ListVolumesResponse(entries=entries)


async def _serve(folder: Path, socket: Path) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with serving(ListingFolderDriver(folder), str(socket), grace_s=0):
        await told.wait()


def start(folder: Path, socket: Path, log: Path) -> Program:
    return Program([sys.executable, "-m", "tests.support.listing_folder_driver", folder, socket], log)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
