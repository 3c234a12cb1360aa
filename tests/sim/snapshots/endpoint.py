"""The driver's end of the line: what one incarnation of the snapshotter calls, in front of the one backend."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from mooring.csi.capabilities import DriverInfo
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.sim.mortal import Mortal
from tests.sim.snapshots.habits import CREATE, CREATE_GROUP, DELETE, DELETE_GROUP
from tests.sim.snapshots.plan import DRIVER, Plan

T = TypeVar("T")
_RPC: Final = csi.ControllerServiceCapability.RPC
_SERVICE: Final = csi.PluginCapability.Service


def info_of(plan: Plan) -> DriverInfo:
    """What the driver says of itself."""
    controller = {
        _RPC.CREATE_DELETE_SNAPSHOT,
        *((_RPC.LIST_SNAPSHOTS,) if plan.lists else ()),
        *((_RPC.GET_SNAPSHOT,) if plan.gets else ()),
    }
    plugin = {_SERVICE.CONTROLLER_SERVICE, *((_SERVICE.GROUP_CONTROLLER_SERVICE,) if plan.groups else ())}
    return DriverInfo(DRIVER, "1", frozenset(plugin), frozenset(), frozenset(controller))


class Endpoint:
    """A plugin for InProcessDriver."""

    def __init__(self, world: Any, mortal: Mortal) -> None:
        self._world, self._mortal, self._backend = world, mortal, world.backend

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        wants_secret = "secret" in request.parameters
        work = self._backend.create(request.name, request.source_volume_id, request.secrets, wants_secret=wants_secret)
        return csi.CreateSnapshotResponse(snapshot=await self._call(CREATE, request.name, work))

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        await self._call(DELETE, request.snapshot_id, self._backend.delete(request.snapshot_id, request.secrets))
        return csi.DeleteSnapshotResponse()

    async def create_volume_group_snapshot(
        self, request: csi.CreateVolumeGroupSnapshotRequest
    ) -> csi.CreateVolumeGroupSnapshotResponse:
        work = self._backend.create_group(request.name, request.source_volume_ids)
        return csi.CreateVolumeGroupSnapshotResponse(group_snapshot=await self._call(CREATE_GROUP, request.name, work))

    async def delete_volume_group_snapshot(
        self, request: csi.DeleteVolumeGroupSnapshotRequest
    ) -> csi.DeleteVolumeGroupSnapshotResponse:
        await self._call(DELETE_GROUP, request.group_snapshot_id, self._backend.delete_group(request.group_snapshot_id))
        return csi.DeleteVolumeGroupSnapshotResponse()

    # -- questions

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """A snapshot that is being cut need not be listed."""
        handle, volume = request.snapshot_id, request.source_volume_id
        await self._asked(f"list {handle or volume}")
        wanted = (
            [handle] if handle else [snap.handle for snap in self._backend.snapshots.values() if snap.volume == volume]
        )
        hidden = {
            one for one in wanted if not self._backend.is_ready(one) and self._world.randomness["backend"].happens(0.3)
        }
        found = [one for one in self._backend.listed(handle, volume, request.secrets) if one not in hidden]
        return csi.ListSnapshotsResponse(entries=[{"snapshot": self._backend.shown(one, asked=True)} for one in found])

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        await self._asked(f"get {request.snapshot_id}")
        if not self._backend.listed(request.snapshot_id, "", request.secrets):
            raise DriverError(Code.NOT_FOUND, "no such snapshot")
        return csi.GetSnapshotResponse(snapshot=self._backend.shown(request.snapshot_id, asked=True))

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        await self._asked(f"get group {request.group_snapshot_id}")
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot=self._backend.shown_group(request.group_snapshot_id))

    async def controller_get_capabilities(
        self, _: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        able = sorted(info_of(self._world.plan).controller)
        return csi.ControllerGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in able])

    # -- how a call goes

    async def _asked(self, what: str) -> None:
        await self._mortal.point(f"before {what}")
        self._tell(what)
        self._world.laws.done(self._mortal.who, what, self._world.clock.now())
        self._world.laws.counts["questions"] += 1
        await self._backend.answer_time()

    async def _call(self, verb: str, name: str, work: Any) -> Any:
        what = f"{verb} {name}"
        try:
            await self._mortal.point(f"before {what}")
            self._tell(what)
            self._world.laws.done(self._mortal.who, what, self._world.clock.now())
            self._world.laws.call_begins(self._mortal.who, verb, name)
            answer = await self._answer(work)
            await self._mortal.point(f"after {what}")
        except DriverError as error:
            self._tell(f"{what}: {error}")
            raise
        finally:
            work.close()
            if self._mortal.alive:
                self._world.laws.call_ends(self._mortal.who, name)
        self._tell(f"{what}: ok")
        return answer

    async def _answer(self, work: Awaitable[T]) -> T:
        await self._world.clock.sleep(0)
        return await work

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)
