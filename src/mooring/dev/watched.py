"""A cluster whose user is watched: each write it makes is told, and each watch it begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mooring.api.core import EVENTS
from mooring.api.meta import Kind
from mooring.base.clock import Clock
from mooring.dev.brief import brief_patch
from mooring.dev.story import Story
from mooring.kube.cluster import EVERYTHING, Cluster, Page, Patch, PatchType, Selection, WatchEvent
from mooring.kube.errors import ApiError, Conflict, Invalid

T = TypeVar("T")


class Watches:
    """What one controller watches. A controller that watches a kind has listed it: the last watch begins when its caches are filled."""

    def __init__(self) -> None:
        self.plurals: list[str] = []
        self._another = asyncio.Event()

    def began(self, kind: Kind[Any]) -> None:
        self.plurals.append(kind.plural)
        self._another.set()

    async def until(self, is_synced: Callable[[], bool]) -> None:
        """Returns when the controller says so; it is asked whenever another watch has begun."""
        while not is_synced():
            self._another.clear()
            await self._another.wait()


class WatchedCluster:
    """`Cluster`, with its user's name on it. Reads are passed on in silence. watches: hears of the watches, too."""

    def __init__(self, cluster: Cluster, who: str, story: Story, clock: Clock, watches: Watches | None = None) -> None:
        self._cluster = cluster
        self._who = who
        self._story = story
        self._clock = clock
        self._watches = watches

    async def list(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        return await self._cluster.list(kind, selection, limit=limit, continue_token=continue_token, resource_version=resource_version)

    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 0.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        if self._watches is not None:
            self._watches.began(kind)
        stream = self._cluster.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._cluster.get(kind, name, namespace)

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        with self._told(_created(kind, body), same=_same(kind, _name(body)), name=_called(kind, body)):
            return await self._cluster.create(kind, body, namespace)

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        with self._told(f"replace {_path(kind, body['metadata']['name'], subresource)}{_phase(body, subresource)}"):
            return await self._cluster.replace(kind, body, namespace, subresource=subresource)

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        outdated = (Conflict, Invalid) if patch.type is PatchType.JSON else Conflict  # a JSON patch tests what was read
        with self._told(f"patch {_path(kind, name, subresource)}: {brief_patch(patch.body)}", outdated, same=_same(kind, name)):
            return await self._cluster.patch(kind, name, patch, namespace, subresource=subresource)

    async def post(self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> None:
        with self._told(f"create {_path(kind, name, subresource)}"):
            await self._cluster.post(kind, name, subresource, body, namespace)

    async def delete(
        self,
        kind: Kind[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
        propagation: str = "",
    ) -> None:
        with self._told(f"delete {_path(kind, name, '')}"):
            await self._cluster.delete(kind, name, namespace, uid=uid, grace_period_s=grace_period_s, propagation=propagation)

    async def serves(self, kind: Kind[Any]) -> bool:
        return await self._cluster.serves(kind)

    @contextmanager
    def _told(
        self, what: str, outdated: type[ApiError] | tuple[type[ApiError], ...] = Conflict, *, same: str = "", name: str = ""
    ) -> Iterator[None]:
        """outdated: how the server says that the object has changed since it was read. That is no failure: it is read again.

        same, name: as for `Story.happened`.
        """
        began = self._clock.now()
        try:
            yield
        except outdated:
            self._story.happened(self._who, what, via="API", result="outdated, somebody was faster", seconds=self._clock.now() - began)
            raise
        except ApiError as error:
            self._story.wrote(self._who, what, self._clock.now() - began, f"{error.reason or type(error).__name__}: {error}")
            raise
        self._story.wrote(self._who, what, self._clock.now() - began, same=same, name=name)


def _path(kind: Kind[Any], name: str, subresource: str) -> str:
    return "/".join(filter(None, (kind.plural, name, subresource)))


def _same(kind: Kind[Any], name: str) -> str:
    """What an event is known by, which is patched when it comes again."""
    return f"{kind.plural}/{name}" if kind.plural == EVENTS.plural else ""


def _called(kind: Kind[Any], body: Any) -> str:
    """An event in a few words."""
    if kind.plural != EVENTS.plural or not isinstance(body, Mapping):
        return ""
    return f"event {body.get('reason', '')} on {(body.get('involvedObject') or {}).get('name', '')}"


def _name(body: Any) -> str:
    metadata = body["metadata"] if isinstance(body, Mapping) else getattr(body, "metadata", None)
    return str(metadata.get("name", "") if isinstance(metadata, Mapping) else getattr(metadata, "name", ""))


def _created(kind: Kind[Any], body: Any) -> str:
    """`create persistentvolumes/NAME`; an event by what it says."""
    if not isinstance(body, Mapping):
        return f"create {kind.plural}/{_name(body)}"
    if kind.plural == EVENTS.plural:
        about = body.get("involvedObject") or {}
        return f"event on {about.get('kind', '')} {about.get('name', '')}: {body.get('reason', '')}: {body.get('message', '')}"
    return f"create {kind.plural}/{_name(body)}"


def _phase(body: Mapping[str, Any], subresource: str) -> str:
    """What is new in a status that is replaced whole."""
    phase = (body.get("status") or {}).get("phase") if subresource == "status" else ""
    return f": phase={phase}" if phase else ""
