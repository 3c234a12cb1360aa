"""A node of the plane under test: the real agent on a folder of its own, the driver beside it, and no registrar's
socket between them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import msgspec

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.registration import CSI_PLUGIN, PluginInfo, Registration
from mooring.dev.folder import unmount_all
from mooring.dev.story import Story
from mooring.dev.traced import TracedCluster
from mooring.kube.cluster import Cluster
from mooring.node.agent import AgentSockets, NodeAgent
from mooring.node.options import AgentOptions
from mooring.node.plugins.watcher import SocketWatcher
from mooring.testing.drivers import DriverUnderTest

REGISTERED_S_MAX: Final = 60.0


class Surroundings(msgspec.Struct, frozen=True):
    """All that the nodes have in common. cluster: as a program sees it, by its name."""

    folder: Path
    cluster: Callable[[str], Cluster]
    driver: DriverUnderTest
    driver_name: str
    story: Story
    clock: Clock
    randomness: Random
    group: asyncio.TaskGroup
    mounts: bool


class NodeUnderTest:
    """Off until `start`. name: of the Node."""

    def __init__(self, name: str, around: Surroundings) -> None:
        self.name, self._around = name, around
        self.root = around.folder / "nodes" / name
        self._task: asyncio.Task[None] | None = None

    @property
    def is_on(self) -> bool:
        return self._task is not None

    async def start(self) -> None:
        """Returns when the driver is registered. Raises ConfigError where it is refused."""
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._task = self._around.group.create_task(self._agent(told).run(), name=f"testing/node/{self.name}")
        try:
            async with asyncio.timeout(REGISTERED_S_MAX):
                await asyncio.wait((self._task, told), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ConfigError(f"{self.name}: the driver is not registered within {REGISTERED_S_MAX:g} s") from None
        if told.done() and told.result():
            raise ConfigError(f"{self.name}: the node does not take the driver: {told.result()}")

    async def dies(self) -> bool:
        """The power goes: the agent and the driver end at once, and nothing stays mounted. False where it is gone
        already.
        """
        if not await self.stop():
            return False
        await self._around.driver.kill(self.name)
        if self._around.mounts:
            await asyncio.to_thread(unmount_all, self.root)
        self._around.story.happened("power", f"{self.name} is off")
        return True

    async def returns(self) -> bool:
        """The power is back. False where it was never gone."""
        if self.is_on:
            return False
        self._around.story.happened("power", f"{self.name} is on")
        await self._around.driver.start(self.name)
        await self.start()
        return True

    async def agent_restarts(self) -> None:
        """The agent ends in the middle of its work, and starts anew; the machine and its mounts stay. Nothing happens
        to a dead node.
        """
        if await self.stop():
            self._around.story.happened(self.name, "its agent is killed, and starts anew")
            await self.start()

    async def stop(self) -> bool:
        """The agent ends at once. False where it does not run."""
        if self._task is None:
            return False
        task, self._task = self._task, None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return True

    def _agent(self, told: asyncio.Future[str]) -> NodeAgent:
        around = self._around
        socket = self.root / "plugins_registry" / f"{around.driver_name}-reg.sock"
        sockets = AgentSockets(
            watch=lambda _folder, changed, **_ports: cast("SocketWatcher", _OneSocket(socket, changed)),
            plugin=lambda _socket: cast("Registration", _Registrar(around.driver_name, told)),
            driver=lambda _endpoint, *, clock, metrics: around.driver.on_node(self.name, clock=clock, metrics=metrics),
        )
        traced = TracedCluster(around.cluster(self.name), self.name, around.story, around.clock)
        explained = functools.partial(around.story.explained, self.name)
        runtime = Runtime(traced, around.clock, around.randomness, Metrics(), explained)
        options = AgentOptions(self.name, self.root, watches_health=True, watches_claims=True)
        return NodeAgent(runtime, options, sockets=sockets)


class _OneSocket:
    """The folder of registration sockets, in which one is."""

    def __init__(self, socket: Path, changed: Callable[[Path], None]) -> None:
        self._socket, self._changed = socket, changed
        self._looks = False

    def generation(self, socket: Path) -> int | None:
        return 1 if self._looks and socket == self._socket else None

    async def run(self) -> None:
        self._looks = True
        self._changed(self._socket)
        await asyncio.get_running_loop().create_future()


class _Registrar:
    """Beside the driver. told: gets the node's refusal, "" where it has taken the driver."""

    def __init__(self, driver: str, told: asyncio.Future[str]) -> None:
        self._driver, self._told = driver, told

    async def get_info(self, timeout_s: float) -> PluginInfo:
        return PluginInfo(
            type=CSI_PLUGIN, name=self._driver, endpoint=f"/{self._driver}", supported_versions=("1.0.0",)
        )

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        if not self._told.done():
            self._told.set_result("" if registered else error)

    async def close(self) -> None:
        """Nothing is held."""
