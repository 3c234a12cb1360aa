"""A node with the real agent on it, in place of the scripted kubelet: machine, disk, driver and laws are those of the
nodes' simulation.

The site is one world's machines and their drivers; `AgentSide` is the plane's world as those parts look at it. What a
driver does on a machine is told to the plane's own laws, too: a volume counts as mounted from its first stage to its
last unstage.
"""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from mooring.api.core import NODES
from mooring.api.meta import Kind
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import StoredChange
from mooring.csi.errors import DriverError
from mooring.kube.cluster import Request
from mooring.kube.errors import Unreachable
from tests.sim.backend import Operation
from tests.sim.endpoint import device_of
from tests.sim.keeper import Keeper, Made
from tests.sim.laws import WRITING, Write
from tests.sim.line import what_of
from tests.sim.mortal import Mortal
from tests.sim.node.driver import GIVING, NodeService
from tests.sim.node.laws import Laws as NodeLaws
from tests.sim.node.life import NodeLine, agent_on
from tests.sim.node.machine import Machine
from tests.sim.node.plan import VolumePlan
from tests.sim.node.pod_words import Json
from tests.sim.node.world import MEMORY, Site
from tests.sim.plan import DRIVER
from tests.sim.plane.agent_plan import NodeView
from tests.sim.plane.kubelet import Kubelet
from tests.sim.plane.stands import Pair

T = TypeVar("T")

OFF_S: Final = 3.0
"""Until a request gives up that gets no answer from the network."""
REPAIR_S: Final = 20.0
"""The longest time until an administrator starts an agent anew whose Node was deleted: neither an agent nor a
kubelet does that itself.
"""


class _Pairs:
    """Those of which a function says that they are in it."""

    def __init__(self, has: Callable[[Pair], bool]) -> None:
        self._has = has

    def __contains__(self, pair: object) -> bool:
        return self._has(pair)  # type: ignore[arg-type]


class AgentSide:
    """The world as agents are simulated in it. taken: of which an agent can't know yet that they are gone from its
    node: detached by right while they were mounted, or mounted before its machine lost its power.
    """

    def __init__(self, world: Any, group: asyncio.TaskGroup) -> None:
        self._world = world
        self.plan, self.clock = NodeView(world.plan), world.program_clock
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-sim-", dir=MEMORY if MEMORY.is_dir() else None)
        self.backend = PlaneSite(self.plan, Path(self._folder.name), world, group)
        self.laws = AgentLaws(world, self.backend, self.plan)
        self.nodes: dict[str, AgentNode] = {}
        self.laws_of_plane: Any = None
        self.taken: set[Pair] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

    def begin(self, laws: Any) -> None:
        """The drivers are there, and the laws of nodes know what the plane's laws excuse. laws: the plane's."""
        self.laws_of_plane = laws
        self.laws.torn = _Pairs(lambda pair: pair in laws.torn or pair in laws.excused or pair in self.taken)  # type: ignore[assignment]
        self._world.store.on_change(self.laws.changed)
        for name, machine in self.backend.machines.items():
            self.backend.services[name, DRIVER] = Service(self, machine)

    def close(self) -> None:
        """The disks are given back."""
        self._folder.cleanup()


class PlaneSite(Site):
    """What is attached is what the storage behind the driver has published."""

    def __init__(self, plan: Any, root: Path, world: Any, group: asyncio.TaskGroup) -> None:
        super().__init__(plan, root, group)
        self.attached = _Pairs(lambda pair: pair[1] in world.backend.published[pair[0]])  # type: ignore[assignment]

    def metadata(self, handle: str, node: str) -> dict[str, str]:
        return device_of(handle, node)


class Service(NodeService):
    """The driver on one machine; the plane knows a machine by its node's name."""

    def __init__(self, side: AgentSide, machine: Machine) -> None:
        plan: Any = side.plan
        super().__init__(side, machine, plan.drivers[0], plan, side.clock, side.story, side.backend.group)

    @property
    def node_id(self) -> str:
        return self._machine.name

    def _take_effect(self, operation: Operation) -> DriverError | None:
        if operation.verb in GIVING:
            self._world.laws_of_plane.mounts(self._machine.name, operation.handle)
            self._world.taken.discard((operation.handle, self._machine.name))
        error = super()._take_effect(operation)
        self._world.nodes[self._machine.name].look_at_mounts()
        return error


class AgentLaws(NodeLaws):
    """Where programs and hands remove pods, too, only what an agent removes is judged."""

    def __init__(self, world: Any, site: PlaneSite, plan: NodeView) -> None:
        super().__init__(world.truth, site, plan, world.fail)  # type: ignore[arg-type]
        self._world, self._view = world, plan

    def changed(self, resource: Resource, change: StoredChange) -> None:
        if resource.plural == "persistentvolumes" and change.new is not None:
            self._view.learn(change.new.whole())
        super().changed(resource, change)

    def _planned(self, volume: Json) -> VolumePlan | None:
        """Under the name of the PersistentVolume that the claim is bound to."""
        name = volume["persistentVolumeClaim"]["claimName"]
        claims = self._world.laws.claims
        key = next((key for key in claims if key[1] == name), ("", ""))  # no two namespaces have claims of one name
        found = self._view.volume_of(self._world.laws.handle_of(key))
        return found and dataclasses.replace(found, name=claims[key]["spec"]["volumeName"])

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        """What an agent says of its pod may come late: its machine may have lost its power since."""
        if new is not None and type(WRITING.get()) is not Write:
            self.pods[new["metadata"]["uid"]] = new
        else:
            super()._pod_changed(old, new)

    def _pod_removed(self, old: Json) -> None:
        if type(WRITING.get()) is Write:
            super()._pod_removed(old)


class AgentLine(NodeLine):
    """Its writes are known for an agent's. Nothing goes over it while its node is cut off."""

    async def ask(self, request: Request) -> Any:
        if self._is_off():
            await self._world.clock.sleep(OFF_S)
            raise Unreachable("no route to host")
        if not request.writes:
            return await super().ask(request)
        token = WRITING.set(
            Write(self._mortal.number, lambda: self._mortal.alive, what_of(request), request.name, excused=False)
        )
        try:
            return await super().ask(request)
        finally:
            WRITING.reset(token)

    async def _is_cut(self, kind: Kind[T]) -> bool:
        if self._is_off():
            raise Unreachable("no route to host")
        return await super()._is_cut(kind)

    def _is_off(self) -> bool:
        node: AgentNode = self._world.nodes[self._mortal.who.partition("#")[0]]
        return node.powered and not node.alive


class AgentKeeper(Keeper):
    """Starts no agent while its node is off."""

    def __init__(self, world: Any, who: str, make: Callable[[Any, Mortal], Made]) -> None:
        super().__init__(world, who, make)
        self.on = asyncio.Event()
        self.on.set()

    async def _live(self, mortal: Mortal) -> None:
        await self.on.wait()
        await super()._live(mortal)


class AgentNode(Kubelet):
    """A machine with its agent. Who restarts an agent whose Node is gone lives here, too."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self._side: AgentSide = world.agents
        side = self._side
        side.nodes[name] = self
        self.machine, self.service = side.backend.machines[name], side.backend.services[name, DRIVER]
        make = agent_on(self.machine, AgentLine, heartbeats=True)
        self.keeper = AgentKeeper(world, name, lambda _, mortal: make(side, mortal))
        self.machine.make_socket(DRIVER)
        self._had_node = False

    async def run(self) -> None:
        while True:
            await self._looks.wait()
            self._looks.clear()
            if self._truth.get(NODES, self.name) is not None:
                self._had_node = True
            elif self._had_node and self.alive:
                await self._world.clock.sleep(self._randomness.uniform(0.0, REPAIR_S))
                if self._truth.get(NODES, self.name) is None:
                    self._had_node = False
                    self._tell("is started anew, for its Node is gone")
                    self.keeper.kill()

    async def renew_for_ever(self) -> None:
        """The agent does that."""

    # -- death and return

    def dies(self) -> None:
        self._stops()
        self.powered = False
        self.service.restart(0.0)
        self.machine.remove_socket(DRIVER)
        self.machine.reboot()
        self.mounted.clear()
        self._side.taken.update((volume.handle, self.name) for volume in self._side.plan.volumes)
        self._world.laws.rebooted(self.name)

    def is_cut(self) -> None:
        """From the network, and its agent works on with what it knows; or the agent has ended for good."""
        self.alive = False
        if self._randomness.happens(0.5):
            self._stops()

    def _stops(self) -> None:
        self.alive = False
        self.keeper.on.clear()
        self.keeper.kill()

    def returns(self) -> None:
        super().returns()
        self.plugs_in()
        self.keeper.on.set()

    def plugs_in(self) -> None:
        """The driver's registrar is there."""
        if self.machine.socket_of(DRIVER) not in self.machine.sockets:
            self.machine.make_socket(DRIVER)

    # -- mounts

    def look_at_mounts(self) -> None:
        """The driver has done something."""
        before = set(self.mounted)
        self.mounted = {handle: set() for handle in self.machine.staged}
        for path, handle in self.machine.published.items():
            uid = Path(path).relative_to(self.machine.layout.pods).parts[0]
            self.mounted.setdefault(handle, set()).add(uid)
        for handle in sorted(before - self.mounted.keys()):
            if (handle, self.name) in self._world.laws.excused:
                self._side.taken.add((handle, self.name))
            self._world.laws.unmounted(self.name, handle)


def nodes_of(world: Any) -> dict[str, Kubelet]:
    """The nodes of a world, as its plan has them."""
    kind = AgentNode if world.plan.agents.runs else Kubelet
    return {node: kind(world, node) for node in world.plan.nodes}
