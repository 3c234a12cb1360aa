"""What is in the cluster, followed by one watch for each kind, and tasks that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import Cluster, EventType, WatchEvent
from mooring.kube.errors import ApiError

T = TypeVar("T")
Handler = Callable[[WatchEvent[Any]], None]


class Changed:
    """Wakes all who wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def until(self, check: Callable[[], T]) -> T:
        """The first truthy answer; asked anew after each change."""
        while not (found := check()):
            await self._event.wait()
        return found


async def follow(cluster: Cluster, kind: Kind[Any], *handlers: Handler) -> None:
    """Hands on everything that is there and every change from then on, until cancelled. Never misses a version."""
    page = await cluster.list(kind)
    version = page.resource_version
    for one in page.items:
        _hand_on(WatchEvent(EventType.ADDED, one, one.metadata.resource_version), handlers)
    while True:
        with contextlib.suppress(ApiError):
            async with contextlib.aclosing(cluster.watch(kind, resource_version=version)) as events:
                async for event in events:
                    version = event.resource_version
                    if event.type is not EventType.BOOKMARK:
                        _hand_on(event, handlers)
        await asyncio.sleep(0.1)


def _hand_on(event: WatchEvent[Any], handlers: tuple[Handler, ...]) -> None:
    for handler in handlers:
        handler(event)
