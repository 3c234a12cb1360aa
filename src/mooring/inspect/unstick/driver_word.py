"""Asking a driver about one volume: whether it has it, and on which nodes it is published. Only calls that change
nothing are made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.core import NodeSelector
from mooring.api.migration import UNSPECIFIED
from mooring.base.clock import Clock
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.probe_and_identify import probe_and_identify
from mooring.csi.proto import csi_pb2 as csi
from mooring.inspect.inventory import listed_volumes
from mooring.inspect.placing import HandleMatcher, may_reach
from mooring.inspect.unstick.facts import DriverWord
from mooring.wire.grpc.codes import Code

RPC = csi.ControllerServiceCapability.RPC
LISTS_MAX: Final = 3
"""So often the driver is asked for its list, until two in a row are the same."""


class Witness(msgspec.Struct, frozen=True):
    """A driver that is asked. place: the segments of its own node, {} when it does not say. node_id: its name for that,
    "" likewise.

    timeout_s: of each call.
    """

    driver: Driver
    info: DriverInfo
    place: Mapping[str, str]
    node_id: str
    timeout_s: float

    @classmethod
    async def met(cls, driver: Driver, clock: Clock, timeout_s: float) -> Witness:
        """Raises DriverError, and ConfigError for a name that CSI does not allow."""
        info = await probe_and_identify(driver, clock=clock)
        try:
            node = await driver.node_get_info(csi.NodeGetInfoRequest(), Call(timeout_s))
        except DriverError:  # a driver without a node service
            return cls(driver, info, {}, "", timeout_s)
        is_placed = csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS in info.plugin
        return cls(driver, info, dict(node.accessible_topology.segments) if is_placed else {}, node.node_id, timeout_s)

    def may_reach(self, nodes: NodeSelector | None) -> bool:
        """False for a volume that can be reached from other nodes alone."""
        return may_reach(nodes, self.place)

    async def about_volume(
        self, driver_name: str, handle: str, nodes: NodeSelector | None, others: Collection[str] = ()
    ) -> DriverWord:
        """driver_name: of the volume. nodes: from which the volume can be reached, None for all. others: handles of the
        driver's other volumes. Raises DriverError, CannotLook.
        """
        name = self.info.name
        if name != driver_name:
            return DriverWord(name, why=f"the driver at --csi-address is {name}, and the volume is {driver_name}'s")
        if not handle:
            return DriverWord(
                name, why="nobody knows the volume's handle: its PersistentVolume is gone, or no CSI volume"
            )
        if not self.may_reach(nodes):
            return DriverWord(name, why="the volume is on another node than this driver: ask the driver there")
        has_gaps = UNSPECIFIED in handle.split("/")
        if RPC.GET_VOLUME in self.info.controller and not has_gaps:
            return await self._got(handle)
        if RPC.LIST_VOLUMES in self.info.controller:
            return await self._listed(handle, others)
        if has_gaps:
            return DriverWord(
                name, why=f"the in-tree volume does not tell all of its handle ({handle}), so nobody can look it up"
            )
        return DriverWord(
            name, why=f"the driver {name} can neither list its volumes nor look one up (LIST_VOLUMES, GET_VOLUME)"
        )

    async def about_snapshot(self, driver_name: str, handle: str, node: str = "", node_id: str = "") -> DriverWord:
        """Whether it has a snapshot. node, node_id: the only node that has it, "" for all. Raises DriverError."""
        name = self.info.name
        if name != driver_name:
            return DriverWord(name, why=f"the driver at --csi-address is {name}, and the snapshot is {driver_name}'s")
        if not handle:
            return DriverWord(name, why="nobody knows the snapshot's handle")
        if node and (not node_id or node_id != self.node_id):
            return DriverWord(name, why=f"the snapshot is on node {node}: ask the driver there")
        call = Call(self.timeout_s)
        try:
            if RPC.GET_SNAPSHOT in self.info.controller:
                await self.driver.get_snapshot(csi.GetSnapshotRequest(snapshot_id=handle), call)
                return DriverWord(name, exists=True)
            if RPC.LIST_SNAPSHOTS in self.info.controller:
                answer = await self.driver.list_snapshots(csi.ListSnapshotsRequest(snapshot_id=handle), call)
                if any(one.snapshot.snapshot_id == handle for one in answer.entries):
                    return DriverWord(name, exists=True)
                if answer.entries or answer.next_token:
                    return DriverWord(name, why="the driver was asked for this snapshot alone, and lists others")
                return DriverWord(name, exists=False)
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return DriverWord(name, exists=False)
            raise
        return DriverWord(
            name, why=f"the driver {name} can neither list its snapshots nor look one up (LIST_SNAPSHOTS, GET_SNAPSHOT)"
        )

    async def about_group(self, driver_name: str, handle: str, members: Collection[str]) -> DriverWord:
        """Whether it has a group of snapshots. members: their handles. Raises DriverError."""
        name = self.info.name
        if name != driver_name:
            return DriverWord(name, why=f"the driver at --csi-address is {name}, and the group is {driver_name}'s")
        if not handle:
            return DriverWord(name, why="nobody knows the group's handle")
        if csi.PluginCapability.Service.GROUP_CONTROLLER_SERVICE not in self.info.plugin:
            return DriverWord(name, why=f"the driver {name} has no groups of snapshots (GROUP_CONTROLLER_SERVICE)")
        try:
            request = csi.GetVolumeGroupSnapshotRequest(group_snapshot_id=handle, snapshot_ids=members)
            await self.driver.get_volume_group_snapshot(request, Call(self.timeout_s))
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return DriverWord(name, exists=False)
            raise
        return DriverWord(name, exists=True)

    async def _got(self, handle: str) -> DriverWord:
        try:
            answer = await self.driver.controller_get_volume(
                csi.ControllerGetVolumeRequest(volume_id=handle), Call(self.timeout_s)
            )
        except DriverError as error:
            if error.code == Code.NOT_FOUND:
                return DriverWord(self.info.name, exists=False)
            raise
        if not answer.HasField("status"):
            return DriverWord(
                self.info.name, exists=True, why=f"the driver {self.info.name} says nothing of the volume's status"
            )
        return self._there(answer.status.published_node_ids)

    async def _listed(self, handle: str, others: Collection[str]) -> DriverWord:
        """CSI lets a list of several pages leave out a volume while others come and go: two lists have to say the
        same.
        """
        name, before = self.info.name, frozenset[str]()
        for count in range(LISTS_MAX):
            volumes = {one.handle: one async for one in listed_volumes(self.driver, self.timeout_s)}
            if handle in volumes:
                return self._there(volumes[handle].published_on)
            if count and volumes.keys() == before:
                doubt = _doubt(handle, volumes, others)
                return DriverWord(name, why=doubt) if doubt else DriverWord(name, exists=False)
            before = frozenset(volumes)
        return DriverWord(name, why="volumes come and go while the driver lists them: look again")

    def _there(self, node_ids: Iterable[str]) -> DriverWord:
        name = self.info.name
        if RPC.LIST_VOLUMES_PUBLISHED_NODES not in self.info.controller:
            return DriverWord(
                name, exists=True, why=f"the driver {name} does not say on which nodes (LIST_VOLUMES_PUBLISHED_NODES)"
            )
        return DriverWord(name, exists=True, published_on=frozenset(filter(None, node_ids)))


def _doubt(handle: str, listed: Collection[str], others: Collection[str]) -> str:
    """Why a volume may be there though it is not listed, "" for no reason."""
    matcher = HandleMatcher(listed)
    near = next(iter((*matcher.named_by(handle), *matcher.alike(handle))), "")
    near = near or next((one for one in listed if _plain(one) in _words(handle) or _plain(handle) in _words(one)), "")
    if near:
        return f"the driver lists {near}, which may be the same volume under another name"
    if others and not any(matcher.named_by(one) for one in others):
        return "the driver lists none of the cluster's other volumes: it may know them by other names"
    return ""


def _words(handle: str) -> list[str]:
    """A handle may be put together of several words, one of which is the volume's name."""
    return re.split(r"[^\w.-]+", _plain(handle))


def _plain(handle: str) -> str:
    return handle.strip().casefold()
