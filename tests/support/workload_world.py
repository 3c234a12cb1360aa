"""Workloads on an embedded store, with its garbage collector, and a node agent that runs every pod."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from mooring.api.meta import Kind
from mooring.api.pods import PODS
from mooring.apiserver.controllers.housekeeping import Housekeeping
from mooring.apiserver.local import ServerFaults
from mooring.cluster.workloads.controller import Workloads
from tests.support.builders import NS, Json
from tests.support.cluster_world import ClusterWorld
from tests.support.eager_node import EagerNode

READY_S = 2.0
END_S = 3.0
LOOK_S = 0.5


class WorkloadWorld(ClusterWorld):
    """most: the largest number of pods that there were at once, and least: the smallest number of ready ones after
    `watch_from_here`.
    """

    def __init__(self, faults: ServerFaults | None = None, *, seed: int = 7) -> None:
        super().__init__(faults, seed=seed)
        self.node = EagerNode(self, self.clock, ready_s=READY_S, end_s=END_S, look_s=LOOK_S)
        self.node.saw = self._count
        self.most, self.least = 0, 0
        self._housekeeping = Housekeeping(self.store, clock=self.clock)

    def watch_from_here(self) -> None:
        self.most, self.least = 0, 10**6

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[Workloads]:
        """The workloads' controllers, the collector and the node."""
        workloads = Workloads(self.runtime)
        async with self.surroundings(), self.running(workloads.run()):
            yield workloads

    @contextlib.asynccontextmanager
    async def surroundings(self) -> AsyncIterator[None]:
        """The collector and the node."""
        self._housekeeping.start()
        async with self.running(self.node.run()):
            yield
        self._housekeeping.close()

    def _count(self, pods: list[Json]) -> None:
        self.most = max(self.most, len(pods))
        self.least = min(
            self.least, sum(_is_ready(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods)
        )

    # -- what is so

    async def pods(self) -> list[Json]:
        """Those that are not about to go, by name."""
        found = [pod for pod in await self.list(PODS, NS) if not pod["metadata"].get("deletionTimestamp")]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def names(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in await self.pods()]

    async def rolled_out(self, kind: Kind[Any], name: str = "web") -> Json:
        """As `kubectl rollout status` sees it."""
        return await self.shown(kind, name, _is_rolled_out, "is rolled out", 600.0)


def _is_rolled_out(obj: Json) -> bool:
    status, wanted = obj["status"], obj["spec"]["replicas"]
    if status.get("observedGeneration", 0) < obj["metadata"]["generation"]:
        return False
    counts = [status.get(part, 0) for part in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")]
    return counts == [wanted] * len(counts) and status.get("currentRevision") == status.get("updateRevision")


def _is_ready(pod: Json) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions") or ())


def condition(obj: Json, kind: str) -> tuple[str, str]:
    """Status and reason."""
    return next(
        (
            (one["status"], one.get("reason", ""))
            for one in obj["status"].get("conditions") or ()
            if one["type"] == kind
        ),
        ("", ""),
    )
