"""A `Cluster` that writes down what is asked of it, and fails on demand. Stands between a controller and a real port."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeVar

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Patch, Selection, WatchEvent
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


class RecordingCluster:
    """requests: in order. story: the same as short texts, shared with the driver's calls."""

    def __init__(self, cluster: Cluster, story: list[str]) -> None:
        self._cluster = cluster
        self.story = story
        self.requests: list[Request] = []
        self._rules: list[Rule] = []

    def refuse(self, short: str, *, times: int | None = 1, name: str = "", error: ApiError | None = None, after: bool = False) -> Rule:
        rule = Rule(short, error or Forbidden("not now", reason="Forbidden"), times, name, after)
        self._rules.append(rule)
        return rule

    def writes(self, short: str) -> list[Request]:
        return [request for request in self.requests if request.short == short]

    async def _asked(self, request: Request, made: Any) -> Any:
        self.requests.append(request)
        self.story.append(request.short)
        rule = next((rule for rule in self._rules if rule.applies(request)), None)
        if rule is not None:
            rule.hits += 1
            if not rule.after:
                made.close()
                raise rule.error
        answer = await made
        if rule is not None:
            raise rule.error
        return answer

    async def list(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, limit: int = 0, continue_token: str = "", resource_version: str = ""
    ) -> Page[T]:
        return await self._cluster.list(kind, selection, limit=limit, continue_token=continue_token, resource_version=resource_version)

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        return self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        answer: T = await self._asked(Request("get", kind.plural, "", name, None), self._cluster.get(kind, name, namespace))
        return answer

    async def serves(self, kind: Kind[Any]) -> bool:
        answer: bool = await self._asked(Request("serves", kind.plural, "", "", None), self._cluster.serves(kind))
        return answer

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        answer: T = await self._asked(Request("create", kind.plural, "", "", body), self._cluster.create(kind, body, namespace))
        return answer

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        made = self._cluster.replace(kind, body, namespace, subresource=subresource)
        answer: T = await self._asked(Request("update", kind.plural, subresource, body["metadata"]["name"], body), made)
        return answer

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        made = self._cluster.patch(kind, name, patch, namespace, subresource=subresource)
        answer: T = await self._asked(Request("patch", kind.plural, subresource, name, patch.body, patch.type.name), made)
        return answer

    async def post(self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> None:
        made = self._cluster.post(kind, name, subresource, body, namespace)
        await self._asked(Request("create", kind.plural, subresource, name, body), made)

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, uid: str = "", grace_period_s: int | None = None, propagation: str = ""
    ) -> None:
        made = self._cluster.delete(kind, name, namespace, uid=uid, grace_period_s=grace_period_s, propagation=propagation)
        await self._asked(Request("delete", kind.plural, "", name, None), made)
