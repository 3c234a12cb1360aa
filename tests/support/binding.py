"""A cluster that binds, and what a test does to it: ours on in-process ports in virtual time, or a real one through its
API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator
from typing import Any

from mooring.api.core import EVENTS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import ServerFaults
from mooring.cluster.binder.controller import make_binder
from mooring.cluster.binder.options import BinderOptions
from mooring.control.manager import Manager
from mooring.kube.cluster import Cluster
from mooring.kube.errors import ApiError, Conflict, Forbidden
from tests.support.builders import Json, a_claim, a_class, a_pod, a_ready_node, a_volume
from tests.support.cluster_world import ClusterUser, ClusterWorld

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_numbers = itertools.count(1 + 10_000 * _WORKER)  # all workers share one real cluster
PVC, PV, POD, NODE = PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, NODES


class Tenant(ClusterUser):
    """Whose objects have names of their own on a cluster that many share: `world("claim")` is `claim-7`."""

    def __init__(self, cluster: Cluster, *, wait_s: float = 30.0, look_s: float = 0.01) -> None:
        super().__init__(cluster, wait_s=wait_s, look_s=look_s)
        self._number = next(_numbers)
        self.driver = f"csi-{self._number}.test"

    def __call__(self, name: str) -> str:
        return f"{name}-{self._number}"

    # -- objects

    async def make_class(self, **more: Any) -> Json:
        return await self.create(a_class(self("sc"), **{"provisioner": self.driver, **more}))

    async def make_node(self, base: str = "n1", **labels: str) -> str:
        """Ready, without the taint that admission gives; only this world's pods choose it."""
        name = self(base)
        body = a_ready_node(name, world=str(self._number), **labels)
        await self.create(body)
        await self.patch(NODE, name, {"status": body["status"]}, subresource="status")

        async def untainted() -> bool:
            with contextlib.suppress(Conflict):
                return not (await self.patch(NODE, name, {"spec": {"taints": None}}))["spec"].get("taints")
            return False

        await self.until(untainted, what="a node without taints")
        return name

    async def make_claim(self, base: str = "claim", **more: Any) -> Json:
        """Of the world's class. more: as for `a_claim`."""
        return await self.create(a_claim(self(base), **{"sc": self("sc"), **more}))

    async def make_pair(self) -> Json:
        """A claim with the volume that was there for it, bound."""
        await self.available()
        await self.make_claim()
        return await self.bound(self("claim"), self("pv"))

    async def make_waiting_pod(self) -> Json:
        """One whose claim gets its volume where the pod goes."""
        await self.make_class(wffc=True)
        await self.make_claim()
        return await self.make_pod(self("claim"))

    async def make_pod(self, *claims: str, base: str = "pod", **more: Any) -> Json:
        """claims: whole names. node: of this world unless one is named."""
        if "node" not in more:
            more["nodeSelector"] = {**more.get("nodeSelector", {}), "world": str(self._number)}
        return await self.create(a_pod(self(base), *claims, **{"terminationGracePeriodSeconds": 0, **more}))

    async def provision(self, claim: Json, base: str = "pv", *, policy: str = "Delete", **more: Any) -> Json:
        """The volume that an external provisioner would write."""
        noted = {"pv.kubernetes.io/provisioned-by": self.driver}
        return await self.create(
            a_volume(self(base), sc=self("sc"), claim=claim, policy=policy, annotations=noted, **more)
        )

    # -- waiting

    async def available(self, base: str = "pv", **more: Any) -> Json:
        """A volume of the world's class that the binder has found to be free. more: as for a_volume."""
        await self.create(a_volume(self(base), sc=self("sc"), **more))
        return await self.phase(PV, self(base), "Available")

    async def phase(self, kind: Kind[Any], name: str, phase: str) -> Json:
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

    async def told(self, obj: Json, type: str, reason: str, text: str) -> None:
        """An event on the object."""

        async def is_told() -> bool:
            found = await self.users.list(EVENTS)
            uid = obj["metadata"]["uid"]
            events = [one for one in found.items if one.involved_object.uid == uid]
            return any((one.type, one.reason) == (type, reason) and text in one.message for one in events)

        await self.until(is_told, what=f"event {type} {reason} {text!r} on {obj['metadata']['name']}")

    async def settle(self) -> None:
        """Everything before this has been seen: a later pair is bound."""
        name = self(f"settle-{next(_numbers)}")
        await self.create(a_volume(name, sc=name))
        await self.create(a_claim(name, sc=name))
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
    return next(
        (one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"), ""
    )


class Forbids(ServerFaults):
    """plurals: of the kinds that can't be listed just now."""

    def __init__(self, *plurals: str) -> None:
        self.plurals = plurals

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == "list" and kind.plural in self.plurals:
            raise Forbidden(f"{kind.plural} is forbidden", reason="Forbidden")


class HeldWrites(ServerFaults):
    """The first PUT of one object waits until it is released. begun: it has come. verb: of another write."""

    def __init__(self, verb: str = "replace") -> None:
        self.name = ""
        self._verb = verb
        self._error: ApiError | None = None
        self._late = False
        self.begun, self._go = asyncio.Event(), asyncio.Event()

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == self._verb and name == self.name and not self.begun.is_set():
            self.begun.set()
            await self._go.wait()
            if self._error is not None and not self._late:
                raise self._error

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        if verb == self._verb and name == self.name and self._late and self._error is not None:
            error, self._error = self._error, None
            raise error

    def let_go(self, error: ApiError | None = None, *, late: bool = False) -> None:
        """error: what it fails with, None for a PUT that reaches the server. late: it reaches the server, and its
        answer is lost.
        """
        self._error, self._late = error, late
        self._go.set()


class BinderWorld(ClusterWorld):
    """A store, and a binder on it. story: its writes."""

    def __init__(self, faults: ServerFaults | None = None, **options: Any) -> None:
        super().__init__(faults)
        self.options = BinderOptions(**options)
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
    async def binding(self) -> AsyncIterator[Tenant]:
        """A running binder; cancelled at the end, as by kill -9."""
        self.binder = make_binder(self.runtime, self.options)
        async with self.running(self.binder.run()), self.keeping_house():
            yield Tenant(self.users)

    def writes(self, *names: str) -> list[str]:
        """What the binder wrote to these objects, as short texts."""
        found = [
            one
            for one in self.cluster.requests
            if one.verb in ("create", "update", "patch", "delete") and one.resource != "events"
        ]
        return [one.short for one in found if one.name in names]


@contextlib.asynccontextmanager
async def binding(faults: ServerFaults | None = None, **options: Any) -> AsyncIterator[tuple[BinderWorld, Tenant]]:
    """A new store with a running binder, and who acts on it."""
    ours = BinderWorld(faults, **options)
    async with ours.binding() as world:
        yield ours, world
