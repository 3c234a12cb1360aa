"""Asking a driver about one volume: whether it has it, and on which nodes it is published. Only calls that change nothing are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mooring.api.core import NodeSelector
from mooring.base.clock import Clock
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.probe_and_identify import probe_and_identify
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.facts import ListedVolume
from mooring.inspect.inventory import listed_volumes
from mooring.inspect.placing import HandleMatcher, may_reach
from mooring.inspect.unstick.facts import DriverWord
from mooring.sidecars.provisioner.environment import learn_place
from mooring.wire.grpc.codes import Code

RPC = csi.ControllerServiceCapability.RPC


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """A driver that is asked. place: the segments of its own node, {} when it does not say. timeout_s: of each call."""

    driver: Driver
    info: DriverInfo
    place: Mapping[str, str]
    timeout_s: float

    @classmethod
    async def met(cls, driver: Driver, clock: Clock, timeout_s: float) -> Witness:
        """Raises DriverError, and ConfigError for a name that CSI does not allow."""
        info = await probe_and_identify(driver, clock=clock)
        place: Mapping[str, str] = {}
        if csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in info.plugin:
            try:
                place = await learn_place(driver, timeout_s)
            except DriverError:  # a driver without a node service
                place = {}
        return cls(driver, info, place, timeout_s)

    async def about_volume(self, driver_name: str, handle: str, nodes: NodeSelector | None) -> DriverWord:
        """driver_name: of the volume. nodes: from which the volume can be reached, None for all. Raises DriverError, CannotLook."""
        name = self.info.name
        if name != driver_name:
            return DriverWord(name, why=f"the driver at --csi-address is {name}, and the volume is {driver_name}'s")
        if not handle:
            return DriverWord(name, why="nobody knows the volume's handle: its PersistentVolume is gone, or no CSI volume")
        if not may_reach(nodes, self.place):
            return DriverWord(name, why="the volume is on another node than this driver: ask the driver there")
        if RPC.GET_VOLUME in self.info.controller:
            return await self._got(handle)
        if RPC.LIST_VOLUMES in self.info.controller:
            return await self._listed(handle)
        return DriverWord(name, why=f"the driver {name} can neither list its volumes nor look one up (LIST_VOLUMES, GET_VOLUME)")

    async def about_snapshot(self, driver_name: str, handle: str) -> DriverWord:
        """Whether it has a snapshot; nothing is said of places. Raises DriverError."""
        name = self.info.name
        if name != driver_name:
            return DriverWord(name, why=f"the driver at --csi-address is {name}, and the snapshot is {driver_name}'s")
        if not handle:
            return DriverWord(name, why="nobody knows the snapshot's handle")
        call = Call(self.timeout_s)
        try:
            if RPC.GET_SNAPSHOT in self.info.controller:
                await self.driver.get_snapshot(csi.GetSnapshotRequest(snapshot_id=handle), call)
                return DriverWord(name, exists=True)
            if RPC.LIST_SNAPSHOTS in self.info.controller:
                answer = await self.driver.list_snapshots(csi.ListSnapshotsRequest(snapshot_id=handle), call)
                return DriverWord(name, exists=any(one.snapshot.snapshot_id == handle for one in answer.entries))
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return DriverWord(name, exists=False)
            raise
        return DriverWord(name, why=f"the driver {name} can neither list its snapshots nor look one up (LIST_SNAPSHOTS, GET_SNAPSHOT)")

    async def _got(self, handle: str) -> DriverWord:
        try:
            answer = await self.driver.controller_get_volume(csi.ControllerGetVolumeRequest(volume_id=handle), Call(self.timeout_s))
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return DriverWord(self.info.name, exists=False)
            raise
        return self._there(answer.status.published_node_ids)

    async def _listed(self, handle: str) -> DriverWord:
        volumes = [one async for one in listed_volumes(self.driver, self.timeout_s)]
        found: ListedVolume | None = next((one for one in volumes if one.handle == handle), None)
        if found is not None:
            return self._there(found.published_on)
        matcher = HandleMatcher(one.handle for one in volumes)
        near = next(iter((*matcher.named_by(handle), *matcher.alike(handle))), "")
        if near:
            return DriverWord(self.info.name, why=f"the driver lists {near}, which may be the same volume under another name")
        return DriverWord(self.info.name, exists=False)

    def _there(self, node_ids: Iterable[str]) -> DriverWord:
        name = self.info.name
        if RPC.LIST_VOLUMES_PUBLISHED_NODES not in self.info.controller:
            return DriverWord(name, exists=True, why=f"the driver {name} does not say on which nodes (LIST_VOLUMES_PUBLISHED_NODES)")
        return DriverWord(name, exists=True, published_on=frozenset(filter(None, node_ids)))
