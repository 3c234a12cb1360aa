"""Requests and their answers, between connections and the service: who may ask, what waits for its commit, where watches begin."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from email.utils import formatdate

from mooring.apiserver import refusals
from mooring.apiserver.bodies import BODY_BYTES_MAX
from mooring.apiserver.connection import Connection, Limits
from mooring.apiserver.durability import Durability
from mooring.apiserver.messages import Reply, Request, WatchReply, error_reply
from mooring.apiserver.service import Service, is_health
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.streams import Streams
from mooring.apiserver.tls import user_of
from mooring.apiserver.wire import Head
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.errors import ServerError

_log = logger(__name__)


class Exchange:
    """The `Host` of all connections. Answers leave in the order of their versions, each once that is committed."""

    def __init__(
        self, service: Service, store: ObjectStore, durability: Durability, streams: Streams, *, clock: Clock, limits: Limits
    ) -> None:
        self.limits = limits
        self.connections: dict[Connection, None] = {}
        self._service, self._store, self._durability, self._streams, self._clock = service, store, durability, streams, clock
        self._waiting: deque[tuple[int, Callable[[Reply | None], None]]] = deque()
        self._date, self._date_at = "", -1
        self._on_quiet: Callable[[], None] = lambda: None
        durability.on_commit(lambda _resource: self.release())

    # what connections ask

    def now(self) -> float:
        return self._clock.now()

    def date(self) -> str:
        now = int(self._clock.wall_s())
        if now != self._date_at:
            self._date, self._date_at = f"Date: {formatdate(now, usegmt=True)}\r\n", now
        return self._date

    def connected(self, connection: Connection) -> None:
        self.connections[connection] = None

    def lost(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        if connection.watch is not None:
            self._streams.remove(connection.watch)
        if not self.connections:
            self._on_quiet()

    def refusal(self, connection: Connection, head: Head) -> Reply | None:
        """One too many is told so; and nobody's body is read who would not be heard."""
        if len(self.connections) > self.limits.connections and connection is not next(iter(self.connections)):
            return error_reply(refusals.too_many_requests())
        if head.length == 0:
            return None
        return self._service.unknown(_request(connection, head, b""))

    def answer(self, connection: Connection, head: Head, body: bytes | None) -> None:
        """The service answers at once. What it says may be seen when the newest version is committed."""
        request = _request(connection, head, body or b"")
        try:
            reply = error_reply(refusals.entity_too_large(BODY_BYTES_MAX)) if body is None else self._service.answer(request)
            ready = self._ready(connection, head, reply)
        except Exception as error:
            trace = traceback.format_exc()
            _log.error("A request could not be answered", error=error, method=request.method, path=head.target, traceback=trace)
            text = f"Internal error occurred: {type(error).__name__}"
            ready = self._ready(connection, head, error_reply(ServerError(text, reason="InternalError")))
        if self._store.version <= self._durability.committed or is_health(request):
            ready(None)
        elif self._durability.failure:
            ready(self._failed())
        else:
            self._waiting.append((self._store.version, ready))

    def readable(self, connection: Connection) -> None:
        if connection.watch is not None:
            self._streams.serve(connection.watch)

    # what the server asks

    def release(self) -> None:
        """Sends what had to wait, as far as it is committed."""
        while self._waiting and self._waiting[0][0] <= self._durability.committed:
            self._waiting.popleft()[1](None)

    def look(self) -> None:
        """Sends those home who are too slow or too quiet, and tells those who wait for a commit that will never be."""
        if self._durability.failure:
            while self._waiting:
                self._waiting.popleft()[1](self._failed())
        now = self._clock.now()
        for connection in [each for each in self.connections if each.deadline <= now]:
            slow_at = connection.expire()
            if slow_at:
                _log.info(2, "A client was too slow and was cut off", at=slow_at)

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Calls once the last connection has gone: at once if there is none."""
        self._on_quiet = call
        if not self.connections:
            call()

    # the steps

    def _ready(self, connection: Connection, head: Head, reply: Reply | WatchReply) -> Callable[[Reply | None], None]:
        """What sends the answer, or another in its place. A watch that begins with what is there takes it now."""
        if isinstance(reply, Reply):
            return lambda other: connection.reply(other or reply)
        stream = self._streams.prepare(reply, connection, is_chunked=head.is_chunkable)

        def begin(other: Reply | None) -> None:
            if other is not None:
                connection.reply(other)
            elif connection.stream():
                connection.watch = stream
                self._streams.begin(stream)

        return begin

    def _failed(self) -> Reply:
        text = f"the server could not save its objects and ends: {self._durability.failure}"
        return error_reply(ServerError(text, reason="InternalError"))


def _request(connection: Connection, head: Head, body: bytes) -> Request:
    if connection.certificate is None:
        return Request(head.method, head.path(), head.query(), head.headers, body)
    return Request(head.method, head.path(), head.query(), head.headers, body, user_of(connection.certificate), is_known=True)
