"""The client that makes objects and watches what becomes of them: the same for both contenders."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from mooring.kube.client.http import HttpCluster
from mooring.kube.client.kubeconfig import load
from mooring.kube.cluster import EventType, Patch, PatchType, WatchEvent
from mooring.kube.errors import NotFound
from tests.support.control_plane import ControlPlane

AT_ONCE = 32
SETTLED_S = 1.0
REQUESTS = "apiserver_request_total"
_SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)", re.M)
_WRITES = ("POST", "PUT", "PATCH", "DELETE")

L = TypeVar("L", bound="Load")
Watched = TypeVar("Watched")


class Load:
    """What every bench needs; one adds its own objects, and in `watch` what it looks for."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._changed = asyncio.Event()

    async def each(self, jobs: Iterable[Coroutine[Any, Any, Any]]) -> None:
        """Runs coroutines, 32 at a time."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(job: Coroutine[Any, Any, Any]) -> None:
            async with slots:
                await job

        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(one(job))

    async def watch(self) -> None:
        """Until cancelled."""
        raise NotImplementedError

    async def follow(self, kind: Kind[Watched], happened: Callable[[WatchEvent[Watched]], None]) -> None:
        """Calls happened with every change from now on."""
        version = (await self._cluster.list(kind, limit=1)).resource_version
        while True:  # the server ends the stream of whoever falls behind
            async with contextlib.aclosing(self._cluster.watch(kind, resource_version=version)) as events:
                async for event in events:
                    version = event.resource_version
                    if event.type is not EventType.BOOKMARK:
                        happened(event)
                        self._changed.set()

    async def until(self, seen: Mapping[str, float], names: Iterable[str], timeout_s: float) -> None:
        """Returns once all of these have been seen."""
        left = list(names)
        async with asyncio.timeout(timeout_s):
            while left:
                self._changed.clear()
                while left and left[-1] in seen:
                    left.pop()
                if left:
                    await self._changed.wait()

    async def remove(self, kind: Kind[Any], names: Iterable[str], namespace: str = "") -> None:
        """Those of them that are there, with the finalizers that are left."""
        await self.each(self._remove(kind, name, namespace) for name in names)

    async def _remove(self, kind: Kind[Any], name: str, namespace: str) -> None:
        with contextlib.suppress(NotFound):
            await self._cluster.patch(kind, name, Patch(PatchType.MERGE, {"metadata": {"finalizers": None}}), namespace)
            await self._cluster.delete(kind, name, namespace)

    async def writes(self, resources: Collection[str] = ()) -> collections.Counter[str]:
        """Writing requests of the whole server so far, as "PATCH persistentvolumes/status 200". resources: () for
        all.
        """
        found: collections.Counter[str] = collections.Counter()
        for _, labels, count in await self.samples(REQUESTS):
            if labels["verb"] in _WRITES and (not resources or labels["resource"] in resources):
                sub = f"/{labels['subresource']}" if labels["subresource"] else ""
                found[f"{labels['verb']} {labels['resource']}{sub} {labels['code']}"] += int(count)
        return found

    async def samples(self, *names: str) -> list[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each sample that the API server's /metrics has under these names."""
        text = (await asyncio.to_thread(self._plane.request, "GET", "/metrics"))[1].decode()
        found = (match for match in _SAMPLE.finditer(text) if match["name"] in names)
        return [
            (match["name"], dict(re.findall(r'(\w+)="([^"]*)"', match["labels"])), float(match["value"]))
            for match in found
        ]

    async def settled(self, resources: Collection[str] = ()) -> collections.Counter[str]:
        """The writes so far, once there have been no more for a second: events come last."""
        before = await self.writes(resources)
        while True:
            await asyncio.sleep(SETTLED_S)
            now = await self.writes(resources)
            if now == before:
                return now
            before = now


def per_object(
    before: Mapping[str, int], after: Mapping[str, int], count: int, own: Collection[str] = ()
) -> dict[str, float]:
    """How often each thing happened in between for one of so many objects. own: the load's, which are left out."""
    return {
        key: (after[key] - before.get(key, 0)) / count
        for key in after
        if key not in own and after[key] > before.get(key, 0)
    }


def writes_alone(found: Mapping[str, float]) -> float:
    """All of them together, without events, and without leases: the API server itself renews one."""
    return sum(count for key, count in found.items() if " events " not in key and " leases " not in key)


@contextlib.asynccontextmanager
async def a_load(plane: ControlPlane, kind: type[L]) -> AsyncIterator[L]:
    """One that watches already."""
    config = load(str(plane.kubeconfig("bench")), os.environ)
    async with HttpCluster(
        config, clock=LoopClock(), randomness=Random(), user_agent="mooring-bench", concurrency_max=64
    ) as cluster:
        made = kind(plane, cluster)
        async with asyncio.TaskGroup() as group:  # what ends the watch ends the bench
            watching = group.create_task(made.watch(), name="bench/watch")
            await asyncio.sleep(0.3)
            try:
                yield made
            finally:
                watching.cancel()
