"""What an agent's life begins with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mooring.api.core import SERVICE_ACCOUNT_TOKENS, TokenRequestObject, TokenStatus
from mooring.api.meta import ObjectMeta
from mooring.base.clock import rfc3339
from mooring.base.metrics import Metrics
from mooring.base.randomness import Random
from mooring.control.runtime import Runtime
from mooring.kube.cluster import Request
from mooring.node.agent import AgentSockets, NodeAgent
from mooring.node.options import AgentOptions
from tests.sim.keeper import Made
from tests.sim.mortal import Mortal
from tests.sim.node.calls import TOKEN
from tests.sim.node.disk import DISK, Disk
from tests.sim.node.endpoint import Connection, Endpoint, Plugin, Watch
from tests.sim.node.machine import Machine
from tests.sim.node.pod_words import is_slow
from tests.sim.provisioning.line import WritingLine
from tests.sim.standing import outside

TOKEN_S: Final = 600.0
"""The life of a token, as short as the API server makes it."""

SLOW_S: Final = 200.0
"""Of a claim's read, where claims are slow."""
BEGUN_S: Final = 20.0
"""By then the agent has looked at every pod that was there when it began."""


class NodeLine(WritingLine):
    """Watches of a node's own objects are not shown every change of their kind: what counts is the work that is
    left.
    """

    watched = ()

    async def ask(self, request: Request) -> Any:
        if request.kind.plural == "events":
            self._world.laws.told.event(self._mortal.who, request)
        if request.kind is SERVICE_ACCOUNT_TOKENS:
            return await self._token(request)
        if (
            self._world.plan.habits.slow_claims
            and request.kind.plural == "persistentvolumeclaims"
            and is_slow(request.name)
        ):
            is_begun = self._world.clock.now() > BEGUN_S  # what pods want that are there at the start is waited for
            await self._world.clock.sleep(SLOW_S if is_begun and self._world.faulty else 0.0)
        return await super().ask(request)

    async def _token(self, request: Request) -> TokenRequestObject:
        """As the API server would sign it. It says whose it is."""
        uid = request.body["spec"]["boundObjectRef"]["uid"]
        fate = await self._asked(f"create token of {uid}", request)
        await self._answered(fate)
        expires = rfc3339(self._world.clock.wall_s() + TOKEN_S)
        return TokenRequestObject(ObjectMeta(), TokenStatus(f"{TOKEN}{uid}", expires))


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
        machine.mended.clear()
        machine.registering.clear()
        randomness = Random(
            world.plan.seed * 3000 + list(world.backend.machines).index(machine.name) * 100 + mortal.number
        )
        sockets = AgentSockets(
            watch=lambda _folder, changed, **_ports: Watch(machine, mortal, changed),
            plugin=lambda socket: Plugin(world, machine, mortal, socket),
            driver=lambda endpoint, **options: _connection(world, machine, mortal, endpoint, options),
        )
        agent = Agent(
            Runtime(outside(line), mortal.clock, randomness, Metrics()),
            AgentOptions(machine.name, machine.layout.root, heartbeats=heartbeats),
            sockets=sockets,
        )
        agent.disk = Disk(world, machine, mortal)
        return agent, line

    return made


def _connection(world: Any, machine: Machine, mortal: Mortal, endpoint: str, options: dict[str, Any]) -> Any:
    service = world.backend.services[machine.name, Path(endpoint).name]
    return Connection(world, Endpoint(world, machine, mortal, service), service, **options)
