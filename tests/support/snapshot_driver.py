"""A scripted driver that makes, lists and deletes snapshots, alone and in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.scripted_driver import RPC, ScriptedDriver

CREATE, DELETE, LIST, GET = "CreateSnapshot", "DeleteSnapshot", "ListSnapshots", "GetSnapshot"
CREATE_GROUP, DELETE_GROUP, GET_GROUP = (
    "CreateVolumeGroupSnapshot",
    "DeleteVolumeGroupSnapshot",
    "GetVolumeGroupSnapshot",
)
SERVICE: Final = csi.PluginCapability.Service
GiB = 1 << 30
CREATED_S: Final = 1_700_000_000


class SnapshotDriver(ScriptedDriver):
    """snapshots: handle -> its message, the truth of the backend. ready: whether they are. answer: a snapshot that each
    creation gives.

    spells: the handle of a volume as answers have it.
    """

    def __init__(self, name: str = "csi.test", controller: Iterable[int] = (), *, groups: bool = False) -> None:
        plugin = [SERVICE.CONTROLLER_SERVICE, *([SERVICE.GROUP_CONTROLLER_SERVICE] if groups else [])]
        super().__init__(name, (RPC.CREATE_DELETE_SNAPSHOT, *controller), plugin)
        self.snapshots: dict[str, csi.Snapshot] = {}
        self.groups: dict[str, list[str]] = {}
        self.ready = True
        self.answer: csi.Snapshot | None = None
        self.spells: Callable[[str], str] = str

    def add(self, handle: str, volume: str = "vol", **fields: Any) -> csi.Snapshot:
        """A snapshot as this driver makes them."""
        given = {"size_bytes": GiB, "ready_to_use": self.ready, **fields}
        made = self.snapshots.setdefault(handle, csi.Snapshot(snapshot_id=handle, source_volume_id=volume, **given))
        made.creation_time.seconds = CREATED_S
        return made

    def _shown(self, handle: str) -> csi.Snapshot:
        found = self.snapshots[handle]
        found.ready_to_use = self.ready
        shown = csi.Snapshot()
        shown.CopyFrom(found)
        shown.source_volume_id = self.spells(found.source_volume_id)
        return shown

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        def create() -> csi.CreateSnapshotResponse:
            handle = f"h-{request.name}"
            self.add(handle, request.source_volume_id)
            return csi.CreateSnapshotResponse(snapshot=self.answer or self._shown(handle))

        return await self._call(CREATE, request, request.name, create)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        def delete() -> csi.DeleteSnapshotResponse:
            self.snapshots.pop(request.snapshot_id, None)
            return csi.DeleteSnapshotResponse()

        return await self._call(DELETE, request, request.snapshot_id, delete)

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        def listed() -> csi.ListSnapshotsResponse:
            wanted = request.snapshot_id, request.source_volume_id
            found = [
                handle
                for handle, one in self.snapshots.items()
                if all(want in ("", value) for want, value in zip(wanted, (handle, one.source_volume_id), strict=True))
            ]
            return csi.ListSnapshotsResponse(entries=[{"snapshot": self._shown(handle)} for handle in found])

        return await self._call(LIST, request, "", listed)

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        def got() -> csi.GetSnapshotResponse:
            if request.snapshot_id not in self.snapshots:
                raise DriverError(Code.NOT_FOUND, "no such snapshot")
            return csi.GetSnapshotResponse(snapshot=self._shown(request.snapshot_id))

        return await self._call(GET, request, "", got)

    # -- groups

    async def group_controller_get_capabilities(
        self, request: csi.GroupControllerGetCapabilitiesRequest
    ) -> csi.GroupControllerGetCapabilitiesResponse:
        kind = csi.GroupControllerServiceCapability.RPC.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT
        return csi.GroupControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": kind}}])

    def _group(self, handle: str) -> csi.VolumeGroupSnapshot:
        members = [self._shown(one) for one in self.groups[handle]]
        made = csi.VolumeGroupSnapshot(group_snapshot_id=handle, snapshots=members, ready_to_use=self.ready)
        made.creation_time.seconds = CREATED_S
        return made

    async def create_volume_group_snapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest
    ) -> csi.CreateVolumeGroupSnapshotResponse:
        def create() -> csi.CreateVolumeGroupSnapshotResponse:
            handle = f"g-{request.name}"
            for volume in request.source_volume_ids:
                self.add(f"{handle}-{volume}", volume, group_snapshot_id=handle)
            self.groups[handle] = [f"{handle}-{volume}" for volume in request.source_volume_ids]
            return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=self._group(handle))

        return await self._call(CREATE_GROUP, request, request.name, create)

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        def got() -> csi.GetVolumeGroupSnapshotResponse:
            if request.group_snapshot_id not in self.groups:
                raise DriverError(Code.NOT_FOUND, "no such group")
            return csi.GetVolumeGroupSnapshotResponse(group_snapshot=self._group(request.group_snapshot_id))

        return await self._call(GET_GROUP, request, "", got)

    async def delete_volume_group_snapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
        def delete() -> csi.DeleteVolumeGroupSnapshotResponse:
            for handle in self.groups.pop(request.group_snapshot_id, []):
                self.snapshots.pop(handle, None)
            return csi.DeleteVolumeGroupSnapshotResponse()

        return await self._call(DELETE_GROUP, request, request.group_snapshot_id, delete)
