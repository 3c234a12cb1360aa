"""Writes what `decide` asks for: one driver at a time, each try on objects that were read anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mooring.api.core import NODES, Node
from mooring.api.storage import CSI_NODES, CSINode
from mooring.base.clock import Clock
from mooring.base.errors import MooringError
from mooring.base.log import logger
from mooring.control.decision import Decision
from mooring.kube.cluster import Cluster, Patch
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.node.csinode import reasons as why
from mooring.node.csinode.decide import (
    decide_csinode,
    decide_csinode_without,
    decide_migrated,
    decide_node,
    decide_node_without,
    decide_refresh,
    is_of,
    new_csinode,
)
from mooring.node.drivers import DriverOnNode

_log = logger(__name__)

T = TypeVar("T")

PAUSES_S: Final = (0.01, 0.05, 0.25)
"""The pauses before the second, third and fourth try of a write: the object has moved, or the server is busy."""

WAIT_S: Final = 1.0


class WriteRefused(MooringError):
    """The driver's data can't be written to the Node or the CSINode."""


class _OfAnother(ApiError):
    """The CSINode was that of an earlier Node of this name; it was removed."""


class NodeObjects:
    """The Node and the CSINode of this node. All methods raise ApiError, and Refused for what the driver says."""

    def __init__(self, cluster: Cluster, node_name: str, *, clock: Clock) -> None:
        self._cluster, self._name, self._clock = cluster, node_name, clock
        self._lock = asyncio.Lock()

    async def prepare(self) -> None:
        """Waits until there is an API server that knows CSINodes, and makes this node's, without drivers, where there
        is none.

        The Node has been made.
        """
        await persistently(lambda: self._locked(self._present), self._clock, "CSINode")

    async def enter(self, coming: DriverOnNode) -> None:
        """Enters the driver: at the Node first, then at the CSINode. Writes nothing where all of it stands there."""
        _check_node_id(coming)

        async def step() -> None:
            node = await self._cluster.get(NODES, self._name)
            await self._patch_node(decide_node(node, coming))
            csinode, decision = await self._csinode(node), None
            while decision is None or decision.again:
                decision = decide_csinode(csinode, coming)
                csinode = await self._patch_csinode(csinode, decision)

        await self._locked(step)

    async def refresh(self, coming: DriverOnNode) -> None:
        """Enters a limit that may have changed. The Node is not written, and the entry stays where the driver gives
        another node id.
        """
        _check_node_id(coming)

        async def step() -> None:
            csinode = await self._cluster.get(CSI_NODES, self._name)
            await self._patch_csinode(csinode, decide_refresh(csinode, coming))

        await self._locked(step)

    async def entered(self) -> tuple[str, ...]:
        """The drivers that the CSINode names, () where there is none."""
        try:
            csinode = await self._cluster.get(CSI_NODES, self._name)
        except NotFound:
            return ()
        return tuple(driver.name for driver in csinode.spec.drivers or ())

    async def take_off(self, driver: str) -> None:
        """Takes the driver off the CSINode, then off the Node's annotation. A CSINode that is gone is fine."""

        async def step() -> None:
            try:
                csinode = await self._cluster.get(CSI_NODES, self._name)
                await self._patch_csinode(csinode, decide_csinode_without(csinode, driver))
            except NotFound:
                pass
            await self._patch_node(decide_node_without(await self._cluster.get(NODES, self._name), driver))

        await self._locked(step)

    async def _present(self) -> None:
        csinode = await self._csinode(await self._cluster.get(NODES, self._name))
        await self._patch_csinode(csinode, decide_migrated(csinode))

    async def _csinode(self, node: Node) -> CSINode:
        """This node's, made where there is none. Raises _OfAnother after one of an earlier Node was removed."""
        try:
            found = await self._cluster.get(CSI_NODES, self._name)
        except NotFound:
            try:
                return await self._cluster.create(CSI_NODES, new_csinode(node))
            except AlreadyExists:
                found = await self._cluster.get(CSI_NODES, self._name)
        if is_of(found, node):
            return found
        _log.warning("CSINode is that of an earlier Node of this name, removing it", node=self._name)
        await self._cluster.delete(CSI_NODES, self._name, uid=found.metadata.uid)
        raise _OfAnother("the CSINode was that of an earlier Node of this name")

    async def _patch_node(self, decision: Decision[Patch]) -> None:
        for patch in _allowed(decision):
            await self._cluster.patch(NODES, self._name, patch, subresource="status")

    async def _patch_csinode(self, csinode: CSINode, decision: Decision[Patch]) -> CSINode:
        """Gives it as it is afterwards."""
        for patch in _allowed(decision):
            csinode = await self._cluster.patch(CSI_NODES, self._name, patch)
        return csinode

    async def _locked(self, step: Callable[[], Awaitable[T]]) -> T:
        """Change this node's objects, one change at a time. It is tried a few times: what was read may be old by the
        time of the write.
        """
        async with self._lock:
            for pause_s in PAUSES_S:
                try:
                    return await step()
                except (ApiError, WriteRefused) as error:
                    _log.info(4, "Node objects could not be written, trying again", reason=str(error))
                await self._clock.sleep(pause_s)
            return await step()


def _allowed(decision: Decision[Patch]) -> tuple[Patch, ...]:
    """Raises Refused for a problem."""
    if decision.problem is not None:
        raise WriteRefused(decision.problem.error)
    return decision.actions


def _check_node_id(coming: DriverOnNode) -> None:
    """Raises Refused."""
    if not coming.node_id:
        raise WriteRefused(why.NoNodeId(coming.driver).error)


async def persistently(step: Callable[[], Awaitable[T]], clock: Clock, what: str) -> T:
    """Tries until it succeeds, however long the API server is away. what: is not there yet, for the log; said once for
    each error.
    """
    logged = ""
    while True:
        try:
            return await step()
        except ApiError as error:
            if str(error) != logged:
                logged = str(error)
                _log.error(f"{what} is not there yet, trying again", error=error)
        await clock.sleep(WAIT_S)
