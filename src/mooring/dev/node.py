"""One node of a plane: an agent, the driver's registrar beside it, and the driver; its power can be cut, and comes
back.

A cut does what a power failure does: agent, registrar and driver end at once, in the middle of their work, and nothing
is mounted on the node any more. Its folders and records stay, as on a disk, and so do all of its API objects, which are
up to the controllers. When the power comes back, all three start again on what is there.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Final

import msgspec

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.conform.watched import Breaches, WatchedDriver
from mooring.control.runtime import Runtime
from mooring.csi.call_counts import CallObserver
from mooring.csi.wire_driver import WireDriver
from mooring.dev.drivers import Sockets, Starter
from mooring.dev.folder import unmount_all
from mooring.dev.traced import TracedCluster, TracedDriver
from mooring.kube.cluster import Cluster
from mooring.node.agent import AgentSockets, NodeAgent
from mooring.node.options import AgentOptions
from mooring.sidecars.registrar.registrar import Registrar

REGISTERED_S_MAX: Final = 20.0
REGISTRATION: Final = "reg"
STATS_PERIOD_S: Final = 5.0
"""A kubelet asks for the usage of volumes once a minute or less; an author who tries a pod out looks at it for less."""


class Shared(msgspec.Struct, frozen=True):
    """All that the nodes of a plane have in common. cluster: the store. breaches: of the book's rules. group: of their
    tasks. lease_s: how long a node's Lease lasts.
    """

    cluster: Cluster
    driver_name: str
    starter: Starter
    sockets: Sockets
    breaches: Breaches
    group: asyncio.TaskGroup
    metrics: Metrics
    lease_s: float


class PlaneNode:
    """name: of the Node. Its driver runs already; join() starts the rest."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name, self._shared = name, shared
        self.driver = shared.sockets.drivers[name]
        self.root = shared.starter.folder / "nodes" / name
        """The agent's root folder: below it are the pods' volumes."""
        self._registry = shared.starter.registry(name)
        self._turning = asyncio.Lock()
        self._agent: NodeAgent | None = None
        self._registrar: Registrar | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_on(self) -> bool:
        return self._agent is not None

    async def join(self) -> None:
        """Agent and registrar start. Returns when the driver is registered. Raises ConfigError when it is refused, or
        does not answer.
        """
        self._agent, registrar = self._new_agent(), self._new_registrar()
        self._registrar = registrar
        for what, work in (("node", self._agent.run()), ("registrar", registrar.run())):
            self._tasks.append(self._shared.group.create_task(work, name=f"dev/{what}/{self.name}"))
        try:
            async with asyncio.timeout(REGISTERED_S_MAX):
                await registrar.answered.wait()
        except TimeoutError:
            raise ConfigError(f"driver: not registered within {REGISTERED_S_MAX:g} s on {self.name}") from None
        if registrar.refusal:
            raise ConfigError(f"driver: {self.name} does not take it: {registrar.refusal}")

    async def kill(self) -> bool:
        """Cuts the power. False when it was off already."""
        async with self._turning:
            if not self.is_on:
                return False
            await self._end()
            await self.driver.kill()
            if self.driver.is_ours:
                await asyncio.to_thread(unmount_all, self.root)
            return True

    async def revive(self) -> bool:
        """The power comes back. False when it was on. Raises ConfigError for a driver that does not come up; the node
        is on then, too.
        """
        async with self._turning:
            if self.is_on:
                return False
            await self.driver.start()
            sockets = self._shared.sockets  # a proxy's is there before the driver answers behind it
            await sockets.until_there(
                sockets.behind.get(self.name, sockets.nodes[self.name]), self._shared.starter.clock
            )
            self.driver.is_up()
            await self.join()
            return True

    async def stop(self, timeout_s: float) -> None:
        """In good order: what runs may end. Nothing to do for a node that is off."""
        if self._agent is not None:
            await self._agent.drain(timeout_s)
            await self._end()

    async def _end(self) -> None:
        """The agent ends before the registrar: a registration that goes would take the driver off the CSINode."""
        for task in self._tasks:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._tasks.clear()
        self._agent = self._registrar = None

    def _new_agent(self) -> NodeAgent:
        shared, starter = self._shared, self._shared.starter
        options = AgentOptions(
            self.name,
            self.root,
            watches_health=True,
            registry=self._registry,
            lease_s=shared.lease_s,
            watches_claims=True,
            stats_period_s=STATS_PERIOD_S,
        )
        traced = TracedCluster(shared.cluster, self.name, starter.story, starter.clock)
        explained = functools.partial(starter.story.explained, self.name)
        runtime = Runtime(traced, starter.clock, starter.randomness, shared.metrics, explained)
        return NodeAgent(runtime, options, sockets=AgentSockets(driver=self._connector()))

    def _connector(self) -> Callable[..., WireDriver]:
        """Makes the client of a driver; one that does not tell of its calls itself is traced."""

        def connect(endpoint: str, *, clock: Clock, metrics: CallObserver) -> WireDriver:
            breaches = self._shared.breaches
            if self._shared.sockets.tells:
                return WatchedDriver(endpoint, watch=breaches.watch(self.name), clock=clock, metrics=metrics)
            story = self._shared.starter.story
            return TracedDriver(
                endpoint, self.name, story, breaches=breaches, where=self.name, clock=clock, metrics=metrics
            )

        return connect

    def _new_registrar(self) -> Registrar:
        endpoint = str(self._shared.sockets.nodes[self.name])
        return Registrar(
            self._shared.driver_name,
            endpoint,
            self._registry,
            clock=self._shared.starter.clock,
            on_refusal=lambda: None,
            socket_name=REGISTRATION,
        )
