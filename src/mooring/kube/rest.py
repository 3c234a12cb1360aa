"""`Cluster` in terms of HTTP: which request a verb is, and what its answer means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base.clock import Clock
from mooring.kube.answers import Answer, error_of, is_json
from mooring.kube.cluster import EVERYTHING, Page, Patch, Selection, WatchEvent
from mooring.kube.codec import UNDECODABLE, codec_of, plurals_of
from mooring.kube.errors import ApiError, BadRequest, NotServed, ServerError, Unauthorized, Unreachable
from mooring.kube.exchange import Exchange, Stream
from mooring.kube.lines import LineSplitter, LineTooLong
from mooring.kube.paths import list_query, paths_of, watch_query

T = TypeVar("T")

WATCH_LINE_BYTES_MAX: Final = 64 * 2**20
WATCH_S_MAX: Final = 3600.0
"""How long a server keeps a watch that asked for no end, at the most: twice its min-request-timeout of 1800 s."""
WATCH_MARGIN_S: Final = 30.0
"""How much later than promised a server may end a watch, before it is taken for dead."""

_JSON: Final = "application/json"


class RestCluster:
    """Implements `Cluster` on an exchange. `kube/http.py` makes one."""

    def __init__(self, exchange: Exchange, clock: Clock, stranger: str) -> None:
        """stranger: what a 401 means, said behind the server's own word: which server did not take which credentials."""
        self._exchange = exchange
        self._clock = clock
        self._stranger = stranger

    async def list(
        self,
        kind: Kind[T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        path = paths_of(kind).collection(selection.namespace) + list_query(selection, limit, continue_token, resource_version)
        answer = await self._ask("GET", path, kind)
        try:
            return codec_of(kind.struct).page(kind, answer.body)
        except UNDECODABLE as error:
            raise _undecodable("GET", path, answer, error) from None

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._object(kind, name, "GET", paths_of(kind).object(name, namespace))

    async def create(self, kind: Kind[T], body: Mapping[str, Any] | T, namespace: str = "") -> T:
        values = body if isinstance(body, Mapping) else msgspec.to_builtins(body)
        return await self._object(kind, "", "POST", paths_of(kind).collection(namespace), _typed(kind, values))

    async def replace(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "", *, subresource: str = "") -> T:
        name = body["metadata"]["name"]
        return await self._object(kind, name, "PUT", paths_of(kind).object(name, namespace, subresource), _typed(kind, body))

    async def patch(self, kind: Kind[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = "") -> T:
        path = paths_of(kind).object(name, namespace, subresource)
        return await self._object(kind, name, "PATCH", path, patch.body, patch.type.value)

    async def post(self, kind: Kind[T], name: str, subresource: str, body: Mapping[str, Any], namespace: str = "") -> None:
        await self._ask("POST", paths_of(kind).object(name, namespace, subresource), kind, body, name=name)

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
        options: dict[str, Any] = {}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        if propagation:
            options["propagationPolicy"] = propagation
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
        await self._ask("DELETE", paths_of(kind).object(name, namespace), kind, body, name=name)

    async def serves(self, kind: Kind[Any]) -> bool:
        path = paths_of(kind).version
        try:
            answer = await self._ask("GET", path, kind)
        except NotServed:
            return False
        try:
            return kind.plural in plurals_of(answer.body)
        except UNDECODABLE as error:
            raise _undecodable("GET", path, answer, error) from None

    async def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        path = paths_of(kind).collection(selection.namespace) + watch_query(selection, resource_version, timeout_s)
        stream = await self._opened(kind, path)
        try:
            splitter = LineSplitter(WATCH_LINE_BYTES_MAX)
            deadline = self._clock.now() + (timeout_s or WATCH_S_MAX) + WATCH_MARGIN_S
            while chunk := await stream.chunk(deadline - self._clock.now()):
                for event in _events(kind, splitter, chunk, path):
                    yield event
            if splitter.pending:
                raise Unreachable(f"WATCH {path}: the stream ended in the middle of a line")
        finally:
            stream.close()

    async def _object(self, kind: Kind[T], name: str, method: str, path: str, body: object = None, content_type: str = _JSON) -> T:
        """name: "" for an object that has none yet."""
        answer = await self._ask(method, path, kind, body, content_type, name=name)
        try:
            return codec_of(kind.struct).object(answer.body)
        except UNDECODABLE as error:
            raise _undecodable(method, path, answer, error) from None

    async def _ask(
        self, method: str, path: str, kind: Kind[Any], body: object = None, content_type: str = _JSON, *, name: str = ""
    ) -> Answer:
        """An answer of success, in JSON. Raises ApiError for all others. name: of the object that is asked about, "" for many."""
        if body is None:
            answer = await self._exchange.ask(method, path)
        else:
            answer = await self._exchange.ask(method, path, _encoded(body), content_type)
        if answer.status >= 300 or not is_json(answer.headers):
            raise self._refusal(answer, f"{method} {path}", kind, f"{method.lower()} {kind.resource} {name}".rstrip())
        return answer

    async def _opened(self, kind: Kind[Any], path: str) -> Stream:
        reply = await self._exchange.watch(path)
        if isinstance(reply, Answer):
            raise self._refusal(reply, f"WATCH {path}", kind, f"get {kind.resource}")
        if not is_json(reply.headers):
            reply.close()
            raise error_of(Answer(reply.status, reply.headers, b"(not read)"), f"WATCH {path}")
        return reply

    def _refusal(self, answer: Answer, asked: str, kind: Kind[Any], about: str) -> ApiError:
        error = error_of(answer, asked, about=about, may_show=_may_show(kind))
        if isinstance(error, Unauthorized):  # the servers' own text is this one word
            told = f"{error}: {self._stranger}"
            return Unauthorized(told, reason=error.reason, details=error.details, retry_after_s=error.retry_after_s)
        return error


def _events(kind: Kind[T], splitter: LineSplitter, chunk: bytes, path: str) -> Iterator[WatchEvent[T]]:
    """The events whose lines end in this chunk. Raises Unreachable for what is no event: whoever sent it can't be followed further."""
    codec = codec_of(kind.struct)
    try:
        for line in splitter.feed(chunk):
            event = codec.event(kind, line)
            if event is not None:
                yield event
    except LineTooLong as error:
        raise Unreachable(f"WATCH {path}: {error}") from None
    except UNDECODABLE as error:
        raise Unreachable(f"WATCH {path}: a line that is no watch event: {_why(error)}") from None


def _typed(kind: Kind[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """With apiVersion and kind, which servers of custom resources insist on."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **values}


def _encoded(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise BadRequest("the body holds half a character (a lone surrogate), which JSON can't carry", reason="BadRequest") from None


def _undecodable(method: str, path: str, answer: Answer, error: Exception) -> ServerError:
    """A success that can't be read: what was asked has happened, or may have. The body is not shown, it may hold a secret."""
    return ServerError(
        f"the server's answer to {method} {path} ({answer.status}, {len(answer.body)} bytes) can't be read: {_why(error)}", code=502
    )


def _why(error: Exception) -> str:
    """msgspec's words name places and types; those of a UnicodeDecodeError would show the bytes."""
    return str(error) if isinstance(error, msgspec.MsgspecError) else type(error).__name__


def _may_show(kind: Kind[Any]) -> bool:
    return kind.plural != "secrets"
