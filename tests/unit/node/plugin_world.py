"""Plugins on real sockets, and the part of the agent that registers them on the embedded server."""

from __future__ import annotations

import asyncio
import functools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.api.storage import CSI_NODES
from mooring.control.runtime import Runtime
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.registration import PluginInfo, RegistrationStatus, methods
from mooring.csi.wire_driver import WireDriver
from mooring.driver.server import serving
from mooring.node.csinode.reconcile import NodeObjects
from mooring.node.drivers import Drivers
from mooring.node.plugins.controller import Plugins
from mooring.node.plugins.watcher import SocketWatcher
from mooring.wire.grpc.server import listening
from tests.support.builders import a_node
from tests.support.cluster_world import ClusterWorld

WAIT_S = 60.0


class NodePlugin:
    """A driver's node service. error: what NodeGetInfo raises. hangs_s: how long its answer takes. segments: of the
    topology.
    """

    def __init__(self, name: str, error: Exception | None = None, limit: int = 0) -> None:
        self.name, self.error, self.limit = name, error, limit
        self.node_id = f"id-{name}"
        self.segments = {"k": "v"}
        self.hangs_s = 0.0
        self.asked = 0

    async def node_get_info(self, request: Any) -> csi.NodeGetInfoResponse:
        self.asked += 1
        if self.error is not None:
            raise self.error
        await asyncio.sleep(self.hangs_s)
        topology = {"segments": self.segments}
        return csi.NodeGetInfoResponse(
            node_id=self.node_id, max_volumes_per_node=self.limit, accessible_topology=topology
        )


class PluginServer:
    """A plugin that answers GetInfo as a test says, and keeps what it is told."""

    def __init__(
        self, endpoint: Path | str, name: str = "d1", kind: str = "CSIPlugin", versions: tuple[str, ...] = ("1.0.0",)
    ) -> None:
        self.info = PluginInfo(type=kind, name=name, endpoint=str(endpoint), supported_versions=versions)
        self.asked = 0
        self.told: list[tuple[bool, str]] = []

    def _info(self) -> PluginInfo:
        self.asked += 1
        return self.info

    async def _notified(self, status: RegistrationStatus) -> None:
        self.told.append((status.plugin_registered, status.error))

    @asynccontextmanager
    async def on(self, socket: Path) -> AsyncIterator[PluginServer]:
        async with listening(methods(self._info, self._notified), socket, grace_s=0.0):
            yield self


class RegistryWorld(ClusterWorld):
    """Use it by `async with registry_world() as world`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.registry = folder, folder / "reg"
        runtime = Runtime(self.cluster, self.clock, self.randomness, self.metrics)
        self.drivers = Drivers()
        self.plugins = Plugins(
            runtime,
            self.drivers,
            NodeObjects(self.cluster, "n", clock=self.clock),
            lambda socket: self.watcher.generation(socket),
            lambda _, endpoint: WireDriver(endpoint, clock=self.clock),
        )
        self.watcher = SocketWatcher(self.registry, self.plugins.changed, clock=self.clock)
        self.stack = AsyncExitStack()

    async def start(self) -> None:
        await self.create(a_node("n"))
        await self.run()

    async def run(self) -> None:
        """With a Node that is there already."""
        await self.stack.enter_async_context(self.running(self.plugins.controller.run(), self.watcher.run()))

    async def driver(self, name: str = "d1", error: Exception | None = None, limit: int = 0) -> NodePlugin:
        """A driver that serves on its own socket."""
        plugin = NodePlugin(name, error, limit)
        await self.stack.enter_async_context(serving(plugin, str(self.endpoint(name)), grace_s=0.0))
        return plugin

    def endpoint(self, name: str) -> Path:
        return self.folder / f"{name}.sock"

    def plugin(self, name: str = "d1", **info: Any) -> PluginServer:
        return PluginServer(self.endpoint(name), name, **info)

    async def until_true(self, check: Callable[[], object]) -> None:
        async def holds() -> object:
            return check()

        await self.until(holds, WAIT_S)

    async def names(self) -> list[str]:
        """The drivers that CSINode names."""
        found = await self.find(CSI_NODES, "n")
        return [driver["name"] for driver in (found or {"spec": {}})["spec"].get("drivers") or []]

    async def until_names(self, *names: str) -> None:
        async def are() -> bool:
            return sorted(names) == sorted(await self.names())

        await self.until(are, WAIT_S)


class NoSockets:
    """In place of the watcher of the registry: nothing registers."""

    def __init__(self, *_: Any, **options: Any) -> None:
        pass

    async def run(self) -> None:
        await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def registry_world(*, start: bool = True) -> AsyncIterator[RegistryWorld]:
    with tempfile.TemporaryDirectory(prefix="reg-") as folder:
        world = RegistryWorld(Path(folder))
        world.registry.mkdir()
        try:
            if start:
                await world.start()
            yield world
        finally:
            await world.stack.aclose()
            await world.drivers.close()


def real_time(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Makes a test of a coroutine function; sockets need real time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))  # type: ignore[arg-type]

    return run
