"""Requests whose answers go into a scene. A refusal is noted there, and the explanation goes on without the object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from mooring.api.core import EVENTS
from mooring.api.meta import Key, Kind, Object
from mooring.inspect.scene import Scene, SeenEvent, Shelf
from mooring.inspect.served import as_served
from mooring.inspect.whole import decoded
from mooring.kube.cluster import EVERYTHING, Cluster, Row, Selection
from mooring.kube.errors import Forbidden, NotFound, NotServed
from mooring.kube.list_all import list_all

T = TypeVar("T", bound=Object)

SEEN_EVENTS: Final = EVENTS.decoded_as(SeenEvent)


_PAGE_LIMIT: Final = 5000
"""Somebody waits, and nobody else is served: with pages of 500, a list of 20,000 objects takes half as long again."""
_TOGETHER_MAX: Final = 8
"""Requests under way at the same time. Each is on a connection of its own, and most connections begin with a
handshake.
"""


async def together(ways: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Goes them beside one another. Raises what one of them raises."""
    slots = asyncio.Semaphore(_TOGETHER_MAX)

    async def go(way: Coroutine[Any, Any, object]) -> None:
        async with slots:
            await way

    await asyncio.gather(*map(go, ways))


class SceneRequests:
    """shows: gets each object as whole JSON; without it only used fields are decoded."""

    def __init__(self, cluster: Cluster, scene: Scene, shows: Callable[[dict[str, Any]], None] | None) -> None:
        served = self._cluster = as_served(cluster)
        self._shows, self.scene = shows, scene
        scene.group_version = lambda: served.version
        self._with_events: set[str] = set()  # uids

    async def _get(self, shelf: Shelf[T], kind: Kind[T], key: Key, *, is_vital: bool = True) -> T | None:
        """is_vital: its absence from the scene is told, if a refusal is its cause. Raises ApiError for a server that
        does not answer.
        """
        if (known := shelf.get(key)) is not None:
            return known
        try:
            found = await self._read(kind, key)
        except NotFound:
            return None
        except (Forbidden, NotServed) as error:
            if isinstance(error, NotServed):
                self.scene.not_served.add(kind.plural)
            if is_vital and not self.scene.is_hidden(kind, key):
                self.scene.hide(kind, key, str(error))
            return None
        shelf.put(found)
        return found

    async def _read(self, kind: Kind[T], key: Key) -> T:
        if self._shows is None:
            return await self._cluster.get(kind, key.name, key.namespace)
        return self._shown(kind, await self._cluster.get(kind.whole(), key.name, key.namespace))

    def _shown(self, kind: Kind[T], whole: dict[str, Any]) -> T:
        assert self._shows is not None
        found = decoded(kind, whole)
        self._shows(whole)
        return found

    async def _list(
        self,
        shelf: Shelf[T],
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        keep: Callable[[T], bool] = lambda one: True,
        is_vital: bool = True,
    ) -> None:
        async for one in self._listed_of(kind, selection, is_vital=is_vital):
            if keep(one):
                shelf.put(one)

    async def _listed_of(self, kind: Kind[T], selection: Selection, *, is_vital: bool = True) -> AsyncIterator[T]:
        try:
            if self._shows is None:
                async for one in list_all(self._cluster, kind, selection, page_limit=_PAGE_LIMIT):
                    yield one
                return
            async for whole in list_all(self._cluster, kind.whole(), selection, page_limit=_PAGE_LIMIT):
                yield self._shown(kind, whole)
        except (Forbidden, NotServed) as error:
            if is_vital:
                self.scene.hide(kind, Key(selection.namespace or "", "all"), str(error))

    async def _rows(self, kind: Kind[Any]) -> list[Row]:
        """All of a kind as rows; none of one that may not be listed, which the scene notes."""
        try:
            return [row async for row in list_all(self._cluster, kind.decoded_as(Row), page_limit=_PAGE_LIMIT)]
        except (Forbidden, NotServed) as error:
            self.scene.hide(kind, Key("", "all"), str(error))
            return []

    async def events(self, obj: Object) -> None:
        """The Events about an object."""
        await self._events_of_uid(obj.metadata.namespace or "default", obj.metadata.uid)

    async def _events_of_uid(self, namespace: str, uid: str) -> None:
        if uid in self._with_events:
            return
        self._with_events.add(uid)
        chosen = Selection(namespace=namespace, field_selector=f"involvedObject.uid={uid}")
        with contextlib.suppress(Forbidden):
            self.scene.put_events(uid, [one async for one in list_all(self._cluster, SEEN_EVENTS, chosen)])
