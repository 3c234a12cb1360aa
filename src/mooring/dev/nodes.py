"""The nodes of a plane, as in a cluster: each with an agent, and the driver and its registrar beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError, first_of
from mooring.conform.watched import Breaches, WatchedDriver
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.drivers import Sockets
from mooring.dev.node import PlaneNode, Shared
from mooring.wire.grpc.codes import Code

INFO_S: Final = 10.0

T = TypeVar("T")


class Nodes:
    """All of them, by name."""

    def __init__(self, shared: Shared) -> None:
        self._story = shared.starter.story
        self._nodes = {name: PlaneNode(name, shared) for name in shared.starter.nodes}
        self.sockets = shared.sockets.nodes
        """The driver's socket of each node."""

    @property
    def roots(self) -> Mapping[str, Path]:
        """The root folder of each node's agent: below it are the pods' volumes."""
        return {name: node.root for name, node in self._nodes.items()}

    @property
    def on(self) -> tuple[str, ...]:
        """Those that have power."""
        return tuple(name for name, node in self._nodes.items() if node.is_on)

    @property
    def killable(self) -> tuple[str, ...]:
        """Those that may lose it: not the one whose driver process answers the controller's calls, too."""
        return tuple(name for name, node in self._nodes.items() if not node.driver.is_controller)

    async def start(self) -> None:
        """Returns when the driver is registered on every node. Raises ConfigError when a node refuses it."""
        await _at_once({f"dev/join/{name}": node.join() for name, node in self._nodes.items()})

    async def kill(self, name: str) -> str:
        """Cuts a node's power. Says what is gone, "" when it was off. Raises ConfigError for one that there is not, or
        must stay.
        """
        node = self._node(name)
        if node.driver.is_controller:
            another = next(iter(self.killable), "")
            advice = f"kill another node, as in {another}" if another else "take --nodes=2, and kill n2"
            raise ConfigError(
                f"{name}: its driver process answers the controller's calls, too, and nothing would be "
                f"detached: {advice}"
            )
        if not await node.kill():
            return ""
        ours, others = (
            "its agent and its driver are gone, and nothing is mounted there",
            "its agent is gone; your driver goes on",
        )
        gone = ours if node.driver.is_ours else others
        self._story.lost(name)
        self._story.happened("power", f"{name} is off: {gone}")
        return gone

    async def revive(self, name: str) -> bool:
        """Gives it back; False when it was on. Raises ConfigError for a node that there is not, or a driver that does
        not come up.
        """
        node = self._node(name)
        if node.is_on:
            return False
        self._story.happened("power", f"{name} comes back: its driver and its agent start")
        return await node.revive()

    async def revive_all(self) -> None:
        for name in self._nodes:
            await self.revive(name)

    def _node(self, name: str) -> PlaneNode:
        if name not in self._nodes:
            raise ConfigError(f"there is no node {name!r} here, only {', '.join(self._nodes)}")
        return self._nodes[name]

    async def stop(self, timeout_s: float) -> None:
        """In good order."""
        await _at_once({f"dev/drain/{name}": node.stop(timeout_s) for name, node in self._nodes.items()})


async def _at_once(works: Mapping[str, Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, in order. works: by the names of their tasks. Raises the first error, which ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work, name=name) for name, work in works.items()]
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors
    return [task.result() for task in tasks]


async def node_ids(sockets: Sockets, breaches: Breaches, clock: Clock) -> Mapping[str, str]:
    """The driver's id of each node, {} for a driver without a node service. breaches: watch the answers. Raises
    ConfigError.
    """
    found: dict[str, str] = {}
    asking = {
        f"dev/node-id/{node}": _node_id(node, path, sockets, breaches, clock) for node, path in sockets.nodes.items()
    }
    answers = await _at_once(asking)
    for node, node_id in zip(sockets.nodes, answers, strict=True):
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


async def _node_id(node: str, path: Path, sockets: Sockets, breaches: Breaches, clock: Clock) -> str | None:
    client = WatchedDriver(str(path), watch=None if sockets.tells else breaches.watch(node), clock=clock)
    client.socket.absent = sockets.absent
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
