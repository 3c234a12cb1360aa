"""A driver that really mounts, and that keeps all it knows on the disk: killed at any moment, it goes on from there.

    python -m tests.support.mounting_driver FOLDER NAME NODE SOCKET [REGISTRATION_SOCKET]

NODE is "" for the driver beside the attacher. In the folder:

data/VOLUME/              what is mounted; VOLUME.img for a raw device
fuse-VOLUME               of a volume whose name begins with "fuse-": the process that serves it, a FUSE mount
stopped-VOLUME            ... with "fuse-stops-": that process was stopped, at the first publish
attached/VOLUME@NODE      the volume is published to the node
staged/NODE/VOLUME        ... staged there; the text is the path
published/NODE/DIGEST     ... published there; the text is the volume and the path
calls-NODE                a line for each call: method, volume
violations                a line for each call that no orchestrator may make
fate-NODE                 what kills whom: "METHOD before|after PID", obeyed once. PID 0: the driver itself
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from mooring.csi import registration
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.server import serving
from mooring.mounts import system
from mooring.mounts.targets import mount_table
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.server import listening
from mooring.wire.grpc.socket_file import make_room
from tests.support.waiting import eventually

_RPC = csi.ControllerServiceCapability.RPC
_NODE_RPC = csi.NodeServiceCapability.RPC
_MNT_DETACH = 2
IMAGE_BYTES = 4 << 20


class Backend:
    """The folder, for who reads it and for who writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("data", "attached", "staged", "published"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    def left_over(self) -> list[str]:
        """Everything that is still attached, staged or published."""
        found = [path for name in ("attached", "staged", "published") for path in files_below(self.folder / name)]
        return sorted(filter(None, map(_shown, found)))

    def violations(self) -> list[str]:
        return self._lines("violations")

    def calls(self, node: str) -> list[str]:
        """As in `NodeStageVolume vol-1`."""
        return self._lines(f"calls-{node}")

    def set_fate(self, node: str, method: str, when: str, pid: int) -> None:
        """when: before or after the method's effect."""
        _write_whole(self.folder / f"fate-{node}", f"{method} {when} {pid}")

    def forget_fate(self, node: str) -> None:
        (self.folder / f"fate-{node}").unlink(missing_ok=True)

    def has_fate(self, node: str) -> bool:
        return (self.folder / f"fate-{node}").exists()

    def fuse_pid(self, volume: str) -> int:
        """The process that serves a volume of that kind."""
        return int((self.folder / f"fuse-{volume}").read_text())

    def is_first_stop(self, volume: str) -> bool:
        """True once: a server of files that the test lets go on is not stopped by a call that comes again."""
        stopped = self.folder / f"stopped-{volume}"
        was_there = stopped.exists()
        stopped.touch()
        return not was_there

    def add_line(self, name: str, text: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{text}\n")

    def obey(self, node: str, method: str, when: str) -> None:
        """Kills whom the fate names, if it is for this moment."""
        path = self.folder / f"fate-{node}"
        try:
            wanted, moment, pid = path.read_text().split()
        except FileNotFoundError:
            return
        if (wanted, moment) == (method, when):
            path.unlink(missing_ok=True)
            os.kill(int(pid) or os.getpid(), signal.SIGKILL)

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


class MountingDriver:
    """The services of one process."""

    def __init__(self, folder: Path, name: str, node: str) -> None:
        self.backend, self.folder, self.name, self.node = Backend(folder), folder, name, node
        self._locks: dict[str, asyncio.Lock] = {}

    # -- what it is

    async def get_plugin_info(self, _request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="1")

    async def get_plugin_capabilities(
        self, _request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[{"service": {"type": csi.PluginCapability.Service.CONTROLLER_SERVICE}}]
        )

    async def probe(self, _request: csi.ProbeRequest) -> csi.ProbeResponse:
        return csi.ProbeResponse()

    async def controller_get_capabilities(
        self, _request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": _RPC.PUBLISH_UNPUBLISH_VOLUME}}])

    async def node_get_info(self, _request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id=self.node)

    async def node_get_capabilities(self, _request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        return csi.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": _NODE_RPC.STAGE_UNSTAGE_VOLUME}}])

    # -- beside the attacher

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        (self.folder / "attached" / f"{request.volume_id}@{request.node_id}").touch()
        return csi.ControllerPublishVolumeResponse()

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        if (staged := self.folder / "staged" / request.node_id / request.volume_id).exists():
            self.backend.add_line("violations", f"detached while staged: {request.volume_id} at {staged.read_text()}")
        (self.folder / "attached" / f"{request.volume_id}@{request.node_id}").unlink(missing_ok=True)
        return csi.ControllerUnpublishVolumeResponse()

    # -- on the node

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        def stage() -> None:
            _write_whole(self._staged(request.volume_id), request.staging_target_path)
            staging = Path(request.staging_target_path)
            if request.volume_id.startswith("fuse-"):
                self._mount_fuse(request.volume_id, staging)
            elif request.volume_capability.HasField("mount"):
                self._mount(self._data(request.volume_id), staging)

        await self._call("NodeStageVolume", request, stage)
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        def unstage() -> None:
            if published := [
                path for path in self._all_published() if path.read_text().split()[0] == request.volume_id
            ]:
                self.backend.add_line("violations", f"unstaged while published: {published[0].read_text()}")
            unmount_all(Path(request.staging_target_path))
            _detach_loops(self._image(request.volume_id))
            self._staged(request.volume_id).unlink(missing_ok=True)

        await self._call("NodeUnstageVolume", request, unstage)
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        def publish() -> None:
            is_inline = request.volume_id.startswith("csi-")
            if not is_inline and not self._staged(request.volume_id).exists():
                self.backend.add_line("violations", f"published before it was staged: {request.volume_id}")
                raise DriverError(Code.FAILED_PRECONDITION, f"{request.volume_id} is not staged")
            target = Path(request.target_path)
            _write_whole(self._published(request.target_path), f"{request.volume_id} {target}")
            if request.volume_capability.HasField("block"):
                self._mount(_loop_over(self._image(request.volume_id)), target, Path.touch)
            else:
                self._mount(self._data(request.volume_id) if is_inline else Path(request.staging_target_path), target)
            if request.volume_id.startswith("fuse-stops-") and self.backend.is_first_stop(request.volume_id):
                _stop(self.backend.fuse_pid(request.volume_id))

        await self._call("NodePublishVolume", request, publish)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        def unpublish() -> None:
            target = Path(request.target_path)
            unmount_all(target)
            if target.is_dir():
                target.rmdir()
            target.unlink(missing_ok=True)
            self._published(request.target_path).unlink(missing_ok=True)

        await self._call("NodeUnpublishVolume", request, unpublish)
        return csi.NodeUnpublishVolumeResponse()

    # -- how

    async def _call(self, method: str, request: Any, effect: Callable[[], None]) -> None:
        self.backend.add_line(f"calls-{self.node}", f"{method} {request.volume_id}")
        async with self._locks.setdefault(request.volume_id, asyncio.Lock()):
            self.backend.obey(self.node, method, "before")
            await asyncio.to_thread(effect)
            self.backend.obey(self.node, method, "after")

    def _mount(
        self, source: Path, target: Path, make: Callable[[Path], None] = lambda path: path.mkdir(exist_ok=True)
    ) -> None:
        if mount_table().at(str(target)) is None:
            make(target)
            subprocess.run(["mount", "--bind", source, target], check=True, capture_output=True)

    def _mount_fuse(self, volume: str, target: Path) -> None:
        if mount_table().at(str(target)) is None:
            command = [sys.executable, "-m", "tests.support.fuse_folder", target]
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
            )
            assert process.stdout is not None
            assert process.stdout.readline() == b"mounted\n"
            (self.folder / f"fuse-{volume}").write_text(str(process.pid))

    def _data(self, volume: str) -> Path:
        path = self.folder / "data" / volume
        path.mkdir(exist_ok=True)
        return path

    def _image(self, volume: str) -> Path:
        return self.folder / "data" / f"{volume}.img"

    def _staged(self, volume: str) -> Path:
        return self.folder / "staged" / self.node / volume

    def _published(self, target: str) -> Path:
        return self.folder / "published" / self.node / hashlib.sha256(target.encode()).hexdigest()[:16]

    def _all_published(self) -> list[Path]:
        return [path for path in (self.folder / "published" / self.node).glob("*") if not path.name.startswith(".")]


def files_below(folder: Path) -> list[Path]:
    """Every file in it and below it; what goes meanwhile may be missing."""
    return [Path(where) / name for where, _, names in os.walk(folder) for name in names]


def _shown(path: Path) -> str:
    try:
        return f"{path.parent.name}/{path.name} {path.read_text()}".strip()
    except FileNotFoundError:
        return ""


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    making = path.with_name(f".{path.name}")
    making.write_text(text)
    making.rename(path)


def unmount_all(point: Path) -> None:
    """Every mount on the point, by the system's call alone: umount(8) would look into the mount, and one that hangs
    would hold it.
    """
    for _ in [mount for mount in mount_table() if mount.point == str(point)]:
        if ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(point), _MNT_DETACH) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(point))


def _stop(pid: int) -> None:
    """Stops a server of files before it reads another request: from one that was read the kernel sets nobody free, not
    even by SIGKILL.
    """
    os.kill(pid, signal.SIGSTOP)
    state = Path(f"/proc/{pid}/stat")
    eventually(
        lambda: state.read_text().rpartition(") ")[2].startswith("T"), 10, "the server of files is stopped", 0.01
    )


def _loop_over(image: Path) -> Path:
    if not image.exists():
        with image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
    found = loops_over(image)
    if not found:
        found = [system.run("losetup", "--find", "--show", str(image)).strip()]
    return Path(found[0])


def loops_over(file: Path) -> list[str]:
    """The loop devices over this file."""
    return system.run("losetup", "--associated", str(file), "--noheadings", "--output", "NAME").split()


def _detach_loops(image: Path) -> None:
    if image.exists():
        for device in loops_over(image):
            system.run("losetup", "--detach", device)


# -- the program


async def _serve(folder: Path, name: str, node: str, socket: Path, plugin: Path | None) -> None:
    socket.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(MountingDriver(folder, name, node), str(socket), grace_s=0))
        if plugin is not None:
            plugin.parent.mkdir(parents=True, exist_ok=True)
            info = registration.PluginInfo(
                type="CSIPlugin", name=name, endpoint=str(socket), supported_versions=("1.0.0",)
            )

            async def notified(status: registration.RegistrationStatus) -> None:
                text = "registered" if status.plugin_registered else f"refused: {status.error}"
                print(f"the plugin is {text}", file=sys.stderr, flush=True)

            make_room(plugin)
            await stack.enter_async_context(listening(registration.methods(lambda: info, notified), plugin, grace_s=0))
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    own, driver_name, on_node, at, *reg = sys.argv[1:]
    asyncio.run(_serve(Path(own), driver_name, on_node, Path(at), Path(reg[0]) if reg else None))
