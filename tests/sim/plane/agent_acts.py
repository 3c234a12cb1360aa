"""What happens to the agents of the plane's nodes and to their drivers: acts, as in `acts.py`."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.pods import PODS
from mooring.base.randomness import Random
from tests.sim.acting import Acting
from tests.sim.plan import DRIVER
from tests.sim.plane.agent import AgentNode
from tests.sim.plane.placing import chosen_node
from tests.sim.plane.plan import RWOP, VolumePlan
from tests.sim.plane.stands import Json, is_alive, node_of

AWAY_S_MAX: Final = 5.0


class AgentActs(Acting):
    """Acts of nodes that run the real agent, where one does; a part of `Acts`."""

    _world: Any
    _hands: Any
    _randomness: Random

    async def kill_agent(self) -> None:
        if (node := self._agent()) is not None:
            node.keeper.kill()

    async def roll_agent(self) -> None:
        if (node := self._agent()) is not None:
            self._hands.tell(f"rolls the agent of {node.name}")
            await node.keeper.roll()

    async def restart_node_driver(self) -> None:
        """Calls at work end, and its registrar may be there anew."""
        away_s = self._randomness.uniform(0.0, AWAY_S_MAX)
        if (node := self._agent()) is None:
            return
        self._hands.tell(f"restarts the driver on {node.name}, away for {away_s:.3f} s")
        node.service.restart(away_s)
        if self._randomness.happens(0.5) and node.powered:
            node.machine.make_socket(DRIVER)

    async def replug_driver(self) -> None:
        """Its registrar leaves, or comes back."""
        if (node := self._agent()) is None:
            return
        if node.machine.socket_of(DRIVER) in node.machine.sockets:
            self._hands.tell(f"stops the registrar on {node.name}")
            node.machine.remove_socket(DRIVER)
        elif node.powered:
            node.plugs_in()

    def _plug_in_all(self) -> None:
        for node in self._hands.kubelets.values():
            if isinstance(node, AgentNode) and node.powered:
                node.plugs_in()

    def _excludes(self, volume: VolumePlan, pod: Json, other: Json) -> bool:
        """True when the pods can't, or may not, run together for the volume's sake.

        That one pod alone may have it is an affair of agents and schedulers.
        """
        plan, may_be_elsewhere = self._world.plan, not node_of(pod) or node_of(pod) != node_of(other)
        return (volume.single_node and may_be_elsewhere) or (
            volume.mode == RWOP and (plan.agents.runs or plan.placing.runs)
        )

    async def give_up_pods(self) -> None:
        """Who has chosen a node that stays dead chooses anew."""
        for pod in [pod for pod in self._world.laws.pods.values() if not node_of(pod) and is_alive(pod)]:
            chosen = self._hands.kubelets.get(chosen_node(pod))
            if chosen is not None and not chosen.alive:
                await self._hands.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])

    def _agent(self) -> AgentNode | None:
        """Of one of the nodes."""
        node = self._hands.kubelets[self._one_of(self._world.plan.nodes)]
        return node if isinstance(node, AgentNode) else None
