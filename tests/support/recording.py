"""A `Cluster` that writes down what is asked of it, and fails on demand. Stands between a controller and a real port."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.kube import cluster
from mooring.kube.cluster import EVERYTHING, Cluster, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError, Forbidden

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Request:
    """One request that changes or reads a single object. short: `patch volumeattachments/status`."""

    verb: str
    resource: str
    subresource: str
    name: str
    body: Any
    patch_type: str = ""
    at_s: float = 0.0

    @property
    def short(self) -> str:
        return f"{self.verb} {self.resource}" + (f"/{self.subresource}" if self.subresource else "")


@dataclasses.dataclass
class Rule:
    """Refuses matching requests. times: how many, None for all. after: the request takes effect and only its answer is lost."""

    short: str
    error: ApiError
    times: int | None = 1
    name: str = ""
    after: bool = False
    hits: int = 0

    def applies(self, request: Request) -> bool:
        wanted = request.short == self.short and self.name in ("", request.name)
        return wanted and (self.times is None or self.hits < self.times)


@dataclasses.dataclass
class Hold:
    """Keeps matching requests from the server until `go` is set. after: it has carried them out, and their answers are kept."""

    short: str
    after: bool = False
    begun: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    go: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    async def wait(self) -> None:
        self.begun.set()
        await self.go.wait()


class RecordingCluster(Cluster):
    """requests: in order. story: the same as short texts, shared with the driver's calls."""

    def __init__(self, cluster: Cluster, story: list[str]) -> None:
        self._cluster = cluster
        self.story = story
        self.requests: list[Request] = []
        self._rules: list[Rule] = []
        self._holds: list[Hold] = []

    def refuse(self, short: str, *, times: int | None = 1, name: str = "", error: ApiError | None = None, after: bool = False) -> Rule:
        rule = Rule(short, error or Forbidden("not now", reason="Forbidden"), times, name, after)
        self._rules.append(rule)
        return rule

    def hold(self, short: str, *, after: bool = False) -> Hold:
        hold = Hold(short, after)
        self._holds.append(hold)
        return hold

    def writes(self, short: str) -> list[Request]:
        return [request for request in self.requests if request.short == short]

    async def ask(self, request: cluster.Request) -> Any:
        asked = _recorded(request)
        return await self._cluster.ask(request) if asked is None else await self._asked(asked, lambda: self._cluster.ask(request))

    async def _asked(self, asked: Request, send: Callable[[], Awaitable[Any]]) -> Any:
        self.requests.append(asked)
        self.story.append(asked.short)
        hold = next((hold for hold in self._holds if hold.short == asked.short and not hold.go.is_set()), None)
        if hold is not None and not hold.after:
            await hold.wait()
        rule = next((rule for rule in self._rules if rule.applies(asked)), None)
        if rule is None:
            answer = await send()
            if hold is not None and hold.after:
                await hold.wait()
            return answer
        rule.hits += 1
        if rule.after:
            await send()
        raise rule.error

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)


def _recorded(request: cluster.Request) -> Request | None:
    """None for lists, which are not written down."""
    plural, part, name = request.kind.plural, request.subresource, request.name
    match request.verb:
        case Verb.LIST:
            return None
        case Verb.CREATE:
            return Request("create", plural, "", "", request.body)
        case Verb.POST:
            return Request("create", plural, part, name, request.body)
        case Verb.REPLACE:
            return Request("update", plural, part, name, request.body)
        case Verb.PATCH:
            return Request("patch", plural, part, name, request.body.body, request.body.type.name)
    return Request(request.verb.value, plural, "", name, None)
