"""The nodes of a plane: an agent for each, and the registrar of its driver beside it, as in a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.csi.client import CallObserver
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import Call
from mooring.csi.grpc import GrpcDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.drivers import Sockets, Starter
from mooring.dev.traced_cluster import TracedCluster
from mooring.dev.traced_driver import TracedDriver
from mooring.kube.cluster import Cluster
from mooring.node.agent import AgentOptions, AgentSockets, NodeAgent
from mooring.registrar.registrar import Registrar

REGISTERED_S_MAX: Final = 20.0
INFO_S: Final = 10.0
REGISTRATION: Final = "reg"


class Nodes:
    """cluster: the store, for controllers. starter: knows folders and names; sockets: of the driver, which answers."""

    def __init__(
        self,
        cluster: Cluster,
        driver_name: str,
        starter: Starter,
        sockets: Sockets,
        group: asyncio.TaskGroup,
        metrics: Metrics,
    ) -> None:
        self._driver_name, self._starter, self._sockets, self._group = driver_name, starter, sockets, group
        self._clock, self._story = starter.clock, starter.story
        self._agents = {node: self._agent(cluster, node, starter.randomness, metrics) for node in starter.nodes}
        self._registrars = {node: self._registrar(node) for node in starter.nodes}
        self._agent_tasks: list[asyncio.Task[None]] = []
        self._registrar_tasks: list[asyncio.Task[None]] = []

    @property
    def roots(self) -> Mapping[str, Path]:
        """The root folder of each node's agent: below it are the pods' volumes."""
        return {node: agent.layout.root for node, agent in self._agents.items()}

    def _agent(self, cluster: Cluster, node: str, randomness: Random, metrics: Metrics) -> NodeAgent:
        root, registry = self._starter.folder / "nodes" / node, self._starter.registry(node)
        options = AgentOptions(node, root, watches_health=True, registry=registry)
        traced = TracedCluster(cluster, node, self._story, self._clock)
        sockets = AgentSockets(driver=self._connector(node))
        return NodeAgent(Runtime(traced, self._clock, randomness, metrics), options, sockets=sockets)

    def _connector(self, node: str) -> Callable[..., GrpcDriver]:
        """Makes the client of a driver; one that does not tell of its calls itself is traced."""

        def connect(endpoint: str, *, clock: Clock, metrics: CallObserver) -> GrpcDriver:
            if self._sockets.tells:
                return GrpcDriver(endpoint, clock=clock, metrics=metrics)
            return TracedDriver(endpoint, node, self._story, clock=clock, metrics=metrics)

        return connect

    def _registrar(self, node: str) -> Registrar:
        endpoint, folder = str(self._sockets.nodes[node]), self._starter.registry(node)
        return Registrar(self._driver_name, endpoint, folder, clock=self._clock, on_refusal=lambda: None, socket_name=REGISTRATION)

    async def start(self) -> None:
        """Returns when the driver is registered on every node. Raises ConfigError when a node refuses it."""
        for node, registrar in self._registrars.items():
            self._registrar_tasks.append(self._group.create_task(registrar.run(), name=f"dev/registrar/{node}"))
        for node, agent in self._agents.items():
            self._agent_tasks.append(self._group.create_task(agent.run(), name=f"dev/node/{node}"))
        try:
            async with asyncio.timeout(REGISTERED_S_MAX):
                for registrar in self._registrars.values():
                    await registrar.answered.wait()
        except TimeoutError:
            waiting = ", ".join(node for node, registrar in self._registrars.items() if not registrar.is_registered)
            raise ConfigError(f"driver: not registered within {REGISTERED_S_MAX:g} s on {waiting}") from None
        for node, registrar in self._registrars.items():
            if registrar.refusal:
                raise ConfigError(f"driver: {node} does not take it: {registrar.refusal}")

    async def stop(self, timeout_s: float) -> None:
        """The agents end before the registrars: a registration that goes would take the driver off the CSINode."""
        async with asyncio.TaskGroup() as group:
            for node, agent in self._agents.items() if self._agent_tasks else ():
                group.create_task(agent.drain(timeout_s), name=f"dev/drain/{node}")
        for tasks in (self._agent_tasks, self._registrar_tasks):
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def node_ids(sockets: Sockets, clock: Clock) -> Mapping[str, str]:
    """What the driver calls each node, {} for a driver without a node service. Raises ConfigError."""
    found: dict[str, str] = {}
    for node, path in sockets.nodes.items():
        node_id = await _node_id(node, path, sockets, clock)
        if node_id is None:
            return {}
        if node_id in found.values():
            other = next(name for name, known in found.items() if known == node_id)
            raise ConfigError(
                f"driver: {other} and {node} got the same node id, {node_id!r}: let the driver have its node's name "
                "({node} in the command, or $NODE_ID), or take --nodes=1"
            )
        found[node] = node_id
    return found


async def _node_id(node: str, path: Path, sockets: Sockets, clock: Clock) -> str | None:
    client = GrpcDriver(str(path), clock=clock)
    await client.connect(sockets.patience_s, sockets.advice)
    try:
        answer = await client.node_get_info(csi.NodeGetInfoRequest(), Call(INFO_S))
    except DriverError as error:
        if error.code == Code.UNIMPLEMENTED:
            return None
        raise ConfigError(f"driver: NodeGetInfo fails on {node}: {error}") from None
    finally:
        await client.close()
    if not answer.node_id:
        raise ConfigError(f"driver: NodeGetInfo gave {node} no node id: it must answer with one")
    return answer.node_id
