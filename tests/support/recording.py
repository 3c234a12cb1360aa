"""A `Cluster` that writes down what is asked of it, and fails on demand. Stands between a controller and a real
port.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeVar

from mooring.api.meta import Kind
from mooring.kube import cluster
from mooring.kube.cluster import EVERYTHING, Cluster, Patch, PatchType, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError, Forbidden

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Request:
    """One request to the API server. short: `patch volumeattachments/status`."""

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
    """Refuses matching requests. times: how many, None for all. after: the request takes effect and only its answer is
    lost.

    late_s: the request takes effect so many seconds after its answer was lost, unless the server refuses it then; 0 for
    never. perhaps: it is no fault of the test that no request met it.
    """

    short: str
    error: ApiError
    times: int | None = 1
    name: str = ""
    after: bool = False
    late_s: float = 0.0
    perhaps: bool = False
    hits: int = 0

    @property
    def is_met(self) -> bool:
        return self.perhaps or self.hits > 0

    def applies(self, request: Request) -> bool:
        wanted = request.short == self.short and self.name in ("", request.name)
        return wanted and (self.times is None or self.hits < self.times)


NAMES_ONCE = ("events", "leases")
"""Kinds whose patches need not say which object of the name is meant: an Event's name has its time, a node's Lease
is the node's.
"""


class NamelessError(BaseException):
    """A patch without its object's uid. Nobody catches that: what runs ends with it."""


def names_its_object(patch: Patch) -> bool:
    """True for a patch that changes one object, and not another one that takes its name: by its uid, or by a
    version.
    """
    if patch.type is PatchType.JSON:
        return any(
            step["op"] == "test" and step["path"] in ("/metadata/uid", "/metadata/resourceVersion")
            for step in patch.body
        )
    return not {"uid", "resourceVersion"}.isdisjoint(patch.body.get("metadata") or {})


@dataclasses.dataclass
class Hold:
    """Keeps matching requests from the server until `go` is set. after: it has carried them out, and their answers are
    kept. name: of the object, "" for all.
    """

    short: str
    after: bool = False
    name: str = ""
    begun: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    go: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    @property
    def is_met(self) -> bool:
        return self.begun.is_set()

    def keeps(self, request: Request) -> bool:
        return self.short == request.short and self.name in ("", request.name) and not self.go.is_set()

    async def wait(self) -> None:
        self.begun.set()
        await self.go.wait()


planted: Final[list[Rule | Hold]] = []
"""All that the test which runs refuses or holds. What no request has met tests nothing: `tests/conftest.py` says so."""


class RecordingCluster(Cluster):
    """requests: in order. story: the same as short texts, shared with the driver's calls."""

    def __init__(self, cluster: Cluster, story: list[str]) -> None:
        self._cluster = cluster
        self.story = story
        self.requests: list[Request] = []
        self._rules: list[Rule] = []
        self._late: set[asyncio.Task[None]] = set()
        self._holds: list[Hold] = []

    def refuse(
        self,
        short: str,
        *,
        times: int | None = 1,
        name: str = "",
        error: ApiError | None = None,
        after: bool = False,
        late_s: float = 0.0,
        perhaps: bool = False,
    ) -> Rule:
        rule = Rule(short, error or Forbidden("not now", reason="Forbidden"), times, name, after, late_s, perhaps)
        self._rules.append(rule)
        planted.append(rule)
        return rule

    def hold(self, short: str, *, after: bool = False, name: str = "") -> Hold:
        hold = Hold(short, after, name)
        self._holds.append(hold)
        planted.append(hold)
        return hold

    def writes(self, short: str) -> list[Request]:
        return [request for request in self.requests if request.short == short]

    async def ask(self, request: cluster.Request) -> Any:
        return await self._asked(_recorded(request), lambda: self._cluster.ask(request))

    async def _asked(self, asked: Request, send: Callable[[], Awaitable[Any]]) -> Any:
        if asked.verb != "list":  # lists are refused and held, and not written down
            self.requests.append(asked)
            self.story.append(asked.short)
        hold = next((hold for hold in self._holds if hold.keeps(asked)), None)
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
        if rule.late_s:
            task = asyncio.create_task(_later(rule.late_s, send), name=f"late/{asked.short}")
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        raise rule.error

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)


async def _later(seconds: float, send: Callable[[], Awaitable[Any]]) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(ApiError):
        await send()


def _recorded(request: cluster.Request) -> Request:
    plural, part, name = request.kind.plural, request.subresource, request.name
    match request.verb:
        case Verb.CREATE:
            return Request("create", plural, "", "", request.body)
        case Verb.POST:
            return Request("create", plural, part, name, request.body)
        case Verb.REPLACE:
            return Request("update", plural, part, name, request.body)
        case Verb.PATCH:
            if plural not in NAMES_ONCE and not names_its_object(request.body):
                raise NamelessError(f"it may change another {request.kind.name} of the name: {request.body}")
            return Request("patch", plural, part, name, request.body.body, request.body.type.name)
    return Request(request.verb.value, plural, "", name, None)
