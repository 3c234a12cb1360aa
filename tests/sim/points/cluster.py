"""The API server of a script's world: what programs ask of it goes by the director, what hands ask does not."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, Verb, WatchEvent
from tests.sim.points.director import DIRECTOR, LED

T = TypeVar("T")

UNCOUNTED: Final = ("events",)
"""Writes of these kinds are no points: nobody waits for them."""
PAGE: Final = 500


class DirectedCluster(Cluster):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ask(self, request: Request) -> Any:
        director, process = DIRECTOR.get(), LED.get()
        if director is None or process is None:
            return await self._cluster.ask(request)
        if request.writes and request.kind.plural not in UNCOUNTED:
            return await director.written(process, request, lambda: self._cluster.ask(request))
        if request.verb is Verb.LIST and (version := director.version_for(process, request)):
            request = msgspec.structs.replace(request, resource_version=str(version), limit=request.limit or PAGE)
        return await self._cluster.ask(request)

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        director, process = DIRECTOR.get(), LED.get()
        watch = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        async with contextlib.aclosing(watch) as events:
            if director is None or process is None or kind.plural in UNCOUNTED:
                async for event in events:
                    yield event
                return
            async with contextlib.aclosing(director.events(process, kind.plural, events)) as led:
                async for event in led:
                    yield event
