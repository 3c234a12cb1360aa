"""A cluster in memory on which `mooring unstick` is run, in virtual time."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Mapping
from typing import Any

from mooring.api.coordination import LEASES
from mooring.apiserver.local import ServerFaults
from mooring.base.clock import rfc3339_micro
from mooring.cli.unstick import UnstickCommand, UnstickFlags
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.builders import Json, a_lease
from tests.support.cluster_world import ClusterWorld
from tests.support.orphaned import Listing
from tests.support.scripted_driver import RPC


class Publishing(Listing):
    """A driver that says where it has its volumes, and which snapshots. gets: it looks one up by name. snapshots: their
    handles.
    """

    def __init__(
        self, *handles: str, gets: bool = False, says_where: bool = True, place: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(*handles, place=place)
        self.controller = (
            *((RPC.GET_VOLUME, RPC.GET_SNAPSHOT) if gets else (RPC.LIST_VOLUMES, RPC.LIST_SNAPSHOTS)),
            *((RPC.LIST_VOLUMES_PUBLISHED_NODES,) if says_where else ()),
        )
        self.snapshots: set[str] = set()

    async def controller_get_volume(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        if request.volume_id not in self.volumes:
            raise DriverError(Code.NOT_FOUND, "no such volume")
        entry = self._entry(request.volume_id)
        return csi.ControllerGetVolumeResponse(volume=entry["volume"], status=entry["status"])

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        found = self.snapshots & {request.snapshot_id}
        return csi.ListSnapshotsResponse(entries=[{"snapshot": {"snapshot_id": one}} for one in found])

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        if request.snapshot_id not in self.snapshots:
            raise DriverError(Code.NOT_FOUND, "no such snapshot")
        return csi.GetSnapshotResponse(snapshot={"snapshot_id": request.snapshot_id})


class Grouping(Publishing):
    """It has groups of snapshots, too: their handles."""

    def __init__(self, *groups: str) -> None:
        super().__init__()
        self.plugin = (*self.plugin, csi.PluginCapability.Service.GROUP_CONTROLLER_SERVICE)
        self.groups = set(groups)

    async def get_volume_group_snapshot(
        self, request: csi.GetVolumeGroupSnapshotRequest
    ) -> csi.GetVolumeGroupSnapshotResponse:
        if request.group_snapshot_id not in self.groups:
            raise DriverError(Code.NOT_FOUND, "no such group")
        return csi.GetVolumeGroupSnapshotResponse(group_snapshot={"group_snapshot_id": request.group_snapshot_id})


class UnstickWorld(ClusterWorld):
    """servicer: the driver that is asked, None for none."""

    def __init__(self, faults: ServerFaults | None = None, servicer: Any = None) -> None:
        super().__init__(faults)
        self.servicer = servicer
        self.out, self.err = io.StringIO(), io.StringIO()

    async def unstick(self, *words: str, typed: str = "", **flags: Any) -> int:
        """The exit code."""
        self.story.clear()
        self.out, self.err = io.StringIO(), io.StringIO()
        driver = None if self.servicer is None else InProcessDriver(self.servicer, clock=self.clock)
        streams = (io.StringIO(typed), self.out, self.err)
        return await UnstickCommand(
            UnstickFlags(**flags), words, "default", self.cluster, driver, self.clock, streams
        ).run()

    async def judged(self, *words: str, **flags: Any) -> dict[str, Json]:
        """The verdict on each finalizer, of a look that writes nothing."""
        await self.unstick(*words, dry_run=True, output="json", **flags)
        assert not [step for step in self.story if not step.startswith(("get", "list", "serves"))], self.story
        assert not [step for step in self.story if "secrets" in step], self.story
        return {one["name"]: one for one in json.loads(self.out.getvalue())["finalizers"]}

    async def against(self, *words: str, **flags: Any) -> list[str]:
        """All that speaks against the end of any finalizer."""
        return [one["what"] for verdict in (await self.judged(*words, **flags)).values() for one in verdict["against"]]

    async def proved(self, *words: str, **flags: Any) -> list[str]:
        return [text for verdict in (await self.judged(*words, **flags)).values() for text in verdict["proved"]]

    async def dead_lease(self, name: str) -> None:
        """Of a leader that has ended without a word."""
        await self.create(a_lease(name, holderIdentity="gone_1", renewTime=rfc3339_micro(self.clock.wall_s())))

    def renewing(self, name: str) -> asyncio.Task[None]:
        """Somebody who holds this Lease, and renews it every five seconds; to be cancelled."""

        async def renew() -> None:
            await self.create(a_lease(name, holderIdentity="alive_1", renewTime=rfc3339_micro(self.clock.wall_s())))
            while True:
                await asyncio.sleep(5)
                await self.patch(LEASES, name, {"spec": {"renewTime": rfc3339_micro(self.clock.wall_s())}})

        return asyncio.create_task(renew(), name="renewing")
