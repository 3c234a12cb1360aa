"""What one incarnation of an agent speaks with: a driver's node service, its plugin's registration, and the folder of
sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.registration import CSI_PLUGIN, PluginInfo
from mooring.wire.grpc.codes import Code
from tests.sim.mortal import Mortal
from tests.sim.node.driver import INFO, PUBLISH, STAGE, STATS, UNPUBLISH, UNSTAGE, NodeService
from tests.sim.node.laws import COUNT_ELSEWHERE
from tests.sim.node.machine import Machine

RETURN_S_MAX = 10.0
_RPC = csi.NodeServiceCapability.RPC


class Endpoint:
    """A plugin for InProcessDriver."""

    def __init__(self, world: Any, machine: Machine, mortal: Mortal, service: NodeService) -> None:
        self._world, self._machine, self._mortal, self._service = world, machine, mortal, service

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        is_registering = self._service.own.name in self._machine.registering
        await self._asked("get info", "" if is_registering else INFO)
        own, other, count = self._service.own, self._service.other_id, self._service.own.habits.counts
        topology = {"segments": {f"{own.name}/zone": "a"}}
        if other is not None and not is_registering:
            return csi.NodeGetInfoResponse(
                node_id=other, max_volumes_per_node=COUNT_ELSEWHERE, accessible_topology=topology
            )
        return csi.NodeGetInfoResponse(
            node_id=self._service.node_id, max_volumes_per_node=count, accessible_topology=topology
        )

    async def node_get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        await self._asked(f"get stats of {request.volume_id} {self._machine.short(request.volume_path)}", STATS)
        self._world.laws.was_asked_for_stats(self._machine, request.volume_id, request.volume_path)
        return csi.NodeGetVolumeStatsResponse(usage=[{"unit": 1, "total": 10, "available": 5, "used": 5}])

    async def node_get_capabilities(self, request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        await self._asked("get capabilities")
        stages, stats = self._service.stages, self._service.stats
        able = [*([_RPC.STAGE_UNSTAGE_VOLUME] if stages else []), *([_RPC.GET_VOLUME_STATS] if stats else [])]
        able += [_RPC.VOLUME_MOUNT_GROUP] if self._service.own.habits.sets_groups else []
        return csi.NodeGetCapabilitiesResponse(capabilities=[{"rpc": {"type": one}} for one in able])

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        await self._call(STAGE, request.volume_id, request.staging_target_path, request)
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        await self._call(UNSTAGE, request.volume_id, request.staging_target_path, request)
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        await self._call(PUBLISH, request.volume_id, request.target_path, request)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        await self._call(UNPUBLISH, request.volume_id, request.target_path, request)
        return csi.NodeUnpublishVolumeResponse()

    async def _asked(self, what: str, kind: str = "") -> None:
        await self._mortal.point(f"before {what}")
        self._world.laws.done(self._mortal.number, f"{what} {self._machine.name}", self._world.clock.now())
        with self._world.laws.told.call(self._mortal.who):
            await self._service.answer_time(kind)

    async def _call(self, verb: str, handle: str, path: str, request: Any) -> None:
        what = f"{verb} {handle} {self._machine.short(path)}"
        await self._mortal.point(f"before {what}")
        self._tell(what)
        laws, number = self._world.laws, self._mortal.number
        laws.done(number, f"{what} {self._machine.name}", self._world.clock.now())
        laws.call_begins(self._machine, number, verb, handle, path, request)
        if self._world.plan.habits.groups:
            laws.groups.asked(self._machine, verb, handle, path, request, self._service.own)
        outcome = "gave up waiting"
        try:
            await self._world.clock.sleep(0)  # no call ends without the others having had their turn
            self._service.check_able(verb, request)
            self._check_secret(verb, handle, request)
            laws.token_of(verb, path, request, wanted=self._service.own.habits.tokens)
            with laws.told.call(self._mortal.who):
                await self._service.on_volume(verb, handle, path)
            await self._mortal.point(f"after {what}")
            outcome = "ok"
        except DriverError as error:
            outcome = str(error)
            if verb == PUBLISH:
                laws.told.refused(path, str(error), what, lambda: self._mortal.alive)
            raise
        finally:
            if self._mortal.alive:
                self._tell(f"{what}: {outcome}")
            laws.call_ends(self._machine, number, verb, handle, path)

    def _check_secret(self, verb: str, handle: str, request: Any) -> None:
        """Raises DriverError."""
        volume = self._world.plan.volume_of(handle)
        if volume is None or verb not in (STAGE, PUBLISH):
            return
        name = volume.stage_secret if verb == STAGE else volume.publish_secret
        if name and dict(request.secrets) != {"token": self._world.backend.secrets[name]}:
            raise DriverError(Code.UNAUTHENTICATED, f"not the right token: {dict(request.secrets)}")

    def _tell(self, what: str) -> None:
        self._world.story.tell(self._mortal.who, what)


class Connection(InProcessDriver):
    """To a driver's endpoint, as the agent holds it."""

    def __init__(self, world: Any, endpoint: Endpoint, service: NodeService, **options: Any) -> None:
        super().__init__(endpoint, **options)
        self._world, self._service, self._restarts = world, service, service.restarts

    async def connect(self, timeout_s: float, advice: str) -> None:
        """Raises ConfigError."""
        await self._world.clock.sleep(min(timeout_s, self._service.away_s))
        if self._service.away_s:
            raise ConfigError(f"no connection within {timeout_s:g} s; {advice}")

    @property
    def is_connected(self) -> bool:
        return self._service.restarts == self._restarts and not self._service.away_s

    async def lost(self) -> None:
        if self._service.restarts == self._restarts:
            await self._service.lost.wait()
        self._restarts = self._service.restarts

    async def reconnected(self) -> None:
        await self._world.clock.sleep(self._service.away_s)

    async def close(self) -> None:
        pass

    async def close_after_calls(self) -> None:
        await self.close()


class Plugin:
    """A registrar behind its socket. It leaves, and comes back after a while, when it is told that it was refused."""

    def __init__(self, world: Any, machine: Machine, mortal: Mortal, socket: Path) -> None:
        self._world, self._machine, self._mortal, self._socket = world, machine, mortal, socket
        self._driver = socket.name.removesuffix("-reg.sock")

    async def get_info(self, timeout_s: float) -> PluginInfo:
        self._machine.registering.add(self._driver)
        await self._reached("get info")
        return PluginInfo(
            type=CSI_PLUGIN, name=self._driver, endpoint=f"/{self._driver}", supported_versions=("1.0.0",)
        )

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        await self._reached(f"notify {'registered' if registered else f'refused: {error}'}")
        if registered:
            self._machine.registering.discard(self._driver)
            self._machine.told.add(self._driver)
        else:
            self._machine.remove_socket(self._driver)
            self._world.backend.group.create_task(self._come_back(), name="registrar")

    async def close(self) -> None:
        pass

    async def _come_back(self) -> None:
        await self._world.clock.sleep(self._world.randomness["backend"].uniform(0.5, RETURN_S_MAX))
        self._machine.make_socket(self._driver)

    async def _reached(self, what: str) -> None:
        """Raises DriverError."""
        shown = f"{what} of the plugin of {self._driver}"
        await self._mortal.point(f"before {shown}")
        self._world.laws.done(self._mortal.number, f"{shown} at {self._machine.name}", self._world.clock.now())
        self._world.story.tell(self._mortal.who, shown)
        await self._world.clock.sleep(0)
        if self._socket not in self._machine.sockets:
            raise DriverError(Code.UNAVAILABLE, "nobody listens")
        if self._world.faulty and self._world.randomness["backend"].happens(self._world.plan.driver.failed / 3):
            raise DriverError(Code.UNAVAILABLE, "as the seed says")
        await self._mortal.point(f"after {shown}")


class Watch:
    """The folder of registration sockets, as one agent follows it."""

    def __init__(self, machine: Machine, mortal: Mortal, changed: Callable[[Path], None]) -> None:
        self._machine, self._mortal, self._changed = machine, mortal, changed
        self._looks = False

    def generation(self, socket: Path) -> int | None:
        return self._machine.sockets.get(socket) if self._looks else None

    async def run(self) -> None:
        self._looks = True
        self._machine.told.clear()
        self._machine.on_socket = self._happened
        for socket in tuple(self._machine.sockets):
            self._happened(socket)
        await asyncio.get_running_loop().create_future()

    def _happened(self, socket: Path) -> None:
        if self._mortal.alive:
            self._changed(socket)
