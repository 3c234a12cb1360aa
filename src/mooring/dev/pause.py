"""A controller that stands still, as a process after SIGSTOP: it asks nobody, and learns neither answers nor changes
until it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.base.errors import MooringError
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, WatchEvent

T = TypeVar("T")


class Pause:
    """Not begun at first."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self._over.set()

    @property
    def is_on(self) -> bool:
        return not self._over.is_set()

    def begin(self) -> None:
        self._over.clear()

    def end(self) -> None:
        self._over.set()

    async def over(self) -> None:
        """Returns when there is no pause; at once if there is none now."""
        while self.is_on:
            await self._over.wait()

    async def around(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, asked for and given outside of pauses. Raises its error then, too."""
        await self.over()
        try:
            answer = await ask()
        except MooringError:
            await self.over()
            raise
        await self.over()
        return answer


class PausedCluster(Cluster):
    """The API server of a controller that may be paused."""

    def __init__(self, cluster: Cluster, pause: Pause) -> None:
        self._cluster, self._pause = cluster, pause

    async def ask(self, request: Request) -> Any:
        return await self._pause.around(lambda: self._cluster.ask(request))

    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 0.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        stream = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        try:
            async for event in stream:
                await self._pause.over()
                yield event
        finally:
            await stream.aclose()


class PausedDriver(Driver):
    """The driver of a controller that may be paused."""

    def __init__(self, driver: Driver, pause: Pause) -> None:
        self._driver, self._pause = driver, pause

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        return await self._pause.around(lambda: self._driver.invoke(rpc, request, call))
