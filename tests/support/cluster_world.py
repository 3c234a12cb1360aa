"""An embedded store and who acts on it: `users` as everybody else, unrecorded; `cluster` as the part under test, written down.

`story` holds requests and driver calls in one order, as short texts: `["DeleteVolume", "delete persistentvolumes", ...]`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any

from mooring.api.core import EVENTS, NAMESPACES
from mooring.api.meta import Kind
from mooring.apiserver.custom.definitions import Definitions
from mooring.apiserver.local import Faults, LocalCluster
from mooring.apiserver.rules import RESOURCES
from mooring.apiserver.store import ObjectStore
from mooring.base.clock import LoopClock
from mooring.base.metrics import Metrics
from mooring.base.randomness import Chance
from mooring.control.events import EventRecorder
from mooring.kube.cluster import Patch, PatchType, Selection
from mooring.kube.errors import AlreadyExists, NotFound
from tests.support.recording import RecordingCluster
from tests.support.snapshot_crds import SNAPSHOT_CRDS

EPOCH_S = 1_780_000_000.0
WAIT_S = 2000.0


class ClusterWorld:
    def __init__(self, faults: Faults | None = None) -> None:
        self.clock, self.chance, self.metrics = LoopClock(EPOCH_S), Chance(7), Metrics()
        self.store = ObjectStore(RESOURCES, self.chance)
        Definitions(self.store)
        self.story: list[str] = []
        self.users = LocalCluster(self.store, clock=self.clock, chance=self.chance)
        local = LocalCluster(self.store, clock=self.clock, chance=self.chance, faults=faults)
        self.cluster = RecordingCluster(local, self.story)
        self.recorder = EventRecorder(self.users, "csi.test_test", clock=self.clock, chance=self.chance)

    # -- objects

    async def create(self, kind: Kind[Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Also its status, and its namespace where that is missing."""
        namespace = body["metadata"].get("namespace", "")
        if namespace:
            await self.make_namespace(namespace)
        made = await self.users.create(kind.whole(), {"apiVersion": kind.api_version, "kind": kind.name, **body}, namespace)
        if body.get("status"):
            made = await self.patch(kind, made["metadata"]["name"], {"status": body["status"]}, namespace, "status")
        return made

    async def make_namespace(self, name: str) -> None:
        with contextlib.suppress(AlreadyExists):
            await self.users.create(NAMESPACES.whole(), {"metadata": {"name": name}})

    async def make_snapshot_kinds(self) -> None:
        kind: Kind[Any] = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, dict)
        for definition in SNAPSHOT_CRDS:
            await self.users.create(kind, definition)

    async def patch(
        self, kind: Kind[Any], name: str, body: Mapping[str, Any], namespace: str = "", subresource: str = ""
    ) -> dict[str, Any]:
        return await self.users.patch(kind.whole(), name, Patch(PatchType.MERGE, body), namespace, subresource=subresource)

    async def delete(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        await self.users.delete(kind, name, namespace)

    async def get(self, kind: Kind[Any], name: str, namespace: str = "") -> dict[str, Any]:
        return await self.users.get(kind.whole(), name, namespace)

    async def find(self, kind: Kind[Any], name: str, namespace: str = "") -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return await self.get(kind, name, namespace)
        return None

    async def list(self, kind: Kind[Any], namespace: str | None = None) -> list[dict[str, Any]]:
        return list((await self.users.list(kind.whole(), Selection(namespace=namespace))).items)

    async def events(self, name: str) -> list[tuple[str, str, str, int]]:
        """Type, reason, message and count of what was told about the object of this name."""
        await self.recorder.drain(10.0)
        found = [event for event in await self.list(EVENTS) if event["involvedObject"]["name"] == name]
        return [(event["type"], event["reason"], event["message"], event.get("count", 1)) for event in found]

    # -- running and waiting

    @contextlib.asynccontextmanager
    async def running(self, *parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
        """All of them at once; cancelled at the end, as by kill -9. What one of them raises is raised here."""
        await self.make_namespace("default")  # for events of what has no namespace
        tasks = [asyncio.create_task(part, name=f"part/{number}") for number, part in enumerate((*parts, self.recorder.run()))]
        try:
            yield
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, check: Callable[[], Awaitable[object]], wait_s: float = WAIT_S) -> None:
        """Waits in virtual time until the check holds."""
        deadline = self.clock.now() + wait_s
        while not await check():
            assert self.clock.now() < deadline, f"not within {wait_s} s; story: {self.story}"
            await asyncio.sleep(0.01)

    async def gone(self, kind: Kind[Any], name: str, namespace: str = "", wait_s: float = WAIT_S) -> None:
        async def is_gone() -> bool:
            return await self.find(kind, name, namespace) is None

        await self.until(is_gone, wait_s)

    async def settle(self, seconds: float = 0.5) -> None:
        """Lets so much time pass: enough for every event to arrive and every worker to have ended, too short for a back-off."""
        await asyncio.sleep(seconds)


def metric(metrics: Metrics, name: str, **labels: str) -> float | None:
    """A sample's value, None when there is none."""
    return metrics.registry.get_sample_value(name, labels)


def without(story: list[str], *shorts: str) -> list[str]:
    return [step for step in story if step not in shorts]
