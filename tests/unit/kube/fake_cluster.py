"""A small honest API server in memory for the tests of this room, with faults on order.

Honest: versions from one counter, conflicts, finalizers, no-op writes that write nothing, pages of one snapshot,
watches with resume, bookmarks, 410 for what was forgotten. Left out: validation, subresources, selectors beyond
namespace and metadata.name.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.kube import cluster
from mooring.kube.client.codec import codec_of
from mooring.kube.cluster import EVERYTHING, Cluster, EventType, Page, PatchType, Selection, Verb, WatchEvent
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
    """Goes wrong for the next `times` requests of this verb. late: after the request took effect, so that its answer is
    lost.
    """

    verb: str
    error: ApiError | None
    times: int = 1
    late: bool = False
    delay_s: float = 0.0


class FakeCluster(Cluster):
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
        obj = (
            copy.deepcopy(old)
            if old
            else {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{self.version + 1}"}}
        )
        _merge(obj, body)
        return self._store(kind, place, obj, EventType.MODIFIED if old else EventType.ADDED)

    def remove(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        place = (kind.plural, namespace, name)
        self._store(kind, place, self.objects[place], EventType.DELETED)

    def fail(
        self, verb: str, error: ApiError | None, times: int = 1, *, late: bool = False, delay_s: float = 0.0
    ) -> None:
        self.faults.append(Fault(verb, error, times, late, delay_s))

    def forget_history(self) -> None:
        """Who comes with an older version gets 410; open watches go on."""
        self.forgotten = self.version
        self._snapshots.clear()

    def backup(self) -> Callable[[], None]:
        """Gives what restores the state of this moment: versions go on from here, and open watches are silent until
        theirs are reached.
        """
        version, objects = self.version, copy.deepcopy(self.objects)

        def restore() -> None:
            self.version, self.objects = version, objects
            self.history = [entry for entry in self.history if entry[0] <= version]

        return restore

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

    async def ask(self, request: cluster.Request) -> Any:
        kind, place = request.kind, (request.kind.plural, request.namespace, request.name)
        asked = _recorded(request)
        await self._arrives(asked)
        match request.verb:
            case Verb.SERVES:
                return True
            case Verb.LIST:
                answer: Any = self._listed(request)
            case Verb.GET:
                answer = _decoded(self._found(kind, place), kind)
            case Verb.CREATE:
                return await self._created(kind, place, request, asked)
            case Verb.REPLACE:
                return await self._write(
                    kind, place, self._replaced(kind, place, request.body), EventType.MODIFIED, asked
                )
            case Verb.PATCH:
                assert request.body.type is not PatchType.JSON, "this fake has no JSON patch"
                obj = copy.deepcopy(self._found(kind, place))
                _merge(obj, request.body.body)
                return await self._write(kind, place, obj, EventType.MODIFIED, asked)
            case Verb.DELETE:
                answer = self._deleted(kind, place, request.uid, request.resource_version)
            case _:
                raise AssertionError(f"this fake has no {request.verb}")
        await self._answered(asked)
        return answer

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

    # Inside

    def _listed(self, request: cluster.Request) -> Page[Any]:
        if request.continue_token:
            if request.continue_token not in self._snapshots:
                raise Gone("The provided continue parameter is too old", reason="Expired")
            items, version = self._snapshots.pop(request.continue_token)
        else:
            places = [place for place in sorted(self.objects) if _selected(request.selection, request.kind, place)]
            items, version = [copy.deepcopy(self.objects[place]) for place in places], self.version
        token = ""
        if request.limit and len(items) > request.limit:
            token = f"token-{version}-{len(items) - request.limit}"
            self._snapshots[token] = items[request.limit :], version
        listed = {
            "metadata": {"resourceVersion": str(version), "continue": token},
            "items": items[: request.limit or None],
        }
        return codec_of(request.kind.struct).page(
            request.kind, msgspec.json.encode(listed)
        )  # as from a server: some may be unreadable

    async def _created(self, kind: Kind[Any], place: Place, request: cluster.Request, asked: Request) -> Any:
        obj = copy.deepcopy(dict(request.body))
        if place in self.objects:
            raise AlreadyExists(f'{kind.resource} "{place[2]}" already exists', reason="AlreadyExists")
        obj["metadata"] = {**obj["metadata"], "namespace": request.namespace, "uid": f"uid-{self.version + 1}"}
        return await self._write(kind, place, obj, EventType.ADDED, asked)

    def _replaced(self, kind: Kind[Any], place: Place, body: Mapping[str, Any]) -> dict[str, Any]:
        old = self._found(kind, place)
        if body["metadata"].get("resourceVersion") not in (None, "", old["metadata"]["resourceVersion"]):
            text = f'Operation cannot be fulfilled on {kind.resource} "{place[2]}": the object has been modified'
            raise Conflict(text, reason="Conflict")
        obj = copy.deepcopy(dict(body))
        obj["metadata"]["uid"] = old["metadata"]["uid"]
        return obj

    def _deleted(self, kind: Kind[Any], place: Place, uid: str, version: str) -> None:
        old = self._found(kind, place)
        if uid not in ("", old["metadata"]["uid"]) or version not in ("", old["metadata"]["resourceVersion"]):
            raise Conflict("the UID in the precondition does not match", reason="Conflict")
        if old["metadata"].get("finalizers"):
            obj = copy.deepcopy(old)
            obj["metadata"].setdefault("deletionTimestamp", "2026-11-20T09:00:00Z")
            self._store(kind, place, obj, EventType.MODIFIED)
        else:
            self._store(kind, place, old, EventType.DELETED)

    def _found(self, kind: Kind[Any], place: Place) -> dict[str, Any]:
        if place not in self.objects:
            raise NotFound(f'{kind.resource} "{place[2]}" not found', reason="NotFound", details={"name": place[2]})
        return self.objects[place]

    async def _write(self, kind: Kind[T], place: Place, obj: dict[str, Any], type_: EventType, request: Request) -> T:
        old = self.objects.get(place)
        if (
            old is not None
            and {**obj, "metadata": {**obj["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}} == old
        ):
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


def _recorded(request: cluster.Request) -> Request:
    body = (request.limit, request.continue_token) if request.verb is Verb.LIST else copy.deepcopy(request.body)
    return Request(request.verb.value, request.kind.plural, request.name, _now(), body, request.resource_version)


def lost() -> Unreachable:
    return Unreachable("connection reset by peer")


def _selected(selection: Selection, kind: Kind[Any], place: Place) -> bool:
    plural, namespace, name = place
    if plural != kind.plural or selection.namespace not in (None, namespace):
        return False
    return selection.field_selector in ("", f"metadata.name={name}")


def _decoded(obj: dict[str, Any], kind: Kind[T]) -> T:
    if kind.struct is dict:
        return copy.deepcopy(obj)  # type: ignore[return-value]
    return msgspec.convert(obj, kind.struct)


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
