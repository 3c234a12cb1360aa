"""A cluster that binds, and what a test does to it: ours on in-process ports in virtual time, or a real one through its API server.

The objects of a `World` have names of their own (`world("claim")` is `claim-7`), so that many can share one cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.apiserver.bootstrap import new_store
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import Faults, LocalCluster
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.manager import Manager
from mooring.control.runtime import Runtime
from mooring.controllers.binder.controller import make_binder
from mooring.controllers.binding.options import BinderOptions
from mooring.kube.cluster import Cluster, Patch, PatchType, WatchEvent
from mooring.kube.errors import ApiError, Conflict, Forbidden, NotFound
from tests.support.builders import KINDS, NS, Json, a_class, a_pod, a_ready_node, a_volume, namespace_of
from tests.support.recording import RecordingCluster

_numbers = itertools.count(1)
EPOCH_S = 1_780_000_000.0
PVC, PV, POD, NODE = "PersistentVolumeClaim", "PersistentVolume", "Pod", "Node"
Check = Callable[[Json], Any]


class World:
    """cluster: as everybody else reaches it. look_s: how often is looked whether something has come."""

    def __init__(self, cluster: Cluster, *, wait_s: float = 30.0, look_s: float = 0.01) -> None:
        self.cluster, self._wait_s, self._look_s = cluster, wait_s, look_s
        self._number = next(_numbers)
        self.driver = f"csi-{self._number}.test"

    def __call__(self, name: str) -> str:
        return f"{name}-{self._number}"

    # -- objects

    async def create(self, body: Json) -> Json:
        """As given; its status, too."""
        kind = KINDS[body["kind"]].whole()
        return await self.cluster.create(kind, {key: value for key, value in body.items() if key != "status"}, namespace_of(body))

    async def get(self, kind: str, name: str) -> Json:
        known = KINDS[kind]
        return await self.cluster.get(known.whole(), name, NS if known.namespaced else "")

    async def patch(self, kind: str, name: str, body: Mapping[str, Any], subresource: str = "") -> Json:
        known = KINDS[kind]
        patch = Patch(PatchType.MERGE, body)
        return await self.cluster.patch(known.whole(), name, patch, NS if known.namespaced else "", subresource=subresource)

    async def delete(self, kind: str, name: str) -> None:
        known = KINDS[kind]
        await self.cluster.delete(known, name, NS if known.namespaced else "")

    async def make_class(self, **more: Any) -> Json:
        return await self.create(a_class(self("sc"), **{"provisioner": self.driver, **more}))

    async def make_node(self, base: str = "n1", **labels: str) -> str:
        """Ready, without the taint that admission gives; only this world's pods choose it."""
        name = self(base)
        body = a_ready_node(name, world=str(self._number), **labels)
        await self.create(body)
        await self.patch(NODE, name, {"status": body["status"]}, "status")

        async def untainted() -> bool:
            with contextlib.suppress(Conflict):
                return not (await self.patch(NODE, name, {"spec": {"taints": None}}))["spec"].get("taints")
            return False

        await self.until(untainted, "a node without taints")
        return name

    async def make_pod(self, *claims: str, base: str = "pod", **more: Any) -> Json:
        """claims: whole names. node: of this world unless one is named."""
        if "node" not in more:
            more["nodeSelector"] = {**more.get("nodeSelector", {}), "world": str(self._number)}
        return await self.create(a_pod(self(base), *claims, **{"terminationGracePeriodSeconds": 0, **more}))

    async def provision(self, claim: Json, base: str = "pv", *, policy: str = "Delete", **more: Any) -> Json:
        """The volume that an external provisioner would write."""
        noted = {"pv.kubernetes.io/provisioned-by": self.driver}
        return await self.create(a_volume(self(base), sc=self("sc"), claim=claim, policy=policy, annotations=noted, **more))

    # -- waiting

    async def until(self, check: Callable[[], Awaitable[Any]], what: str) -> Any:
        """The first truthy answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_s
        while True:
            found = await check()
            if found:
                return found
            assert loop.time() < deadline, f"not within {self._wait_s:g} s: {what}"
            await asyncio.sleep(self._look_s)

    async def shown(self, kind: str, name: str, check: Check, what: str) -> Json:
        """The object, once it is as wanted."""

        async def holds() -> Json | None:
            try:
                found = await self.get(kind, name)
            except NotFound:
                return None
            return found if check(found) else None

        found: Json = await self.until(holds, f"{kind} {name} {what}")
        return found

    async def available(self, base: str = "pv", **more: Any) -> Json:
        """A volume of the world's class that the binder has found to be free. more: as for a_volume."""
        await self.create(a_volume(self(base), sc=self("sc"), **more))
        return await self.phase(PV, self(base), "Available")

    async def phase(self, kind: str, name: str, phase: str) -> Json:
        return await self.shown(kind, name, lambda body: body["status"].get("phase") == phase, phase)

    async def bound(self, claim: str, volume: str) -> Json:
        def check(body: Json) -> bool:
            return bool(body["status"].get("phase") == "Bound" and body["spec"].get("volumeName") == volume)

        return await self.shown(PVC, claim, check, f"bound to {volume}")

    async def asked(self, claim: str) -> Json:
        key = "volume.kubernetes.io/storage-provisioner"
        return await self.shown(PVC, claim, lambda body: annotations(body).get(key) == self.driver, "asked for")

    async def selected(self, claim: str, node: str) -> Json:
        key = "volume.kubernetes.io/selected-node"
        return await self.shown(PVC, claim, lambda body: annotations(body).get(key) == node, f"with node {node}")

    async def scheduled(self, pod: str, node: str) -> Json:
        return await self.shown(POD, pod, lambda body: body["spec"].get("nodeName") == node, f"on {node}")

    async def rejected(self, pod: str, text: str) -> None:
        await self.shown(POD, pod, lambda body: text in rejection(body), f"says {text!r}")

    async def gone(self, kind: str, name: str) -> None:
        async def is_gone() -> bool:
            try:
                await self.get(kind, name)
            except NotFound:
                return True
            return False

        await self.until(is_gone, f"{kind} {name} is gone")

    async def told(self, obj: Json, type: str, reason: str, text: str) -> None:
        """An event on the object."""

        async def is_told() -> bool:
            found = await self.cluster.list(EVENTS)
            uid = obj["metadata"]["uid"]
            events = [one for one in found.items if one.involved_object.uid == uid]
            return any((one.type, one.reason) == (type, reason) and text in one.message for one in events)

        await self.until(is_told, f"event {type} {reason} {text!r} on {obj['metadata']['name']}")

    async def settle(self) -> None:
        """Everything before this has been seen: a later pair is bound."""
        number = next(_numbers)
        name = self(f"settle-{number}")
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": name}
        await self.create(a_volume(name, sc=name))
        meta = {"name": name, "namespace": NS}
        await self.create({"apiVersion": "v1", "kind": PVC, "metadata": meta, "spec": claim})
        await self.bound(name, name)


def annotations(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("annotations") or {}
    return found


def finalizers(body: Json) -> list[str]:
    found: list[str] = body["metadata"].get("finalizers") or []
    return found


def rejection(pod: Json) -> str:
    """What the scheduler last said of the pod."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), "")


class LateWatch(Faults):
    """The watches of these kinds come late."""

    def __init__(self, *plurals: str, seconds: float = 5.0) -> None:
        self._plurals, self._seconds = plurals, seconds

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        if kind.plural in self._plurals:
            await asyncio.sleep(self._seconds)


class Forbids(Faults):
    """These kinds can't be listed."""

    def __init__(self, *plurals: str) -> None:
        self._plurals = plurals

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list" and kind.plural in self._plurals:
            raise Forbidden(f"{kind.plural} is forbidden", reason="Forbidden")


class HeldWrites(Faults):
    """The first PUT of one object waits until it is let go. begun: it has come."""

    def __init__(self) -> None:
        self.name = ""
        self._error: ApiError | None = None
        self.begun, self._go = asyncio.Event(), asyncio.Event()

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "replace" and name == self.name and not self.begun.is_set():
            self.begun.set()
            await self._go.wait()
            if self._error is not None:
                raise self._error

    def let_go(self, error: ApiError | None = None) -> None:
        """error: what it fails with, None for a PUT that reaches the server."""
        self._error = error
        self._go.set()


class Ours:
    """A store, and a binder on it. story: its writes."""

    def __init__(self, faults: Faults | None = None, **options: Any) -> None:
        self.clock, self.chance = LoopClock(EPOCH_S), Chance(7)
        self.store = new_store(self.chance, EPOCH_S)
        self.story: list[str] = []
        self.metrics = Metrics()
        self.options = BinderOptions(**options)
        self.users = LocalCluster(self.store, clock=self.clock, chance=self.chance)
        self.cluster = RecordingCluster(LocalCluster(self.store, clock=self.clock, chance=self.chance, faults=faults), self.story)
        self.binder: Manager | None = None

    @contextlib.asynccontextmanager
    async def keeping_house(self) -> AsyncIterator[None]:
        """The server's own garbage collector."""
        housekeeping = Housekeeping(self.store, clock=self.clock)
        housekeeping.start()
        try:
            yield
        finally:
            housekeeping.close()

    @contextlib.asynccontextmanager
    async def binding(self) -> AsyncIterator[World]:
        """A running binder; cancelled at the end, as by kill -9."""
        self.binder = make_binder(Runtime(self.cluster, self.clock, self.chance, self.metrics), self.options)
        running = asyncio.create_task(self.binder.run(), name="binder")
        try:
            async with self.keeping_house():
                yield World(self.users)
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def writes(self, *names: str) -> list[str]:
        """What the binder wrote to these objects, as short texts."""
        found = [one for one in self.cluster.requests if one.verb in ("create", "update", "patch", "delete") and one.resource != "events"]
        return [one.short for one in found if one.name in names]
