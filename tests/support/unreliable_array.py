"""Unreliable volumes that grow and have snapshots: both as unreliable as `UnreliableVolumes`, while volumes are made
and deleted at once.

The array refuses to grow a volume beyond `SIZE_MAX`, and a snapshot whose class has the parameter `pool`, each time and
with a text. A new snapshot is ready after a while.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Final

from mooring.base.randomness import Random
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.unreliable_volumes import CREATE, DELETE, RPC, SERVICE, UnreliableVolumes

SIZE_MAX: Final = 1 << 40
TOO_LARGE: Final = "no shelf of the array is that large"
NO_POOL: Final = "no pool of that name"
READY_AFTER_S: Final = 0.5
EXPAND, CREATE_SNAPSHOT, DELETE_SNAPSHOT, LIST = "expand", "create snapshot", "delete snapshot", "list"


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """In the backend. name: what it was asked for by. volume: handle of its source."""

    name: str
    volume: str
    made_s: float


class UnreliableArray(UnreliableVolumes):
    """snapshots: by handle, the truth, as volumes are; made counts them, too."""

    def __init__(self, name: str, randomness: Random, *, trouble: float) -> None:
        super().__init__(name, randomness, trouble=trouble)
        self.snapshots: dict[str, Snapshot] = {}
        self._randomness = randomness

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": SERVICE.CONTROLLER_SERVICE}}])

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        can = (RPC.CREATE_DELETE_VOLUME, RPC.EXPAND_VOLUME, RPC.CREATE_DELETE_SNAPSHOT, RPC.LIST_SNAPSHOTS)
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in can])

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        size, handle = request.capacity_range.required_bytes, request.volume_id
        if size > SIZE_MAX:
            raise DriverError(Code.OUT_OF_RANGE, TOO_LARGE)

        def expand() -> csi.ControllerExpandVolumeResponse:
            self.volumes[handle] = dataclasses.replace(self.volumes[handle], size=max(size, self.volumes[handle].size))
            return csi.ControllerExpandVolumeResponse(capacity_bytes=self.volumes[handle].size)

        return await self._call(EXPAND, self.volumes[handle].name, expand)

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        if "pool" in request.parameters:
            raise DriverError(Code.INVALID_ARGUMENT, NO_POOL)

        def create() -> csi.CreateSnapshotResponse:
            handle = next((handle for handle, one in self.snapshots.items() if one.name == request.name), "")
            if not handle:
                self.made[request.name] += 1
                handle = f"{request.name}-{self.made[request.name]}"
                self.snapshots[handle] = Snapshot(
                    request.name, request.source_volume_id, asyncio.get_running_loop().time()
                )
            return csi.CreateSnapshotResponse(snapshot=self._shown(handle))

        return await self._call(CREATE_SNAPSHOT, request.name, create)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        def delete() -> csi.DeleteSnapshotResponse:
            self.snapshots.pop(request.snapshot_id, None)
            return csi.DeleteSnapshotResponse()

        snapshot = self.snapshots.get(request.snapshot_id)
        return await self._call(DELETE_SNAPSHOT, request.snapshot_id if snapshot is None else snapshot.name, delete)

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        def listed() -> csi.ListSnapshotsResponse:
            found = [handle for handle in self.snapshots if request.snapshot_id in ("", handle)]
            return csi.ListSnapshotsResponse(entries=[{"snapshot": self._shown(handle)} for handle in found])

        return await self._call(LIST, f"list of {request.snapshot_id}", listed)

    def _shown(self, handle: str) -> csi.Snapshot:
        snapshot = self.snapshots[handle]
        age_s = asyncio.get_running_loop().time() - snapshot.made_s
        shown = csi.Snapshot(
            snapshot_id=handle, source_volume_id=snapshot.volume, size_bytes=1 << 30, ready_to_use=age_s > READY_AFTER_S
        )
        shown.creation_time.seconds = 1_700_000_000
        return shown

    def _draw(self, method: str, name: str) -> tuple[Code, bool, float]:
        if method in (CREATE, DELETE):
            return Code.OK, True, self._randomness.uniform(0.0, 0.05)
        return super()._draw(method, name)
