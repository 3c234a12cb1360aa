"""Requests and their answers, between connections and the service: who may ask, what waits for its commit, where
watches begin.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from typing import Final, NamedTuple

from mooring.apiserver import api_errors
from mooring.apiserver.durability import Durability
from mooring.apiserver.effort import Effort, NeedsThread, in_the_loop
from mooring.apiserver.identity.tls import user_of
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.about import is_health
from mooring.apiserver.web.connection import Connection
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.long_requests import LongRequests
from mooring.apiserver.web.messages import HttpReply, HttpRequest, WatchReply, error_reply
from mooring.apiserver.web.metrics import CONTENT_TYPE, RequestLabels, ServerMetrics, asked
from mooring.apiserver.web.queries import Route, route_of, without_watch_path
from mooring.apiserver.web.service import Service
from mooring.apiserver.web.streams import Streams, WatchStream
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.turns import Line, Turns
from mooring.kube.errors import ServerError
from mooring.wire.http1.bodies import BODY_BYTES_MAX
from mooring.wire.http1.requests import RequestHead

_log = logger(__name__)


_TURNED_AWAY_MAX: Final = 64
"""Connections over the limit that are told so at the same time; more are cut without a word."""

_LARGE_BYTES: Final = 1024 * 1024
_UNSENT_BYTES_MAX: Final = 128 * 1024 * 1024
"""For all answers that their clients do not read, with what the sockets keep. One more large one is refused
meanwhile.
"""

_Sender = Callable[[HttpReply | None], None]
"""Sends an answer: the one that was found, or another that has taken its place."""


class _Watching(NamedTuple):
    stream: WatchStream
    what: RequestLabels
    begun: float


class _Asking(NamedTuple):
    """A request on its way to its answer."""

    connection: Connection
    head: RequestHead
    request: HttpRequest
    what: RequestLabels
    begun: float


class Dispatcher:
    """The `Host` of all connections. Answers leave in the order of their versions, each once that is committed."""

    def __init__(
        self,
        service: Service,
        store: ObjectStore,
        durability: Durability,
        streams: Streams,
        metrics: ServerMetrics,
        *,
        clock: Clock,
        limits: ConnectionLimits,
    ) -> None:
        self.limits, self._metrics = limits, metrics
        self.connections: dict[Connection, None] = {}
        self._extra: set[Connection] = set()
        self._service, self._store, self._durability, self._streams, self._clock = (
            service,
            store,
            durability,
            streams,
            clock,
        )
        self._waiting: deque[tuple[int, _Sender]] = deque()
        self._turns, self._long = Turns(), LongRequests(store)
        self._date, self._date_at = "", -1
        self._on_quiet: Callable[[], None] = lambda: None
        durability.on_commit(lambda _resource: self.release())
        metrics.gauge("mooring_apiserver_connections", "Open connections.", lambda: len(self.connections))
        metrics.gauge(
            "mooring_apiserver_waiting_for_commit", "Answers that wait for their commit.", lambda: len(self._waiting)
        )

    # what connections ask

    def now(self) -> float:
        return self._clock.now()

    def date(self) -> str:
        now = int(self._clock.wall_s())
        if now != self._date_at:
            self._date, self._date_at = f"Date: {formatdate(now, usegmt=True)}\r\n", now
        return self._date

    def line(self) -> Line:
        return self._turns.line()

    def connected(self, connection: Connection) -> None:
        self.connections[connection] = None
        if len(self.connections) > self.limits.connections:
            self._extra.add(connection)
            if len(self._extra) > _TURNED_AWAY_MAX:
                connection.abort()

    def lost(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._extra.discard(connection)
        if not self.connections:
            self._on_quiet()

    def ended(self, connection: Connection) -> None:
        watching: _Watching | None = connection.watch
        if watching is not None:
            connection.watch = None
            self._streams.remove(watching.stream)
            self._metrics.watching(watching.what, -1)
            self._metrics.answered(watching.what, 200, self.now() - watching.begun)

    def begin(self, connection: Connection, head: RequestHead) -> tuple[HttpRequest, HttpReply | None]:
        """Refuses a connection above the limit, and unknown clients before their body is read."""
        request = _request(connection, head)
        refused = self._service.refusal(request)
        if connection in self._extra:
            head.is_persistent = False
            refused = error_reply(api_errors.too_many_requests())
        if refused is not None:  # (nobody looks for the kind that a stranger means)
            self._metrics.answered(asked(request, None), refused.status, 0.0)
        return request, refused

    def answer(self, connection: Connection, head: RequestHead, request: HttpRequest, body: bytes | None) -> None:
        """Probes are answered at once, other requests within the turns' shares."""
        if is_health(request.path):
            self._answer(connection, head, request, body)
        else:
            connection.line.take(partial(self._answer, connection, head, request, body), partial(_warn, head))

    def _answer(self, connection: Connection, head: RequestHead, request: HttpRequest, body: bytes | None) -> None:
        """The service answers at once, or aside."""
        route = self._route(request)
        asking = _Asking(connection, head, request, asked(request, route), self.now())
        if body is None:
            self._reply(asking, error_reply(api_errors.entity_too_large(BODY_BYTES_MAX)))
            return
        request.body = body
        if self._long.is_one(request, route):
            self._answer_aside(asking)
            return
        try:
            reply = self._answered(request, route, in_the_loop())
        except NeedsThread:
            self._answer_aside(asking)
        except Exception as error:
            self._reply(asking, error)
        else:
            self._reply(asking, reply)

    def _answer_aside(self, asking: _Asking) -> None:
        """The kind is looked up when the request has its turn: it may have gone, or changed, while the request
        waited.
        """
        request = asking.request
        self._long.take(
            len(request.body),
            lambda: self._answered(request, self._route(request), Effort()),
            partial(self._reply, asking),
        )

    def _reply(self, asking: _Asking, found: HttpReply | WatchReply | Exception) -> None:
        """Sends the answer, once the newest version, which it may have seen, is committed."""
        request = asking.request
        try:
            if isinstance(found, Exception):
                raise found
            if (
                isinstance(found, HttpReply)
                and len(found.body) > _LARGE_BYTES
                and not self._has_room_for(len(found.body))
            ):
                found = error_reply(api_errors.too_many_requests())
            send = self._sender(asking, found)
        except Exception as error:
            trace = traceback.format_exc()
            _log.error(
                "A request could not be answered",
                error=error,
                method=request.method,
                path=_shown(asking.head),
                traceback=trace,
            )
            text = f"Internal error occurred: {type(error).__name__}"
            send = self._sender(asking, error_reply(ServerError(text, reason="InternalError")))
        if self._store.version <= self._durability.committed or is_health(request.path):
            send(None)
        elif self._durability.failure:
            send(self._failed())
        else:
            self._waiting.append((self._store.version, send))

    def _route(self, request: HttpRequest) -> Route | None:
        return route_of(request.path, self._store)

    def _answered(self, request: HttpRequest, route: Route | None, work: Effort) -> HttpReply | WatchReply:
        if request.path == ("metrics",) and request.method == "GET":
            return HttpReply(200, self._metrics.page(), CONTENT_TYPE)
        return self._service.answer(request, route, work)

    def readable(self, connection: Connection) -> None:
        if connection.watch is not None:
            self._streams.serve(connection.watch.stream)

    # what the server asks

    def release(self) -> None:
        """Sends what had to wait, as far as it is committed."""
        while self._waiting and self._waiting[0][0] <= self._durability.committed:
            self._waiting.popleft()[1](None)

    def look(self) -> None:
        """Closes connections that are too slow or idle, and fails those that wait for a commit that will never be."""
        if self._durability.failure:
            while self._waiting:
                self._waiting.popleft()[1](self._failed())
        self._cut_unread()
        now = self._clock.now()
        for connection in [each for each in self.connections if each.deadline <= now]:
            slow_at = connection.expire()
            if slow_at:
                _log.info(2, "A client was too slow and was cut off", at=slow_at)

    def close(self) -> None:
        """Nothing is answered aside any more."""
        self._long.close()

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Calls once the last connection has gone: at once if there is none."""
        self._on_quiet = call
        if not self.connections:
            call()

    # the steps

    def _sender(self, asking: _Asking, reply: HttpReply | WatchReply) -> _Sender:
        """Sends the reply, or another in its stead. A watch that begins with existing objects takes them now."""
        connection, what = asking.connection, asking.what
        stream = (
            None
            if isinstance(reply, HttpReply)
            else self._streams.prepare(reply, connection, is_chunked=asking.head.is_chunkable)
        )

        def send(other: HttpReply | None) -> None:
            final = other or reply
            if isinstance(final, HttpReply):
                connection.reply(final)
                self._metrics.answered(what, final.status, self.now() - asking.begun)
            elif stream is not None and connection.stream():
                connection.watch = _Watching(stream, what, asking.begun)
                self._metrics.watching(what, 1)
                self._streams.begin(stream)

        return send

    def _has_room_for(self, size: int) -> bool:
        unread = sum(self._unread().values())
        return not unread or unread + self._sending() + size <= _UNSENT_BYTES_MAX

    def _unread(self) -> dict[int, int]:
        """The bytes of each answer that a client does not read. Watches share theirs, so each counts once."""
        return {connection.unsent.id: len(connection.unsent) for connection in self.connections if connection.unsent}

    def _sending(self) -> int:
        return sum(connection.sending_bytes for connection in self.connections)

    def _cut_unread(self) -> None:
        """Where answers that nobody reads are too much together, watches end that have the largest: their clients begin
        again.
        """
        unread = self._unread()
        over = sum(unread.values()) + self._sending() - _UNSENT_BYTES_MAX
        watches = (
            [each for each in self.connections if each.watch is not None and not each.is_writable] if over > 0 else []
        )
        for connection in sorted(watches, key=lambda each: -unread.get(each.unsent.id, 0) - each.sending_bytes):
            shares_with_one_cut = bool(connection.unsent) and connection.unsent.id not in unread
            if over > 0 or shares_with_one_cut:
                over -= unread.pop(connection.unsent.id, 0) + connection.sending_bytes
                connection.abort()

    def _failed(self) -> HttpReply:
        text = f"the server could not save its objects and ends: {self._durability.failure}"
        return error_reply(ServerError(text, reason="InternalError"))


def _request(connection: Connection, head: RequestHead) -> HttpRequest:
    path, query = head.path(), head.query()
    if "watch" in path and head.method == "GET":
        path, query = without_watch_path(path, query)
    request = HttpRequest(head.method, path, query, head.headers)
    if connection.certificate is not None:
        request.user, request.is_known = user_of(connection.certificate), True
    return request


def _warn(head: RequestHead, held_s: float) -> None:
    _log.warning("A request held the server", method=head.method, path=_shown(head), processor_s=round(held_s, 3))


def _shown(head: RequestHead) -> str:
    """The path for the log, without the query, which may hold anything."""
    return head.target.partition("?")[0][:200]
