"""Waiting for an object of the API to be as wanted, by its watch: no polling."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import Cluster, EventType, Selection
from mooring.kube.errors import Gone

T = TypeVar("T")

Seen = Callable[[T | None], bool]


async def until(cluster: Cluster, kind: Kind[T], name: str, wanted: Seen[T]) -> T | None:
    """The object as soon as it is as wanted; wanted sees None when it isn't there. Waits for ever: put a deadline around it."""
    selection = Selection(field_selector=f"metadata.name={name}")
    while True:
        page = await cluster.list(kind, selection)
        seen = page.items[0] if page.items else None
        if wanted(seen):
            return seen
        with contextlib.suppress(Gone):  # then the list above is the way back
            async with contextlib.aclosing(cluster.watch(kind, selection, resource_version=page.resource_version)) as events:
                async for event in events:
                    if event.type is EventType.BOOKMARK:
                        continue
                    seen = None if event.type is EventType.DELETED else event.object
                    if wanted(seen):
                        return seen
