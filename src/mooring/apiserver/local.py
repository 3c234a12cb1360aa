"""The Cluster port in process on an ObjectStore, for simulations. Every call yields to the loop; `ServerFaults` may
stand around it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Key, Kind
from mooring.apiserver import api_errors
from mooring.apiserver.bodies import patches
from mooring.apiserver.bodies.objects import FieldValidation, decode_object
from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.listing import ListOptions, WatchOptions, scope_of
from mooring.apiserver.printers.kinds import columns_of
from mooring.apiserver.resource import ApiCall, Json, Resource, Status
from mooring.apiserver.server_side_apply.apply import apply
from mooring.apiserver.server_side_apply.managed import SERVER, Writer
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Stored, Written
from mooring.apiserver.users import OWNER, Tokens
from mooring.apiserver.watch import WatchHub
from mooring.apiserver.watch_buffer import WatchItem
from mooring.apiserver.web.queries import delete_options
from mooring.base import fence
from mooring.base.clock import Clock, rfc3339
from mooring.base.randomness import Random
from mooring.kube.client.codec import codec_of
from mooring.kube.client.paths import paths_of
from mooring.kube.cluster import EVERYTHING, Cluster, Page, PatchType, Request, Row, Selection, Verb, WatchEvent
from mooring.kube.errors import Unreachable

T = TypeVar("T")
R = TypeVar("R")


class ServerFaults:
    """Faults between a caller and the server; each method may wait or raise an `ApiError`. verb: as `Verb`, or watch.
    name: "" for many.
    """

    async def before(self, verb: str, kind: Kind[Any], name: str) -> None:
        """Raising keeps the call from the server."""

    async def after(self, verb: str, kind: Kind[Any], name: str) -> None:
        """The call has taken effect. Raising loses its answer."""

    async def deliver(self, kind: Kind[Any], event: WatchEvent[Any]) -> None:
        """Before each watch event. Waiting makes the watcher stale, raising cuts its connection."""


class LocalCluster(Cluster):
    """`Cluster` on a store. Several may share one store, each with faults of its own."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Clock,
        randomness: Random,
        faults: ServerFaults | None = None,
        durability: Durability | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """tokens: of service accounts; None where nobody can sign them."""
        self.store = store
        self._tokens = tokens
        self._clock = clock
        self._durability = durability or InMemory(store)
        self._hub = WatchHub(store, clock=clock, randomness=randomness, durability=self._durability)
        self._faults = faults or ServerFaults()

    async def ask(self, request: Request) -> Any:
        kind, name = request.kind, request.name
        if request.writes and (why := fence.closed()):
            raise Unreachable(f"{request.verb} was not sent: {why}")
        await self._begin(request.verb, kind, name)
        answer = await self._answered(request)
        await self._faults.after(request.verb, kind, name)
        return answer

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
        async for items in self._hub.watch(resource, scope, options):
            for item in items:
                event = _event(kind, item)
                await self._faults.deliver(kind, event)
                yield event

    async def _answered(self, request: Request) -> Any:
        if request.verb is Verb.SERVES:
            return self._known(request.kind) is not None
        resource = self._resource(request.kind, "" if request.verb in (Verb.POST, Verb.CREATE) else request.subresource)
        if request.verb is Verb.LIST:
            return await self._listed(request, resource)
        if request.verb is Verb.CREATE and request.subresource:
            return await self._posted(request, resource, _key(request.kind, request.name, request.namespace))
        if request.verb is Verb.CREATE:
            paths_of(request.kind).collection(request.namespace)
            body = self._decoded(request, resource)
            return await self._written(
                request, lambda: self.store.create(resource, body, request.namespace, self._now())
            )
        key = _key(request.kind, request.name, request.namespace)
        match request.verb:
            case Verb.GET:
                return _typed(request.kind, await self._committed(lambda: self.store.get(resource, key)))
            case Verb.REPLACE:
                body, part = self._decoded(request, resource), request.subresource
                return await self._written(
                    request, lambda: self.store.update(resource, key, body, self._now(), subresource=part)
                )
            case Verb.PATCH:
                patch, part = request.body, request.subresource
                by, applies = SERVER, patch.type is PatchType.APPLY
                if applies:
                    by, change = Writer(request.field_manager, applies=True), self._applied(request, resource)
                else:
                    change = patches.change_of(resource, patch.type, _plain(patch.body), FieldValidation.WARN)
                return await self._written(
                    request, lambda: self.store.patch(resource, key, change, self._now(), subresource=part, by=by)
                )
            case Verb.POST:
                return await self._posted(request, resource, key)
            case Verb.DELETE:
                given = {
                    "preconditions": {
                        "uid": request.uid or None,
                        "resourceVersion": request.resource_version or None,
                    },
                    "gracePeriodSeconds": request.grace_period_s,
                    "propagationPolicy": request.propagation or None,
                }
                options = delete_options({}, given)
                await self._committed(lambda: self.store.delete(resource, key, self._now(), options))
        return None

    async def _listed(self, request: Request, resource: Resource) -> Page[Any]:
        selection = request.selection
        scope = scope_of(resource, selection.namespace, selection.label_selector, selection.field_selector)
        options = ListOptions(
            resource_version=request.resource_version, limit=request.limit, continue_token=request.continue_token
        )
        found = await self._committed(lambda: self.store.list(resource, scope, options))
        if request.kind.struct is Row:
            columns, now = columns_of(resource), self._now()
            rows = [
                Row({column.name: column.cell(stored.whole(), now) for column in columns}) for stored in found.items
            ]
            return Page(tuple(rows), str(found.version), found.continue_token)
        return Page(
            tuple(_typed(request.kind, stored) for stored in found.items), str(found.version), found.continue_token
        )

    async def _posted(self, request: Request, resource: Resource, key: Key) -> Any:
        """The answer of the sub-resource, for a CREATE as an object of the kind."""
        action = resource.action(request.subresource)
        if action is None or action.asks is None or action.asks.answer is None:
            raise api_errors.no_such_resource()
        decoded, _ = decode_object(action.asks, _plain(request.body), FieldValidation.WARN, [])
        answer, call = (
            action.asks.answer,
            ApiCall(self.store, resource, key, decoded, self._now(), OWNER, tokens=self._tokens),
        )
        answered = await self._committed(lambda: answer(call))
        return (
            codec_of(request.kind.struct).object(msgspec.json.encode(answered)) if request.verb is Verb.CREATE else None
        )

    def _applied(self, request: Request, resource: Resource) -> Callable[[Json], Json]:
        config = _plain(request.body.body)
        applied = partial(
            apply,
            resource,
            config=config,
            writer=request.field_manager,
            now=rfc3339(self._now()),
            subresource=request.subresource,
            force=request.force,
        )
        return patches.applied_change(resource, applied, config, [], FieldValidation.WARN, [])

    async def _written(self, request: Request, write: Callable[[], Written]) -> Any:
        return _typed(request.kind, (await self._committed(write)).stored)

    def _decoded(self, request: Request, resource: Resource) -> Json:
        decoded, _ = decode_object(resource, _plain(request.body), FieldValidation.WARN, [])
        return decoded

    def _known(self, kind: Kind[Any]) -> Resource | None:
        return self.store.resource(kind.group, kind.version, kind.plural)

    def _resource(self, kind: Kind[Any], subresource: str = "") -> Resource:
        resource = self._known(kind)
        if resource is None or subresource not in (("", "status") if resource.status is not Status.NONE else ("",)):
            raise api_errors.no_such_resource()
        return resource

    async def _begin(self, verb: str, kind: Kind[Any], name: str) -> None:
        await self._clock.sleep(0)
        await self._faults.before(verb, kind, name)
        self.store.sweep(self._now())

    async def _committed(self, call: Callable[[], R]) -> R:
        """The store's answer or refusal, once every change that it can tell of is committed."""
        try:
            return call()
        finally:
            if self.store.version > self._durability.committed:
                await self._durability.wait_committed(self.store.version)

    def _now(self) -> float:
        return self._clock.wall_s()


def _event(kind: Kind[T], item: WatchItem) -> WatchEvent[T]:
    obj = None if item.stored is None else _typed(kind, item.stored)
    return WatchEvent(item.type, obj, str(item.version), item.initial_end)


def _typed(kind: Kind[T], stored: Stored) -> T:
    return codec_of(kind.struct).object(stored.body)


def _plain(body: Any) -> Any:
    """JSON values in a copy of their own, as after a way over the wire."""
    return msgspec.json.decode(msgspec.json.encode(body))


def _key(kind: Kind[Any], name: str, namespace: str) -> Key:
    """Raises BadRequest for what could not stand in a URL."""
    paths_of(kind).object(name, namespace)
    return Key(namespace, name)
