"""A driver whose volumes and snapshots are folders with what was written in them, for tests with real clients.

    python -m tests.support.folder_driver FOLDER SOCKET

In the folder:

volumes/<id>/data/    what a pod would have written
volumes/<id>/nodes/   a file for each node that the volume is published on
snapshots/<id>/       the data, as it was

faults/<method>       what `fail` wrote: the code and the message with which the method answers until `heal`

A class's parameter `room` says how many bytes the largest volume may have.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.capabilities import Capability
from mooring.driver.sdk import Plugin
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code
from tests.support.programs import Program

Expansion = csi.PluginCapability.VolumeExpansion
_BYTES_LEAST = 1 << 20


class FolderDriver(Plugin):
    """Over one folder, which outlives it."""

    name = "folders.csi.test"
    vendor_version = "1"
    volume_expansion = (Expansion.ONLINE,)
    controller_flags = (Capability.CLONE_VOLUME,)

    def __init__(self, folder: Path) -> None:
        self.volumes, self.snapshots, self._faults = folder / "volumes", folder / "snapshots", folder / "faults"
        self.volumes.mkdir(parents=True, exist_ok=True)
        self.snapshots.mkdir(exist_ok=True)
        self._faults.mkdir(exist_ok=True)

    def fail(self, method: str, code: Code, message: str) -> None:
        """From now on the method, as `create_volume`, fails before it does anything."""
        (self._faults / f".{method}").write_text(f"{code.value} {message}")
        (self._faults / f".{method}").rename(self._faults / method)

    def heal(self, method: str) -> None:
        (self._faults / method).unlink()

    def _check(self, method: str) -> None:
        if (self._faults / method).exists():
            code, _, message = (self._faults / method).read_text().partition(" ")
            raise DriverError(Code(int(code)), message)

    def data(self, volume_id: str) -> Path:
        return self.volumes / volume_id / "data"

    def nodes(self, volume_id: str) -> list[str]:
        return sorted(path.name for path in (self.volumes / volume_id / "nodes").iterdir())

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self._check("create_volume")
        volume, room = self.volumes / request.name, request.parameters.get("room")
        if room and request.capacity_range.required_bytes > int(room):
            raise DriverError(Code.RESOURCE_EXHAUSTED, f"the pool has {room} bytes left")
        if not volume.exists():
            making = self.volumes / f".{request.name}"
            shutil.rmtree(making, ignore_errors=True)
            (making / "nodes").mkdir(parents=True)
            source = self._source(request.volume_content_source)
            if source is None:
                (making / "data").mkdir()
            else:
                shutil.copytree(source, making / "data")
            _write_size(making, max(request.capacity_range.required_bytes, _BYTES_LEAST))
            making.rename(volume)
        described = csi.Volume(volume_id=request.name, capacity_bytes=_size(volume))
        if request.HasField("volume_content_source"):
            described.content_source.CopyFrom(request.volume_content_source)
        return csi.CreateVolumeResponse(volume=described)

    def _source(self, source: csi.VolumeContentSource) -> Path | None:
        """The folder that a new volume is a copy of."""
        match source.WhichOneof("type"):
            case "snapshot":
                return _there(self.snapshots / source.snapshot.snapshot_id) / "data"
            case "volume":
                return _there(self.volumes / source.volume.volume_id) / "data"
        return None

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        self._check("delete_volume")
        volume = self.volumes / request.volume_id
        if volume.exists():
            if self.nodes(request.volume_id):
                raise DriverError(Code.FAILED_PRECONDITION, f"volume {request.volume_id!r} is published")
            shutil.rmtree(volume)
        return csi.DeleteVolumeResponse()

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        self._check("controller_publish_volume")
        (_there(self.volumes / request.volume_id) / "nodes" / request.node_id).touch()
        return csi.ControllerPublishVolumeResponse(publish_context={"folder": str(self.data(request.volume_id))})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        self._check("controller_unpublish_volume")
        (self.volumes / request.volume_id / "nodes" / request.node_id).unlink(missing_ok=True)
        return csi.ControllerUnpublishVolumeResponse()

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        self._check("controller_expand_volume")
        volume = _there(self.volumes / request.volume_id)
        _write_size(volume, max(_size(volume), request.capacity_range.required_bytes))
        return csi.ControllerExpandVolumeResponse(capacity_bytes=_size(volume), node_expansion_required=False)

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        self._check("create_snapshot")
        snapshot, volume = self.snapshots / request.name, _there(self.volumes / request.source_volume_id)
        if not snapshot.exists():
            making = self.snapshots / f".{request.name}"
            shutil.rmtree(making, ignore_errors=True)
            shutil.copytree(volume / "data", making / "data")
            _write_size(making, _size(volume))
            making.rename(snapshot)
        taken = Timestamp(seconds=int(snapshot.stat().st_mtime))
        described = csi.Snapshot(
            snapshot_id=request.name,
            source_volume_id=request.source_volume_id,
            size_bytes=_size(snapshot),
            creation_time=taken,
            ready_to_use=True,
        )
        return csi.CreateSnapshotResponse(snapshot=described)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        self._check("delete_snapshot")
        snapshot = self.snapshots / request.snapshot_id
        if snapshot.exists():
            shutil.rmtree(snapshot)
        return csi.DeleteSnapshotResponse()


def _there(path: Path) -> Path:
    if not path.is_dir():
        raise DriverError(Code.NOT_FOUND, f"there is no {path.name!r}")
    return path


def _write_size(folder: Path, size: int) -> None:
    (folder / "bytes").write_text(str(size))


def _size(folder: Path) -> int:
    return int((folder / "bytes").read_text())


# -- the program


async def _serve(folder: Path, socket: Path) -> None:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with serving(FolderDriver(folder), str(socket), grace_s=0):
        await told.wait()


def start(folder: Path, socket: Path, log: Path) -> Program:
    """The driver as a program. Another `FolderDriver` over the same folder shows what it has done."""
    return Program([sys.executable, "-m", "tests.support.folder_driver", folder, socket], log)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), Path(sys.argv[2])))
