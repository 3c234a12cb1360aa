"""The attach/detach controller and the attacher as one actor: it follows the pods, and node.status.volumesInUse is its
lock.

A volume is detached when no pod on the node is left that names it and the node does not report it in use: it is taken
off node.status.volumesAttached, then the report is read once more, then the attachment goes. An impatient controller
does not read it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Final

from mooring.api.core import NODES
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.api.volume_names import attachment_name, unique_name
from mooring.kube.cluster import Patch, PatchType
from mooring.wire.grpc.codes import Code
from tests.sim.node.laws import node_in_use
from tests.sim.node.plan import VolumePlan
from tests.sim.node.pod_words import FINISHED
from tests.sim.node.world import NodeWorld
from tests.support.builders import a_va

FINALIZER: Final = "external-attacher/csi-example-com"
LOOK_S: Final = 0.2
FULL_LOOK_S: Final = 5.0
BARE_S: Final = 60.0
"""How long a Node that was made anew keeps what is attached, though it does not report it."""
_Pair = tuple[str, str]


class AttachDetach:
    """Pairs are of a volume's name and a node. full_until_s: by node, how long the driver attaches nothing to it."""

    def __init__(self, world: NodeWorld) -> None:
        self._world, self._site, self._cluster = world, world.backend, world.cluster
        self._randomness = world.randomness["actor"]
        self._volumes = {
            volume.name: volume for volume in world.plan.volumes if world.plan.driver_of(volume.driver).attaches
        }
        self._busy: set[_Pair] = set()
        self._listed: dict[str, set[str]] = defaultdict(set)
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._looks_again = asyncio.Event()
        self.full_until_s: dict[str, float] = {}
        self._remade_at_s: dict[str, float] = {}
        world.laws.on_change = self._looks_again.set

    async def run(self) -> None:
        while True:
            await self._looks_again.wait()
            self._looks_again.clear()
            await self._world.clock.sleep(self._randomness.uniform(0.0, LOOK_S))
            self._tend()

    def wanted(self) -> set[_Pair]:
        """Also by a pod that is being deleted: until it is gone the node may need the volume."""
        return {
            (volume["persistentVolumeClaim"]["claimName"], pod["spec"]["nodeName"])
            for pod in self._world.laws.pods.values()
            if pod["status"].get("phase") not in FINISHED
            for volume in pod["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume and volume["persistentVolumeClaim"]["claimName"] in self._volumes
        }

    def left(self) -> list[str]:
        """Attachments that are there, or on their way."""
        busy = [f"{volume} at {node}" for volume, node in sorted(self._busy)]
        return [*busy, *(attachment.metadata.name for attachment in self._world.truth.all(VOLUME_ATTACHMENTS))]

    def _tend(self) -> None:
        wanted = self.wanted()
        for pair in sorted(self._attached() - wanted - self._busy):
            self._unwanted(pair)
        for pair in sorted(wanted - self._attached() - self._busy):
            if self._world.truth.get(NODES, pair[1]) is not None and self._may_attach(*pair):
                self._begin(pair, self._attach(*pair))

    def _attached(self) -> set[_Pair]:
        """What the nodes list."""
        pairs = ((volume, node) for volume in self._volumes.values() for node in self._listed)
        return {(volume.name, node) for volume, node in pairs if self._name(volume) in self._listed[node]}

    def _unwanted(self, pair: _Pair) -> None:
        volume, node = self._volumes[pair[0]], pair[1]
        by_force = False
        is_new = self._world.clock.now() < self._remade_at_s.get(node, -BARE_S) + BARE_S
        if node in self._world.laws.bare and (is_new or self._world.laws.needs(self._site.machines[node])):
            return  # a Node that nobody has reported on yet loses nothing
        if self._name(volume) in node_in_use(self._world.truth, node):
            by_force = self._world.faulty and self._randomness.happens(self._world.plan.impatient)
            if not by_force:
                return
        self._begin(pair, self._detach(*pair, by_force))

    def _may_attach(self, name: str, node: str) -> bool:
        """A volume for one node waits until it has left the others."""
        pairs = ((volume, at) for volume in self._volumes.values() for at in self._site.machines)
        held = {(volume.name, at) for volume, at in pairs if (volume.handle, at) in self._site.attached}
        others = self._attached() | self._busy | held
        return not self._volumes[name].single_node or not any(
            volume == name and other != node for volume, other in others
        )

    def _begin(self, pair: _Pair, work: Any) -> None:
        self._busy.add(pair)
        self._site.group.create_task(self._to_its_end(pair, work), name=f"attachdetach/{pair}")

    async def _to_its_end(self, pair: _Pair, work: Any) -> None:
        try:
            await work
        finally:
            self._busy.discard(pair)
            self._looks_again.set()

    def tear(self, name: str, node: str) -> None:
        """By force, whoever has it in use."""
        if (name, node) in self._attached() and (name, node) not in self._busy:
            self._begin((name, node), self._detach(name, node, by_force=True))

    async def node_remade(self, node: str) -> None:
        """What is attached stays so, and is listed again."""
        self._remade_at_s[node] = self._world.clock.now()
        asyncio.get_running_loop().call_later(BARE_S, self._looks_again.set)
        async with self._locks[node]:
            body = self._listing(node)
            await self._cluster.patch(NODES, node, Patch(PatchType.STRATEGIC, body), subresource="status")

    # -- one attachment

    async def _attach(self, name: str, node: str) -> None:
        volume = self._volumes[name]
        attachment = attachment_name(volume.driver, volume.handle, node)
        self._tell(f"attaches {name} to {node}")
        if not self._world.truth.version(VOLUME_ATTACHMENTS, attachment):
            body = a_va(attachment, name, node, attacher=volume.driver, finalizers=[FINALIZER])
            await self._cluster.create(VOLUME_ATTACHMENTS.whole(), body)
        await self._pause()
        while self._world.faulty and self._world.clock.now() < self.full_until_s.get(node, 0.0):
            error = {"message": "no room for one more", "errorCode": Code.RESOURCE_EXHAUSTED.value}
            body = {"status": {"attachError": error}}
            await self._cluster.patch(
                VOLUME_ATTACHMENTS, attachment, Patch(PatchType.MERGE, body), subresource="status"
            )
            await self._world.clock.sleep(FULL_LOOK_S)
        metadata = self._site.attach(volume.handle, node)
        self._world.laws.attaches(volume.handle, node)
        await self._pause()
        status = {"status": {"attached": True, "attachmentMetadata": metadata, "attachError": None}}
        await self._cluster.patch(VOLUME_ATTACHMENTS, attachment, Patch(PatchType.MERGE, status), subresource="status")
        await self._pause()
        await self._list(node, self._name(volume), is_attached=True)

    async def _detach(self, name: str, node: str, by_force: bool) -> None:
        volume, unique = self._volumes[name], self._name(self._volumes[name])
        self._tell(f"is about to detach {name} from {node}{' by force' if by_force else ''}")
        await self._list(node, unique, is_attached=False)
        await self._pause()
        if not by_force and unique in node_in_use(self._world.truth, node):
            self._tell(f"leaves {name} at {node}, which has it in use")
            await self._list(node, unique, is_attached=True)
            return
        if by_force:
            self._world.laws.tears(volume.handle, node)
        attachment = attachment_name(volume.driver, volume.handle, node)
        await self._cluster.delete(VOLUME_ATTACHMENTS, attachment)
        await self._pause()
        if not by_force:
            self._world.laws.detaches(volume, node)
        self._tell(f"has detached {name} from {node}")
        self._site.attached.pop((volume.handle, node), None)
        await self._pause()
        await self._cluster.patch(
            VOLUME_ATTACHMENTS, attachment, Patch(PatchType.MERGE, {"metadata": {"finalizers": None}})
        )

    async def _list(self, node: str, unique: str, *, is_attached: bool) -> None:
        """In node.status.volumesAttached."""
        async with self._locks[node]:
            (self._listed[node].add if is_attached else self._listed[node].discard)(unique)
            body = self._listing(node)
            await self._cluster.patch(NODES, node, Patch(PatchType.STRATEGIC, body), subresource="status")

    def _listing(self, node: str) -> dict[str, Any]:
        entries = [{"name": name, "devicePath": ""} for name in sorted(self._listed[node])]
        return {"status": {"volumesAttached": entries or None}}

    async def _pause(self) -> None:
        longest_s = self._world.plan.step_s
        await self._world.clock.sleep(self._randomness.uniform(0.0, longest_s) if longest_s else 0.0)

    def _tell(self, what: str) -> None:
        self._world.story.tell("controller", what)

    @staticmethod
    def _name(volume: VolumePlan) -> str:
        return unique_name(volume.driver, volume.handle)
