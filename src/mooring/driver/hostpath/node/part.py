"""The part that all calls of one node share: its id, its mounts, and the volumes as it knows them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.driver.blocking import blocking
from mooring.driver.hostpath.core import Core, check_whole
from mooring.driver.hostpath.node.mount_mode import MountMode
from mooring.driver.hostpath.node.mounting import Mounts, Source
from mooring.driver.hostpath.node.volume_locks import CrossNodeLocks
from mooring.driver.hostpath.state import Use, Volume
from mooring.wire.grpc.codes import Code

T = TypeVar("T")


class NodePart(msgspec.Struct, frozen=True):
    """One node of the driver. Several share the core, the mount mode and the locks."""

    core: Core
    node_id: str
    mount_mode: MountMode
    locks: CrossNodeLocks

    @property
    def mounts(self) -> Mounts:
        """For threads: asked for the first time, it blocks."""
        return self.mount_mode.mounts()

    def find(self, volume_id: str) -> Volume | None:
        return self.core.state.volumes.get(volume_id) or self.core.state.inline(volume_id)

    def known(self, volume_id: str) -> Volume:
        """Raises NotFound; Aborted while the volume's data is on its way."""
        volume = self.find(volume_id)
        if volume is None:
            raise DriverError(Code.NOT_FOUND, f"there is no volume {volume_id!r}")
        check_whole(volume)
        return volume

    def use_of(self, volume: Volume) -> Use:
        return volume.use_on(self.node_id) or Use(self.node_id)

    async def save_use(self, volume_id: str, use: Use) -> None:
        """Replaces what this node has of the volume, in its newest record, and returns once the disk has that. Raises
        DriverError.

        Who does anything else between the two doesn't hear that another caller's write has failed, and undone the
        change.
        """
        volume = self.core.state.volumes.get(volume_id)
        if volume is not None:
            self.core.journal.put(self.core.state.with_volume(volume.used(use)))
        await self.core.journal.flushed()

    def source(
        self, volume: Volume, capability: csi.VolumeCapability | None = None, *, readonly: bool = False
    ) -> Source:
        """The volume's data, wanted as the capability says."""
        mount = csi.VolumeCapability.MountVolume() if capability is None else capability.mount
        path = self.core.folder.data(volume.id)
        return Source(path, volume.is_block, volume.is_image, mount.fs_type, tuple(mount.mount_flags), readonly)

    def own_staging(self, volume: Volume) -> Path:
        """A staging path of the driver's own, for volumes that nobody stages."""
        return self.core.folder.mount_point(f"{volume.id}-{hashlib.sha256(self.node_id.encode()).hexdigest()[:8]}")

    async def run(self, work: Callable[[], T]) -> T:
        """Blocking work, in a thread, to its end. Raises DriverError."""
        return await blocking(work)

    @asynccontextmanager
    async def alone_with(self, volume_id: str) -> AsyncGenerator[None, None]:
        """No other node's call for the volume runs meanwhile."""
        volume = self.find(volume_id)
        async with self.locks.alone_with(volume.id if volume is not None else volume_id):
            yield
