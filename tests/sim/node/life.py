"""What an agent's life begins with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.node.agent import AgentOptions, AgentSockets, NodeAgent
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.node.disk import DISK, Disk
from tests.sim.node.endpoint import Connection, Endpoint, Plugin, Watch
from tests.sim.node.machine import Machine
from tests.sim.provisioning.line import WritingLine


class NodeLine(WritingLine):
    """Watches of a node's own objects are not shown every change of their kind: what counts is the work that is left."""

    watched = ()


class Agent(NodeAgent):
    """Its work for threads goes to the machine's disk."""

    disk: Disk

    async def run(self) -> None:
        DISK.set(self.disk)
        await super().run()


def agent_on(
    machine: Machine, make_line: Callable[[Any, Mortal], NodeLine] = NodeLine, *, heartbeats: bool = False
) -> Callable[[Any, Mortal], Made]:
    """heartbeats: somebody judges who is alive."""

    def made(world: Any, mortal: Mortal) -> Made:
        line = make_line(world, mortal)
        randomness = Random(world.plan.seed * 3000 + list(world.backend.machines).index(machine.name) * 100 + mortal.number)
        sockets = AgentSockets(
            watch=lambda _folder, changed, **_ports: Watch(machine, mortal, changed),
            plugin=lambda socket: Plugin(world, machine, mortal, socket),
            driver=lambda endpoint, **options: _connection(world, machine, mortal, endpoint, options),
        )
        agent = Agent(
            Runtime(line, world.clock, randomness, Metrics()),
            AgentOptions(machine.name, machine.layout.root, heartbeats=heartbeats),
            sockets=sockets,
        )
        agent.disk = Disk(world, machine, mortal)
        return agent, line

    return made


def _connection(world: Any, machine: Machine, mortal: Mortal, endpoint: str, options: dict[str, Any]) -> Any:
    service = world.backend.services[machine.name, Path(endpoint).name]
    return Connection(world, Endpoint(world, machine, mortal, service), service, **options)
