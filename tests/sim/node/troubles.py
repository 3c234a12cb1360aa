"""What wears out, and what users do by mistake: each trouble is a method, drawn by its weight in the plan's habits.

Beside the acts, and with a randomness of its own: a life without troubles has the acts that it always had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mooring.api.core import NODES
from mooring.base.randomness import Random
from mooring.kube.errors import ApiError
from mooring.node.agent import new_node
from mooring.node.volumes.state import folders
from tests.sim.acting import Acting
from tests.sim.keeper import Keeper
from tests.sim.node.acts import Acts, claims_in
from tests.sim.node.controller import AttachDetach
from tests.sim.node.machine import Machine, Spoiled
from tests.sim.node.plan import RWX
from tests.sim.node.pod_words import Json
from tests.sim.node.world import NodeWorld

_OWN: Final = 1 << 42
LASTS_S_MAX: Final = 60.0
LOOK_S: Final = 0.02
AGAIN_S_MAX: Final = 3.0
"""After its end, until a pod is made again."""
FULL_S: Final = 300.0
"""Longer than a pod waits for an attachment before that is told."""
_KINDS: Final = ("truncated", "garbage", "another's", "unreadable", "gone", "unlistable")


class Troubles(Acting):
    _teller = "trouble"

    def __init__(self, world: NodeWorld, agents: dict[str, Keeper], acts: Acts, controller: AttachDetach) -> None:
        self._world, self._agents, self._acts, self._controller = world, agents, acts, controller
        self._site, self._plan = world.backend, world.plan
        self._randomness = Random(_OWN + world.plan.seed)
        self._count = 0

    async def disturb(self) -> None:
        """One of them, now and then."""
        habits = self._plan.habits
        if habits.troubles and self._randomness.happens(habits.often):
            await self._one_act(habits.troubles)

    # -- the disk

    async def spoil_record(self) -> None:
        """A record, or a folder of records, can't be read any more; mostly the agent starts anew soon after."""
        machine = self._a_machine()
        found = [path for path in _records(machine) if path not in machine.spoiled]
        if not found or machine.name in self._world.laws.bare:
            return
        for path in found if self._randomness.happens(0.3) else [self._one_of(found)]:
            self._spoil(machine, path)
        if self._randomness.happens(0.8):
            self._agents[machine.name].kill()

    def _spoil(self, machine: Machine, path: Path) -> None:
        kind = self._one_of(_KINDS)
        before, now = path.read_bytes(), None
        if kind == "unlistable":
            path, before = path.parent.parent, b""
        elif kind == "gone" and self._is_at_work(machine, path, before):
            return  # where neither a record nor a mount tells of what is about to come, nobody can know of it
        elif kind == "gone":
            path.unlink()
        elif kind == "unreadable":
            now = before
        else:
            now = {"truncated": before[: len(before) // 2], "garbage": b"\0\0\0", "another's": _of_another(before)}[
                kind
            ]
            path.write_bytes(now)
        self._tell(f"{machine.short(path)} on {machine.name} is {kind}")
        machine.spoiled[path] = Spoiled(kind, before or None, now)

    def _is_at_work(self, machine: Machine, record: Path, content: bytes) -> bool:
        """True while a call of the driver's may bring what the record tells of."""
        try:
            handle = json.loads(content)["volumeHandle"]
        except ValueError:
            return False  # it was spoilt before
        coming = self._world.laws.coming(machine, handle)
        return any(Path(one).parent == record.parent or machine.layout.block in record.parents for one in coming)

    async def mend_records(self) -> None:
        machine = self._a_machine()
        self._tell(f"mends what can't be read on {machine.name}")
        machine.mend()

    def make_peace(self) -> None:
        """What is staged of a driver that does not attach is looked for at a start alone: people start the agent
        anew.
        """
        for machine in self._site.machines.values():
            folders = [machine.layout.csi / driver.name for driver in self._plan.drivers if not driver.attaches]
            if any(path == folder or folder in path.parents for path in machine.mended for folder in folders):
                self._agents[machine.name].kill()

    async def fill_disk(self) -> None:
        machine = self._a_machine()
        machine.full_until_s = self._until_s()
        self._tell(f"fills the disk of {machine.name} until {machine.full_until_s:.3f} s")

    async def protect_folder(self) -> None:
        """Nobody can write in one volume's or one pod's folder."""
        machine = self._a_machine()
        if found := list(_records(machine)):
            folder = self._one_of(found).parent
            folder = self._one_of((folder, folder.parent))
            machine.protected[str(folder)] = self._until_s()
            self._tell(f"protects {machine.short(folder)} on {machine.name}")

    # -- pods

    async def make_lost_pod(self) -> None:
        """A pod with a claim that is not there: it never runs. Another of its claims may be."""
        self._count += 1
        volumes = [self._one_of(self._plan.volumes)] if self._randomness.happens(0.5) else []
        node = self._one_of(self._plan.nodes)
        volumes = [volume for volume in volumes if volume.mode == RWX]
        await self._acts.make_pod_of(volumes, node, name=f"lost{self._count}", lost=[f"nowhere{self._count}"])

    async def remake_pod(self) -> None:
        """Removed, by force or not, and made again under its name, when it is gone and on its node: as a StatefulSet
        does.
        """
        pods = [pod for pod in self._world.laws.pods.values() if not pod["metadata"]["name"].startswith("lost")]
        if pods:
            pod = self._one_of(pods)
            await self._acts.delete(pod, grace_s=self._one_of((0, None, None)))
            self._count += 1
            self._site.group.create_task(self._made_again(pod), name=f"sim/trouble/remake/{self._count}")

    async def _made_again(self, pod: Json) -> None:
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"]["nodeName"]
        while self._world.faulty and uid in self._world.laws.pods:
            await self._world.clock.sleep(LOOK_S)
        await self._world.clock.sleep(
            self._randomness.uniform(0.0, AGAIN_S_MAX) if self._randomness.happens(0.7) else 0.0
        )
        if self._world.faulty and not any(
            other["metadata"]["name"] == name for other in self._world.laws.pods.values()
        ):
            volumes = [volume for volume in self._plan.volumes if volume.name in claims_in(pod)]
            await self._acts.make_pod_of(volumes, node, name=name)

    async def remake_claim(self) -> None:
        """Also under a pod that lives."""
        volume = self._one_of(self._plan.volumes)
        if volume.name in self._acts.remade:
            await self._acts.give_back()
        elif not volume.bound_late:
            await self._acts.remake_claim(volume)

    async def share_volume(self) -> None:
        """Each node gets a pod of a volume that all may have."""
        shared = [volume for volume in self._plan.volumes if volume.mode == RWX]
        if shared and len(self._acts.alive()) < 4:
            volume = self._one_of(shared)
            for node in self._plan.nodes:
                await self._acts.make_pod_of([volume], node)

    # -- nodes

    async def fill_node(self) -> None:
        """What is attached is torn away, and the node takes no volume for a while: also for a new pod beside one that
        runs.
        """
        pods = [pod for pod in self._acts.alive() if pod["status"]["phase"] == "Running"]
        names = {
            volume.name
            for volume in self._plan.volumes
            if self._plan.driver_of(volume.driver).attaches and volume.mode == RWX
        }
        pairs = [(name, pod["spec"]["nodeName"]) for pod in pods for name in claims_in(pod) if name in names]
        if pairs:
            name, node = self._one_of(pairs)
            self._tell(f"{node} takes no volumes for a while")
            self._controller.full_until_s[node] = self._world.clock.now() + FULL_S
            self._controller.tear(name, node)
            await self._acts.make_pod_of([volume for volume in self._plan.volumes if volume.name == name], node)

    async def forget_node(self) -> None:
        """The Node is deleted and made anew, by somebody who does not know what is on it, while its agent is away."""
        node = self._one_of(self._plan.nodes)
        if self._world.truth.get(NODES, node) is None or self._site.machines[node].spoiled:
            return  # where neither the Node nor a record tells of a volume, nobody can know of it
        self._tell(f"the Node {node} is made anew")
        self._agents[node].kill()
        self._world.laws.bare.add(node)
        try:
            await self._world.cluster.delete(NODES, node)
            await self._world.cluster.create(NODES.whole(), new_node(node))
        except ApiError as error:
            raise AssertionError("nobody else does that") from error
        await self._controller.node_remade(node)

    async def take_other_id(self) -> None:
        """A driver answers for another node, or for none, from now on."""
        node, driver = self._one_of(sorted(self._site.services))
        self._site.services[node, driver].other_id = self._one_of(("", f"{driver} on another machine"))
        self._tell(f"{driver} on {node} answers as {self._site.services[node, driver].other_id!r}")

    # -- means

    def _a_machine(self) -> Machine:
        return self._site.machines[self._one_of(self._plan.nodes)]

    def _until_s(self) -> float:
        return self._world.clock.now() + self._randomness.uniform(0.0, LASTS_S_MAX)


def _records(machine: Machine) -> Iterator[Path]:
    for top in (machine.layout.pods, machine.layout.csi):
        yield from sorted(top.rglob(folders.RECORD))


def _of_another(record: bytes) -> bytes:
    found = json.loads(record)
    return json.dumps(found | {"volumeHandle": f"{found['volumeHandle']}-other", "specVolID": "other"}).encode()
