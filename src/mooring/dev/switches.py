"""Turning nodes off and on, and the words about it: what becomes of the node's pods and volumes now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.api.core import NODES
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, is_out_of_service
from mooring.base.errors import ConfigError
from mooring.base.units import format_duration
from mooring.dev.nodes import Nodes
from mooring.dev.options import Patience
from mooring.dev.power import OFF, ON, Switch
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError

TAINTED: Final = f"{OUT_OF_SERVICE_TAINT}=nodeshutdown:NoExecute"


class Switches:
    """nodes: None for a driver without a node service."""

    def __init__(self, nodes: Nodes | None, cluster: Cluster, patience: Patience) -> None:
        self._nodes, self._cluster, self._patience = nodes, cluster, patience
        self.by_turn: Mapping[str, Switch] = {OFF: self.off, ON: self.on}

    async def off(self, name: str) -> str:
        nodes = self._there()
        gone = await nodes.kill(name)
        return "\n".join(self._after_a_kill(nodes, name, gone)) if gone else f"{name} is off already"

    def _after_a_kill(self, nodes: Nodes, name: str, gone: str) -> Iterator[str]:
        grace = format_duration(self._patience.grace_s)
        yield f"{name} is off: {gone}."
        yield f"{grace} after its last sign of life its Node is not ready, and no new pod goes there."
        if nodes.on:
            yield "Its pods are deleted after the time for which they tolerate that (300 s, unless they say"
            yield "otherwise), and stay in Terminating: only somebody who knows that the machine is off"
            yield "may let go of their volumes. That is you:"
            yield f"kubectl taint nodes {name} {TAINTED}"
        else:
            yield "No node is on: no pod leaves, since that is taken for a broken network."

    async def on(self, name: str) -> str:
        lines = [
            f"{name} is on: its agent runs, and the driver is registered." if await self._there().revive(name) else f"{name} is on already"
        ]
        if await self._is_out_of_service(name):
            lines += ["It is still tainted as out of service, so no pod stays there. To take it back into service:"]
            lines += [f"kubectl taint nodes {name} {OUT_OF_SERVICE_TAINT}-"]
        return "\n".join(lines)

    async def _is_out_of_service(self, name: str) -> bool:
        try:
            node = await self._cluster.get(NODES, name)
        except ApiError:  # somebody has deleted it
            return False
        return is_out_of_service(node)

    def _there(self) -> Nodes:
        if self._nodes is None:
            raise ConfigError("the driver has no node service, so its nodes have no agents that could be ended")
        return self._nodes
