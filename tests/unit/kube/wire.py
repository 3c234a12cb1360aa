"""A network between one candidate and the API server: it delays, loses answers, breaks, and hangs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from mooring.base.randomness import Random
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, WatchEvent
from tests.unit.kube.fake_cluster import FakeCluster, lost

T = TypeVar("T")


class Wire(Cluster):
    """Implements `Cluster`. A request that its sender gave up takes effect all the same."""

    def __init__(self, cluster: FakeCluster, randomness: Random) -> None:
        self.cluster = cluster
        self.randomness = randomness
        self.delay_s_max = 0.0  # each way
        self.loss = 0.0  # how likely an answer is lost
        self.refusing = False  # every request fails at once
        self.hanging = False  # no request is answered
        self.writes = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def ask(self, request: Request) -> Any:
        self.writes += request.writes
        return await self._send(lambda: self.cluster.ask(request))

    async def watch(
        self, kind: Any, selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[Any], None]:
        if self.refusing:
            raise lost()
        async for event in self.cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s):
            if self.refusing:
                raise lost()
            yield event

    async def _send(self, call: Callable[[], Awaitable[T]]) -> T:
        if self.refusing:
            await asyncio.sleep(0.001)
            raise lost()
        if self.hanging:
            await asyncio.Event().wait()
        before, after = (self.randomness.uniform(0, self.delay_s_max) for _ in range(2))

        async def effect() -> T:
            await asyncio.sleep(before)
            return await call()

        task = asyncio.get_running_loop().create_task(effect())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        answer = await asyncio.shield(task)
        await asyncio.sleep(after)
        if self.hanging:
            await asyncio.Event().wait()
        if self.randomness.happens(self.loss):
            raise lost()
        return answer

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()
