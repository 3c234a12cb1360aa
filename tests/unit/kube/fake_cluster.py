"""A small honest API server in memory for the tests of this room, with faults on order.

Honest: versions from one counter, conflicts, finalizers, no-op writes that write nothing, pages of one snapshot, watches with
resume, bookmarks, 410 for what was forgotten. Left out: validation, subresources, selectors beyond namespace and metadata.name.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.kube.cluster import EVERYTHING, EventType, Page, Patch, PatchType, Selection, WatchEvent
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound, Unreachable

T = TypeVar("T")
Place = tuple[str, str, str]  # plural, namespace, name


@dataclasses.dataclass(frozen=True)
class Request:
    """What was asked. at: loop time."""

    verb: str
    plural: str
    name: str
    at: float
    body: Any = None
    resource_version: str = ""
    timeout_s: float = 0.0


@dataclasses.dataclass
class Fault:
    """Goes wrong for the next `times` requests of this verb. late: after the request took effect, so that its answer is lost."""

    verb: str
    error: ApiError | None
    times: int = 1
    late: bool = False
    delay_s: float = 0.0


class FakeCluster:
    """Implements `Cluster`. Faults are taken in the order they were given."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[Place, dict[str, Any]] = {}
        self.history: list[tuple[int, str, EventType, dict[str, Any]]] = []  # version, plural, type, object
        self.forgotten = 0  # history up to this version is gone
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.on_write: Callable[[Request, dict[str, Any]], None] = lambda request, obj: None
        self.bookmarks_at_open = False
        self.watch_lag_s = 0.0  # watchers hear of things this much later
        self._snapshots: dict[str, tuple[list[dict[str, Any]], int]] = {}
        self._watches: set[_Watch] = set()

    # What a test does to it

    def put(self, kind: Kind[Any], name: str, namespace: str = "", **body: Any) -> dict[str, Any]:
        """Creates or changes an object behind everybody's back."""
        place = (kind.plural, namespace, name)
        old = self.objects.get(place)
        obj = copy.deepcopy(old) if old else {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{self.version + 1}"}}
        _merge(obj, body)
        return self._store(kind, place, obj, EventType.MODIFIED if old else EventType.ADDED)

    def remove(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        place = (kind.plural, namespace, name)
        self._store(kind, place, self.objects[place], EventType.DELETED)

    def fail(self, verb: str, error: ApiError | None, times: int = 1, *, late: bool = False, delay_s: float = 0.0) -> None:
        self.faults.append(Fault(verb, error, times, late, delay_s))

    def forget_history(self) -> None:
        """Who comes with an older version gets 410; open watches go on."""
        self.forgotten = self.version
        self._snapshots.clear()

    def end_watches(self, error: ApiError | None = None) -> None:
        for watch in tuple(self._watches):
            watch.end(error)

    def bookmark(self) -> None:
        for watch in self._watches:
            watch.tell(WatchEvent(EventType.BOOKMARK, None, str(self.version)))

    @property
    def watching(self) -> int:
        return len(self._watches)

    def asked(self, verb: str) -> list[Request]:
        return [request for request in self.requests if request.verb == verb]

    # The port

    async def list(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, limit: int = 0, continue_token: str = "", resource_version: str = ""
    ) -> Page[T]:
        await self._arrives(Request("list", kind.plural, "", _now(), (limit, continue_token), resource_version))
        if continue_token:
            if continue_token not in self._snapshots:
                raise Gone("The provided continue parameter is too old", reason="Expired")
            items, version = self._snapshots.pop(continue_token)
        else:
            items, version = (
                [copy.deepcopy(self.objects[place]) for place in sorted(self.objects) if _selected(selection, kind, place)],
                self.version,
            )
        token = ""
        if limit and len(items) > limit:
            token = f"token-{version}-{len(items) - limit}"
            self._snapshots[token] = items[limit:], version
        page = Page(tuple(_decoded(item, kind) for item in items[: limit or None]), str(version), token)
        await self._answered(Request("list", kind.plural, "", _now()))
        return page

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        request = Request("watch", kind.plural, "", _now(), None, resource_version, timeout_s)
        await self._arrives(request)
        since = int(resource_version or self.version)
        if since < self.forgotten:
            raise Gone(f"too old resource version: {since} ({self.forgotten})", reason="Expired")
        watch = _Watch(kind, selection)
        for version, plural, type_, obj in self.history:
            if version > since and plural == kind.plural:
                watch.tell_of(type_, obj)
        if self.bookmarks_at_open:
            watch.tell(WatchEvent(EventType.BOOKMARK, None, resource_version))
        self._watches.add(watch)
        timer = asyncio.get_running_loop().call_later(timeout_s, watch.end, None) if timeout_s else None
        try:
            while (event := await watch.next()) is not None:
                if self.watch_lag_s:
                    await asyncio.sleep(self.watch_lag_s)
                yield event
        finally:
            self._watches.discard(watch)
            if timer:
                timer.cancel()

    async def serves(self, kind: Kind[Any]) -> bool:
        await self._arrives(Request("serves", kind.plural, "", _now()))
        return True

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        await self._arrives(Request("get", kind.plural, name, _now()))
        answer = _decoded(self._found(kind, (kind.plural, namespace, name)), kind)
        await self._answered(Request("get", kind.plural, name, _now()))
        return answer

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        obj = copy.deepcopy(dict(body)) if isinstance(body, Mapping) else msgspec.to_builtins(body)
        name = obj["metadata"]["name"]
        request = Request("create", kind.plural, name, _now(), copy.deepcopy(obj))
        await self._arrives(request)
        place = (kind.plural, namespace, name)
        if place in self.objects:
            raise AlreadyExists(f'{kind.resource} "{name}" already exists', reason="AlreadyExists")
        obj["metadata"] = {**obj["metadata"], "namespace": namespace, "uid": f"uid-{self.version + 1}"}
        return await self._write(kind, place, obj, EventType.ADDED, request)

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        name = body["metadata"]["name"]
        request = Request("replace", kind.plural, name, _now(), copy.deepcopy(dict(body)))
        await self._arrives(request)
        place = (kind.plural, namespace, name)
        old = self._found(kind, place)
        if body["metadata"].get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
            raise Conflict(f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified', reason="Conflict")
        obj = copy.deepcopy(dict(body))
        obj["metadata"]["uid"] = old["metadata"]["uid"]
        return await self._write(kind, place, obj, EventType.MODIFIED, request)

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        request = Request("patch", kind.plural, name, _now(), copy.deepcopy(patch))
        await self._arrives(request)
        assert patch.type is not PatchType.JSON, "this fake has no JSON patch"
        place = (kind.plural, namespace, name)
        obj = copy.deepcopy(self._found(kind, place))
        _merge(obj, patch.body)
        return await self._write(kind, place, obj, EventType.MODIFIED, request)

    async def delete(
        self, kind: Kind[T], name: str, namespace: str = "", *, uid: str = "", grace_period_s: int | None = None, propagation: str = ""
    ) -> None:
        request = Request("delete", kind.plural, name, _now())
        await self._arrives(request)
        place = (kind.plural, namespace, name)
        old = self._found(kind, place)
        if uid not in ("", old["metadata"]["uid"]):
            raise Conflict("the UID in the precondition does not match", reason="Conflict")
        if old["metadata"].get("finalizers"):
            obj = copy.deepcopy(old)
            obj["metadata"].setdefault("deletionTimestamp", "2026-11-20T09:00:00Z")
            self._store(kind, place, obj, EventType.MODIFIED)
        else:
            self._store(kind, place, old, EventType.DELETED)
        await self._answered(request)

    # Inside

    def _found(self, kind: Kind[Any], place: Place) -> dict[str, Any]:
        if place not in self.objects:
            raise NotFound(f'{kind.resource} "{place[2]}" not found', reason="NotFound", details={"name": place[2]})
        return self.objects[place]

    async def _write(self, kind: Kind[T], place: Place, obj: dict[str, Any], type_: EventType, request: Request) -> T:
        old = self.objects.get(place)
        if old is not None and {**obj, "metadata": {**obj["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}} == old:
            stored = old
        elif obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers"):
            assert old is not None
            self._store(kind, place, old, EventType.DELETED)
            stored = {**obj, "metadata": {**obj["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
        else:
            stored = self._store(kind, place, obj, type_)
        self.on_write(request, stored)
        answer = _decoded(stored, kind)
        await self._answered(request)
        return answer

    def _store(self, kind: Kind[Any], place: Place, obj: dict[str, Any], type_: EventType) -> dict[str, Any]:
        self.version += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = str(self.version)
        if type_ is EventType.DELETED:
            del self.objects[place]
        else:
            self.objects[place] = stored
        self.history.append((self.version, kind.plural, type_, stored))
        for watch in self._watches:
            if watch.kind.plural == kind.plural:
                watch.tell_of(type_, stored)
        return stored

    async def _arrives(self, request: Request) -> None:
        self.requests.append(request)
        await asyncio.sleep(0)
        await self._suffer(request, late=False)

    async def _answered(self, request: Request) -> None:
        await self._suffer(request, late=True)

    async def _suffer(self, request: Request, *, late: bool) -> None:
        for fault in self.faults:
            if fault.verb == request.verb and fault.late == late and fault.times > 0:
                fault.times -= 1
                await asyncio.sleep(fault.delay_s)
                if fault.error is not None:
                    raise fault.error
                return


class _Watch:
    """Events on their way to one watcher."""

    def __init__(self, kind: Kind[Any], selection: Selection) -> None:
        self.kind = kind
        self._selection = selection
        self._events: asyncio.Queue[WatchEvent[Any] | ApiError | None] = asyncio.Queue()

    def tell(self, event: WatchEvent[Any]) -> None:
        self._events.put_nowait(event)

    def tell_of(self, type_: EventType, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        if _selected(self._selection, self.kind, (self.kind.plural, meta.get("namespace", ""), meta["name"])):
            self.tell(WatchEvent(type_, _decoded(obj, self.kind), meta["resourceVersion"]))

    def end(self, error: ApiError | None) -> None:
        self._events.put_nowait(error)

    async def next(self) -> WatchEvent[Any] | None:
        event = await self._events.get()
        if isinstance(event, ApiError):
            raise event
        return event


def lost() -> Unreachable:
    return Unreachable("connection reset by peer")


def _selected(selection: Selection, kind: Kind[Any], place: Place) -> bool:
    plural, namespace, name = place
    if plural != kind.plural or selection.namespace not in (None, namespace):
        return False
    return selection.field_selector in ("", f"metadata.name={name}")


def _decoded(obj: dict[str, Any], kind: Kind[T]) -> T:
    return copy.deepcopy(obj) if kind.struct is dict else msgspec.convert(obj, kind.struct)  # type: ignore[return-value]


def _merge(target: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = copy.deepcopy(value)


def _now() -> float:
    return asyncio.get_running_loop().time()
