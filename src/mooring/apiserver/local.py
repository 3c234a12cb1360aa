"""The Cluster port in process, on an ObjectStore: same rules, same errors as over HTTP, no sockets.

What simulations run on. Every call gives the loop one turn, so that callers interleave; a `Faults` can stand before and after
each call and in front of each watch event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Key, Kind
from mooring.apiserver import refusals
from mooring.apiserver.actions import OWNER, Call
from mooring.apiserver.body import patches
from mooring.apiserver.body.codec import FieldValidation, decode_object
from mooring.apiserver.channel import Notice
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.listing import ListOptions
from mooring.apiserver.resource import Json, Resource, Status
from mooring.apiserver.scope import scope_of
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored
from mooring.apiserver.watch import WatchHub
from mooring.apiserver.watching import WatchOptions
from mooring.apiserver.web.queries import delete_options
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.kube.cluster import EVERYTHING, Page, Patch, Selection, WatchEvent
from mooring.kube.codec import codec_of
from mooring.kube.paths import paths_of

T = TypeVar("T")
R = TypeVar("R")


class Faults:
    """What can go wrong between a caller and the server. Each method may wait, or raise an `ApiError`; here nothing happens.

    verb: list, watch, get, create, replace, patch, post, delete, serves. name: "" where a call is about many.
    """

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        """Raising keeps the call from the server."""

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        """The call has taken effect. Raising loses its answer."""

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        """Before each watch event. Waiting makes the watcher stale, raising cuts its connection."""


class LocalCluster:
    """`Cluster` on a store. Several may share one store, each with faults of its own."""

    def __init__(
        self, store: ObjectStore, *, clock: Clock, chance: Chance, faults: Faults | None = None, durability: Durability | None = None
    ) -> None:
        self.store = store
        self._clock = clock
        self._durability = durability or InMemory(store)
        self._hub = WatchHub(store, clock=clock, chance=chance, durability=self._durability)
        self._faults = faults or Faults()

    async def list(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        await self._begin("list", kind, "")
        resource = self._resource(kind)
        scope = scope_of(resource, selection.namespace, selection.label_selector, selection.field_selector)
        options = ListOptions(resource_version=resource_version, limit=limit, continue_token=continue_token)
        found = await self._told(lambda: self.store.list(resource, scope, options))
        await self._faults.after("list", kind, "")
        return Page(tuple(_typed(kind, stored) for stored in found.items), str(found.version), found.continue_token)

    async def watch(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_s: float = 0.0,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        await self._begin("watch", kind, "")
        resource = self._resource(kind)
        scope = scope_of(resource, selection.namespace, selection.label_selector, selection.field_selector)
        options = WatchOptions(resource_version=resource_version, bookmarks=True, timeout_s=timeout_s)
        async for notices in self._hub.watch(resource, scope, options):
            for notice in notices:
                event = _event(kind, notice)
                await self._faults.deliver(kind, event)
                yield event

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        await self._begin("get", kind, name)
        resource, key = self._resource(kind), _key(kind, name, namespace)
        stored = await self._told(lambda: self.store.get(resource, key))
        return await self._answer("get", kind, name, stored)

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        obj = _plain(body)
        name = _name_in(obj)
        await self._begin("create", kind, name)
        resource = self._resource(kind)
        paths_of(kind).collection(namespace)
        decoded, _ = decode_object(resource, obj, FieldValidation.WARN, [])
        written = await self._told(lambda: self.store.create(resource, decoded, namespace, self._now()))
        return await self._answer("create", kind, name, written.stored)

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        obj = _plain(body)
        name = _name_in(obj)
        await self._begin("replace", kind, name)
        resource = self._resource(kind, subresource)
        decoded, _ = decode_object(resource, obj, FieldValidation.WARN, [])
        key = _key(kind, name, namespace)
        written = await self._told(lambda: self.store.update(resource, key, decoded, self._now(), subresource=subresource))
        return await self._answer("replace", kind, name, written.stored)

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        await self._begin("patch", kind, name)
        resource = self._resource(kind, subresource)
        change = patches.change_of(resource, patch.type, _plain(patch.body), FieldValidation.WARN)
        key = _key(kind, name, namespace)
        written = await self._told(lambda: self.store.patch(resource, key, change, self._now(), subresource=subresource))
        return await self._answer("patch", kind, name, written.stored)

    async def post(self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> None:
        await self._begin("post", kind, name)
        resource, key = self._resource(kind), _key(kind, name, namespace)
        action = resource.action(subresource)
        if action is None or action.asks is None or action.asks.answer is None:
            raise refusals.no_such_resource()
        decoded, _ = decode_object(action.asks, _plain(body), FieldValidation.WARN, [])
        answer, call = action.asks.answer, Call(self.store, resource, key, decoded, self._now(), OWNER)
        await self._told(lambda: answer(call))
        await self._faults.after("post", kind, name)

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
        await self._begin("delete", kind, name)
        resource, key = self._resource(kind), _key(kind, name, namespace)
        given = {"preconditions": {"uid": uid} if uid else None, "gracePeriodSeconds": grace_period_s}
        options = delete_options({}, {**given, "propagationPolicy": propagation or None})
        await self._told(lambda: self.store.delete(resource, key, self._now(), options))
        await self._faults.after("delete", kind, name)

    async def serves(self, kind: Kind[Any]) -> bool:
        await self._begin("serves", kind, "")
        await self._faults.after("serves", kind, "")
        return self.store.resource(kind.group, kind.version, kind.plural) is not None

    def _resource(self, kind: Kind[Any], subresource: str = "") -> Resource:
        resource = self.store.resource(kind.group, kind.version, kind.plural)
        if resource is None or subresource not in (("", "status") if resource.status is not Status.NONE else ("",)):
            raise refusals.no_such_resource()
        return resource

    async def _begin(self, verb: str, kind: Kind[Any], name: str) -> None:
        await self._clock.sleep(0)
        await self._faults.before(verb, kind, name)
        self.store.sweep(self._now())

    async def _told(self, call: Callable[[], R]) -> R:
        """What the store says, refusals too, once all that it can tell of is committed."""
        try:
            return call()
        finally:
            if self.store.version > self._durability.committed:
                await self._durability.settled(self.store.version)

    async def _answer(self, verb: str, kind: Kind[T], name: str, stored: Stored) -> T:
        await self._faults.after(verb, kind, name)
        return _typed(kind, stored)

    def _now(self) -> float:
        return self._clock.wall_s()


def _event(kind: Kind[T], notice: Notice) -> WatchEvent[T]:
    obj = None if notice.stored is None else _typed(kind, notice.stored)
    return WatchEvent(notice.type, obj, str(notice.version), notice.initial_end)


def _typed(kind: Kind[T], stored: Stored) -> T:
    return codec_of(kind.struct).object(stored.body)


def _plain(body: Any) -> Any:
    """JSON values, shared with nobody: what would have gone over the wire."""
    return msgspec.json.decode(msgspec.json.encode(body))


def _name_in(obj: Json) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def _key(kind: Kind[Any], name: str, namespace: str) -> Key:
    """Raises BadRequest for what could not stand in a URL."""
    paths_of(kind).object(name, namespace)
    return Key(namespace, name)
