"""What happens to nodes and their Nodes: acts, as in `acts.py`."""

from __future__ import annotations

import math
from typing import Any, Final

from mooring.api.core import NODES
from mooring.base.randomness import Random
from tests.sim.acting import Acting

ISCSI: Final = "kubernetes.io/iscsi/1.2.3.4:iqn.2001-04.com.example:storage:0"


class NodeActs(Acting):
    """A part of `Acts`."""

    _world: Any
    _hands: Any
    _randomness: Random
    _count: int

    async def wipe_report(self) -> None:
        """Something registers the node anew, and its status forgets; or another plugin's entry stands there."""
        node = self._one_of(self._world.plan.nodes)
        entries = [{"name": ISCSI, "devicePath": "/dev/sdx"}] if self._randomness.happens(0.5) else None
        await self._hands.merge(NODES, node, {"status": {"volumesAttached": entries}}, subresource="status")

    async def touch_node(self) -> None:
        notes = {"users.example.com/count": str(self._count)}
        await self._hands.merge(NODES, self._one_of(self._world.plan.nodes), {"metadata": {"annotations": notes}})

    async def kill_node(self) -> None:
        """Its power is off."""
        node = self._victim()
        self._hands.tell(f"kills {node}")
        self._hands.kubelets[node].dies()

    async def cut_node(self) -> None:
        """Its kubelet falls silent, and its pods run on."""
        node = self._victim()
        self._hands.tell(f"cuts {node} off")
        self._hands.kubelets[node].is_cut()

    def _victim(self) -> str:
        """Mostly a node that has something mounted."""
        busy = [node for node, kubelet in self._hands.kubelets.items() if kubelet.mounted]
        return self._one_of(busy if busy and self._randomness.happens(0.8) else self._world.plan.nodes)

    async def return_node(self) -> None:
        now = self._world.clock.now() if self._world.faulty else math.inf
        if dead := [
            node for node, kubelet in self._hands.kubelets.items() if not kubelet.alive and now >= kubelet.down_until
        ]:
            node = self._one_of(dead)
            self._hands.tell(f"{node} returns")
            self._hands.kubelets[node].returns()
            if self._randomness.happens(0.7):
                await self._hands.untaint(node)

    async def taint_node(self) -> None:
        """Mostly one that is dead, as it should be."""
        dead = [node for node, kubelet in self._hands.kubelets.items() if not kubelet.alive]
        if dead or self._randomness.happens(0.2):
            await self._hands.taint(self._one_of(dead or self._world.plan.nodes))

    async def untaint_node(self) -> None:
        await self._hands.untaint(self._one_of(self._world.plan.nodes))

    async def delete_node(self) -> None:
        """Mostly one that is dead; a living one comes back by itself."""
        dead = [node for node, kubelet in self._hands.kubelets.items() if not kubelet.alive]
        if dead or self._randomness.happens(0.2):
            await self._hands.delete(NODES, self._one_of(dead or self._world.plan.nodes))
