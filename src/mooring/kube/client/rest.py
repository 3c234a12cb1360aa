"""`Cluster` in terms of HTTP: which request a verb is, and what its answer means."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.meta import Kind
from mooring.base.clock import Clock
from mooring.base.json_text import TooDeep
from mooring.kube.client.codec import TOLD_MAX, codec_of, plurals_of, rows_of
from mooring.kube.client.paths import apply_query, list_query, paths_of, watch_query
from mooring.kube.client.responses import Response, error_of, is_json
from mooring.kube.client.retrying import BodyStream, RetryingClient
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Row, Selection, Verb, WatchEvent
from mooring.kube.errors import ApiError, BadRequest, NotFound, NotServed, ServerError, Unauthorized, Unreachable


class LineTooLong(Exception):
    """A line passed the bound; the stream can't be used any more."""


class LineSplitter:
    """Takes chunks, gives the lines that they complete. length_max: bytes of a line, without its end."""

    def __init__(self, length_max: int) -> None:
        assert length_max > 0
        self._length_max = length_max
        self._begun: list[bytes] = []
        self._begun_length = 0

    @property
    def pending(self) -> bool:
        return self._begun_length > 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their ends and without the empty ones. Raises LineTooLong."""
        *ended, rest = chunk.split(b"\n")
        if ended and self._begun:
            self._check(self._begun_length + len(ended[0]))
            ended[0] = b"".join((*self._begun, ended[0]))
            self._begun, self._begun_length = [], 0
        if rest:
            self._begun.append(rest)
            self._begun_length += len(rest)
            self._check(self._begun_length)
        lines = [line for line in ended if line and not line.isspace()]
        for line in lines:
            self._check(len(line))
        return lines

    def _check(self, length: int) -> None:
        if length > self._length_max:
            raise LineTooLong(f"a line is longer than {self._length_max} bytes")


T = TypeVar("T")

WATCH_LINE_BYTES_MAX: Final = 16 * 2**20
"""The longest line, which is one object. etcd takes 1.5 MiB; a line full of short names takes us 40 ms for each MiB."""
WATCH_S_MAX: Final = 3600.0
"""How long a server keeps a watch that asked for no end, at the most: twice its min-request-timeout of 1800 s."""
WATCH_MARGIN_S: Final = 30.0
"""How much later than promised a server may end a watch, before it is taken for dead."""

_JSON: Final = "application/json"
_ROWS: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


class RestCluster(Cluster):
    """Implements `Cluster` on an exchange. `kube/client/http.py` makes one."""

    def __init__(self, client: RetryingClient, clock: Clock, stranger: str) -> None:
        """stranger: what a 401 means, said behind the server's own word: which server did not take which
        credentials.
        """
        self._client = client
        self._clock = clock
        self._stranger = stranger

    async def ask(self, request: Request) -> Any:
        method, path, body, content_type = _as_http(request)
        if body is None:
            accept = _ROWS if request.kind.struct is Row else ""
            response = await self._client.ask(method, path, is_list=request.verb is Verb.LIST, accept=accept)
        else:
            response = await self._client.ask(method, path, _encoded(body), content_type)
        if response.status >= 300 or not is_json(response.headers):
            refusal = self._refusal(response, f"{method} {path}", request.kind, _about(method, request))
            if request.verb is Verb.SERVES and isinstance(refusal, NotServed | NotFound):  # it is about no object
                return False
            raise refusal
        try:
            return _decoded(request, response.body)
        except ValueError as error:
            raise _undecodable(method, path, response, error) from None

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

    async def _opened(self, kind: Kind[Any], path: str) -> BodyStream:
        response = await self._client.watch(path)
        if isinstance(response, Response):
            raise self._refusal(response, f"WATCH {path}", kind, f"get {kind.resource}")
        if not is_json(response.headers):
            response.close()
            raise error_of(Response(response.status, response.headers, b"(not read)"), f"WATCH {path}")
        return response

    def _refusal(self, response: Response, asked: str, kind: Kind[Any], about: str) -> ApiError:
        error = error_of(response, asked, about=about, may_show=_may_show(kind))
        if isinstance(error, Unauthorized):  # the servers' own text is this one word
            message = f"{error}: {self._stranger}"
            return Unauthorized(message, reason=error.reason, details=error.details, retry_after_s=error.retry_after_s)
        return error


_METHODS: Final = {
    Verb.LIST: "GET",
    Verb.GET: "GET",
    Verb.SERVES: "GET",
    Verb.CREATE: "POST",
    Verb.POST: "POST",
    Verb.REPLACE: "PUT",
    Verb.PATCH: "PATCH",
    Verb.DELETE: "DELETE",
}


def _as_http(request: Request) -> tuple[str, str, object, str]:
    """Method, path with query, body (None for none), content type."""
    kind, paths, method = request.kind, paths_of(request.kind), _METHODS[request.verb]
    if request.verb is Verb.LIST:
        selection = request.selection
        rows = request.kind.struct is Row
        query = list_query(
            selection, request.limit, request.continue_token, request.resource_version, with_objects=not rows
        )
        return method, paths.collection(selection.namespace) + query, None, _JSON
    if request.verb is Verb.SERVES:
        return method, paths.version, None, _JSON
    if request.verb is Verb.CREATE and not request.subresource:
        return method, paths.collection(request.namespace), _typed(kind, request.body), _JSON
    path = paths.object(request.name, request.namespace, request.subresource)
    if request.verb is Verb.PATCH:
        return method, path + apply_query(request), request.body.body, request.body.type.value
    if request.verb is Verb.DELETE:
        return method, path, _delete_options(request), _JSON
    return (
        method,
        path,
        _typed(kind, request.body) if request.verb in (Verb.CREATE, Verb.REPLACE) else request.body,
        _JSON,
    )


def _delete_options(request: Request) -> dict[str, Any] | None:
    options: dict[str, Any] = {}
    conditions = {"uid": request.uid, "resourceVersion": request.resource_version}
    if any(conditions.values()):
        options["preconditions"] = {name: value for name, value in conditions.items() if value}
    if request.grace_period_s is not None:
        options["gracePeriodSeconds"] = request.grace_period_s
    if request.propagation:
        options["propagationPolicy"] = request.propagation
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None


def _decoded(request: Request, body: bytes) -> Any:
    """Raises ValueError."""
    if request.verb is Verb.LIST and request.kind.struct is Row:
        return rows_of(body)
    if request.verb is Verb.LIST:
        return codec_of(request.kind.struct).page(request.kind, body)
    if request.verb is Verb.SERVES:
        return request.kind.plural in plurals_of(body)
    return None if request.verb in (Verb.POST, Verb.DELETE) else codec_of(request.kind.struct).object(body)


def _about(method: str, request: Request) -> str:
    """The request in client-go's words: `get pods web-0`."""
    name = "" if request.verb is Verb.CREATE else request.name
    return f"{method.lower()} {request.kind.resource} {name}".rstrip()


def _events(kind: Kind[T], splitter: LineSplitter, chunk: bytes, path: str) -> Iterator[WatchEvent[T]]:
    """The events whose lines end in this chunk. Raises Unreachable for a line that is none: the stream can't be trusted
    further.
    """
    codec, skipped = codec_of(kind.struct), 0
    try:
        for line in splitter.feed(chunk):
            event = codec.event(kind, line, is_told=skipped < TOLD_MAX)
            if event is not None:
                yield event
            else:
                skipped += 1
    except LineTooLong as error:
        raise Unreachable(f"WATCH {path}: {error}") from None
    except ValueError as error:
        raise Unreachable(f"WATCH {path}: a line that is no watch event: {_why(error)}") from None


def _typed(kind: Kind[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The object with apiVersion and kind, which servers of custom resources insist on."""
    return {"apiVersion": kind.api_version, "kind": kind.name, **values}


def _encoded(body: object) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise BadRequest(
            "the body holds half a character (a lone surrogate), which JSON can't carry", reason="BadRequest"
        ) from None


def _undecodable(method: str, path: str, response: Response, error: Exception) -> ServerError:
    """A success that can't be read: what was asked has happened, or may have. The body is not shown, it may hold a
    secret.
    """
    return ServerError(
        f"the server's answer to {method} {path} ({response.status}, {len(response.body)} bytes) can't be "
        f"read: {_why(error)}",
        code=502,
    )


def _why(error: Exception) -> str:
    """The error without values: msgspec's words name places and types, a UnicodeDecodeError's would show the bytes."""
    return str(error) if isinstance(error, msgspec.MsgspecError | TooDeep) else type(error).__name__


def _may_show(kind: Kind[Any]) -> bool:
    return kind.plural != "secrets" and kind.name != "TokenRequest"
