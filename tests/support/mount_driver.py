"""A driver of somebody's own, with a node service that really mounts, for `mooring dev --driver` in all its forms.

    module:Class    tests.support.mount_driver:MountDriver
    a command       python -m tests.support.mount_driver --endpoint unix://SOCKET [--node NAME]

Its volumes are folders below $MOUNT_DRIVER_FOLDER. As a program it leaves a line on its output for each node call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from tests.support.folder_driver import FolderDriver
from tests.support.mount_namespace import MountNamespace
from tests.support.programs import Program

FOLDER = "MOUNT_DRIVER_FOLDER"
NAME = "mine.csi.test"
COMMAND = [sys.executable, "-m", "tests.support.mount_driver"]


class MountDriver(FolderDriver):
    name = NAME
    volume_expansion = ()

    def __init__(self) -> None:
        super().__init__(Path(os.environ[FOLDER]))

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        _bind(self.data(request.volume_id), Path(request.staging_target_path))
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        _unmount(Path(request.staging_target_path))
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        _bind(Path(request.staging_target_path), Path(request.target_path))
        print(f"{self.node_id} publishes {request.volume_id}", flush=True)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        _unmount(Path(request.target_path), removes=True)
        return csi.NodeUnpublishVolumeResponse()


class NoNodes(FolderDriver):
    """Controller calls alone."""

    name = "controller.csi.test"

    def __init__(self) -> None:
        super().__init__(Path(os.environ[FOLDER]))


class NeedsArguments(MountDriver):
    def __init__(self, folder: Path) -> None:
        super().__init__()


class Broken(MountDriver):
    def __init__(self) -> None:
        raise ValueError("this driver has no backend")


class NoDriver:
    """Has no method of a driver."""


def _bind(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    if not _is_mounted(target):
        subprocess.run(["mount", "--bind", source, target], check=True)


def _unmount(target: Path, *, removes: bool = False) -> None:
    if _is_mounted(target):
        subprocess.run(["umount", target], check=True)
    if removes and target.is_dir():
        target.rmdir()


def _is_mounted(path: Path) -> bool:
    return any(line.split()[4] == str(path) for line in Path("/proc/self/mountinfo").read_text().splitlines())


# -- the program


async def _serve(driver: MountDriver, endpoint: str, node: str) -> None:
    driver.node_id = node
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with serving(driver, endpoint, grace_s=0):
        await told.wait()
    print("ended in good order", flush=True)


def start(folder: Path, socket: Path, log: Path, namespace: MountNamespace) -> Program:
    """The driver as a program, over the folder."""
    return Program(
        namespace.command(*COMMAND, "--endpoint", f"unix://{socket}"), log, {**os.environ, FOLDER: str(folder)}
    )


def main(made: type[MountDriver] = MountDriver) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--node", default="own-id")
    flags = parser.parse_args()
    asyncio.run(_serve(made(), flags.endpoint, flags.node))


if __name__ == "__main__":
    main()
