"""Pods move at random while requests fail, answers get lost, watches lag and the controller dies: nothing is torn from
a node.

Seeds choose everything; in the end all is served, and then all is clean. A failing one repeats:
run_virtual(storm(seed), seed).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from mooring.api.core import NODES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.api.storage import VOLUME_ATTACHMENTS
from mooring.apiserver.local import ServerFaults
from mooring.cluster.attachdetach.controller import AttachDetach
from mooring.cluster.attachdetach.options import AttachDetachOptions
from mooring.kube import cluster
from mooring.kube.cluster import Verb, WatchEvent
from mooring.kube.errors import LATE_S, Conflict, Invalid, NotFound, ServerError, Unreachable
from tests.support.attachdetaching import HOLD, AttachDetachWorld, Vol
from tests.support.builders import RWO, RWX, Json
from tests.support.rows import each_row
from tests.support.virtual_loop import run_virtual

SEEDS = range(6)
STEPS = 60
NODE_COUNT, SINGLE_COUNT = 3, 3


class Weather(ServerFaults):
    """Delays and failures while it storms."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.storms = dice, True

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if self.storms and verb != "watch":
            await asyncio.sleep(self.dice.uniform(0, 0.05))
            if verb != "list" and self.dice.random() < 0.1:
                raise ServerError("not now")

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if self.storms and verb in ("create", "patch", "delete") and self.dice.random() < 0.1:
            raise Unreachable("lost")

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if self.storms:
            await asyncio.sleep(self.dice.choice((0, 0, 0, 0.02, 0.3)))


class Storm(AttachDetachWorld):
    """mounted: by node. broken: what must not have happened."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.weather = Weather(self.dice)
        super().__init__(self.weather)
        self.volumes: dict[str, Vol] = {}
        self.single: set[str] = set()
        self.mounted: dict[str, set[str]] = {}
        self.broken: list[str] = []
        self.made = self.taken = 0
        self._ask = self.cluster.ask
        self.cluster.ask = self._checked  # type: ignore[method-assign]

    async def _checked(self, request: cluster.Request) -> Any:
        """The controller's writes, held against what is stored when they take effect."""
        before = dict(await self._attachments())
        try:
            return await self._ask(request)
        finally:
            if request.kind.plural == "volumeattachments" and request.verb in (Verb.CREATE, Verb.DELETE):
                await self._judge(request, before)

    async def _attachments(self) -> list[tuple[str, Json]]:
        return [(one["metadata"]["name"], one) for one in await self.list(VOLUME_ATTACHMENTS)]

    async def _judge(self, request: cluster.Request, before: dict[str, Json]) -> None:
        if request.verb is Verb.CREATE:
            spec = request.body["spec"]
            pv = spec["source"]["persistentVolumeName"]
            where = {
                one["spec"]["nodeName"]
                for _, one in await self._attachments()
                if one["spec"]["source"]["persistentVolumeName"] == pv
            }
            self.made += 1
            if pv in self.single and len(where) > 1:
                self.broken.append(f"I1: {pv} has attachments to {sorted(where)}")
            return
        gone = before.get(request.name)
        if gone is None or request.uid != gone["metadata"]["uid"]:
            return
        still = await self.find(VOLUME_ATTACHMENTS, request.name)
        if still is not None and not still["metadata"].get("deletionTimestamp"):
            return  # it was refused
        volume, node = self.volumes[gone["spec"]["source"]["persistentVolumeName"]], gone["spec"]["nodeName"]
        self.taken += 1
        if volume.pv in self.mounted[node]:
            self.broken.append(f"I3: {volume.pv} was taken from {node}, which has it mounted")
        if volume.unique in await self.reported(node):
            self.broken.append(f"I4: {volume.pv} was taken from {node}, which still reports it")

    # -- the others

    async def kubelet(self, node: str) -> None:
        """Says what it is about to use, mounts what is reported after that, unmounts, and says so."""
        while True:
            await asyncio.sleep(self.dice.uniform(0.01, 0.3))
            pods = [pod for pod in await self.list(PODS) if pod["spec"].get("nodeName") == node]
            claims = {one["persistentVolumeClaim"]["claimName"] for pod in pods for one in pod["spec"]["volumes"]}
            wanted = {volume.pv for volume in self.volumes.values() if volume.claim in claims}
            await self._say(node, wanted | self.mounted[node])
            await asyncio.sleep(self.dice.uniform(0, 0.05))
            reported = await self.reported(node)
            self.mounted[node] &= wanted
            self.mounted[node] |= {pv for pv in wanted if self.volumes[pv].unique in reported}
            await self._say(node, wanted | self.mounted[node])

    async def _say(self, node: str, pvs: set[str]) -> None:
        names = sorted(self.volumes[pv].unique for pv in pvs)
        if names != sorted((await self.get(NODES, node))["status"].get("volumesInUse") or []):
            await self.node_status(node, volumesInUse=names or None)

    async def attacher(self) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(0.01, 0.2))
            for name, va in await self._attachments():
                with contextlib.suppress(NotFound, Conflict, Invalid):
                    await self._serve(name, va)

    async def _serve(self, name: str, va: Json) -> None:
        finalizers = va["metadata"].get("finalizers") or []
        if va["metadata"].get("deletionTimestamp"):
            await self.patch(VOLUME_ATTACHMENTS, name, {"metadata": {"finalizers": None}})
        elif HOLD not in finalizers:
            await self.patch(VOLUME_ATTACHMENTS, name, {"metadata": {"finalizers": [HOLD]}})
        elif not (va.get("status") or {}).get("attached"):
            fails = self.weather.storms and self.dice.random() < 0.3
            status = {"attached": not fails, "attachError": {"message": "x"} if fails else None}
            await self.patch(VOLUME_ATTACHMENTS, name, {"status": status}, subresource="status")

    async def mortal(self) -> None:
        """The controller, killed now and then."""
        while True:
            controller = AttachDetach(self.runtime, AttachDetachOptions())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.dice.uniform(0.5, 8) if self.weather.storms else None):
                    await controller.run()

    async def churn(self) -> None:
        """Pods come and go; for a volume of one node there may be two at once, on different nodes."""
        pods: list[str] = []
        for _ in range(STEPS):
            await asyncio.sleep(self.dice.expovariate(4))
            if pods and self.dice.random() < 0.5:
                await self.delete_pod(pods.pop(self.dice.randrange(len(pods))))
            else:
                volume, node = self.dice.choice(list(self.volumes.values())), self.dice.choice(list(self.mounted))
                pods.append(await self.pod(node, volume))
        self.weather.storms = False
        await self.settle(LATE_S + 20)  # a POST without an answer may hold a volume for so long
        await self._all_are_served()
        for pod in pods:
            await self.delete_pod(pod)

    async def is_clean(self) -> bool:
        await self.settle(1)
        return not any([await self.attachments(), *[await self.reported(node) for node in self.mounted]])

    async def _all_are_served(self) -> None:
        """Each volume that a pod wants is reported somewhere, a shared one wherever it is wanted."""
        for pod in await self.list(PODS):
            claim, node = pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], pod["spec"]["nodeName"]
            volume = next(one for one in self.volumes.values() if one.claim == claim)
            nodes = list(self.mounted) if volume.pv in self.single else [node]
            if not any([volume.unique in await self.reported(one) for one in nodes]):
                self.broken.append(f"I7: {volume.pv} is wanted and not reported")


async def storm(seed: int) -> Storm:
    world = Storm(seed)
    for modes in (RWO,) * SINGLE_COUNT + (RWX,):
        volume = await world.volume(modes=modes)
        world.volumes[volume.pv] = volume
        if modes == RWO:
            world.single.add(volume.pv)
    world.mounted = {await world.node(): set() for _ in range(NODE_COUNT)}
    async with world.running(world.attacher(), world.mortal(), *(world.kubelet(node) for node in world.mounted)):
        await world.churn()
        await world.until(world.is_clean, 200, "all is detached")
    return world


@pytest.mark.slow
@each_row("seed", SEEDS)
def test_nothing_is_torn_from_a_node_and_all_ends_clean(seed: int) -> None:
    world = run_virtual(storm(seed), seed)
    assert [] == world.broken
    assert world.made > 5
    assert world.taken > 5
