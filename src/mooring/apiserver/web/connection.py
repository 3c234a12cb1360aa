"""One client's connection: requests one after the other, each within its time and size, then the answer or a watch.

    HEAD --a whole head--> BODY --all of it--> ANSWERING --the answer is sent--> HEAD
                                               ANSWERING --a watch--> STREAMING --its end--> HEAD
    HEAD, BODY --malformed--> LEAVING: the refusal is sent, and what still comes is read and dropped for a while

Requests that arrive while another is answered wait their turn, and the socket waits with them: a client that sends many
requests at once gets the answers in order, and costs no memory. All work for a client goes through the client's line,
within its share of the loop. The server's sweep checks the deadlines; there is no timer for each.
"""

from __future__ import annotations

import enum
import math
import re
from typing import Any, Final, Protocol

from mooring.apiserver import api_errors
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.messages import JSON, TEXT, HttpReply, HttpRequest, error_reply, rendered, status_line
from mooring.apiserver.web.unsent import Unsent
from mooring.base.turns import Line
from mooring.kube.errors import TooLarge
from mooring.wire.http1.bodies import BODY_BYTES_MAX, Body
from mooring.wire.http1.requests import RequestHead, parse_head
from mooring.wire.http1.syntax import HEAD_BYTES_MAX, Malformed
from mooring.wire.http1.tls_transport import TlsTransport

_AHEAD_BYTES_MAX: Final = 64 * 1024
_HEADERS_KEPT_MAX: Final = 2048  # bytes of a request's, to know the next request's by; few clients send more
_REQUESTS_A_TURN: Final = 16
"""Read from one connection before others have their turn."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_EMPTY_LINES: Final = re.compile(rb"(?:\r\n)+")


class Host(Protocol):
    """A connection's view of its server."""

    limits: ConnectionLimits

    def now(self) -> float:
        """Monotonic seconds."""

    def date(self) -> str:
        """The Date header, with its line end."""

    def line(self) -> Line:
        """For one more client."""

    def connected(self, connection: Connection) -> None: ...

    def begin(self, connection: Connection, head: RequestHead) -> tuple[HttpRequest, HttpReply | None]:
        """The request that a head makes, and what it is answered whatever its body is; None for one that may go on."""

    def answer(self, connection: Connection, head: RequestHead, request: HttpRequest, body: bytes | None) -> None:
        """Answers now or later, by `reply` or `stream`. body: None for one that is too large."""

    def readable(self, connection: Connection) -> None:
        """The watch on this connection may go on: its client reads again."""

    def ended(self, connection: Connection) -> None:
        """Its watch is over."""

    def lost(self, connection: Connection) -> None: ...


class _State(enum.Enum):
    HEAD = enum.auto()
    BODY = enum.auto()
    ANSWERING = enum.auto()
    STREAMING = enum.auto()
    LEAVING = enum.auto()


class Connection:
    """One client. line: its place among all. certificate: what it has shown, signed by our CA. watch: the host's, while
    a watch goes on.
    """

    __slots__ = (
        "_before",
        "_body",
        "_buffer",
        "_head",
        "_host",
        "_is_advancing",
        "_is_paused",
        "_link",
        "_refusal",
        "_request",
        "_state",
        "certificate",
        "deadline",
        "is_writable",
        "line",
        "unsent",
        "watch",
    )

    def __init__(self, host: Host) -> None:
        self._host, self.line = host, host.line()
        self._link: TlsTransport | None = None
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._head: RequestHead | None = None
        self._before: RequestHead | None = None
        self._body: Body | None = None
        self._request: HttpRequest | None = None
        self._refusal: HttpReply | None = None
        self.unsent = Unsent()
        self._is_advancing = self._is_paused = False
        self.is_writable = True
        self.certificate: dict[str, Any] | None = None
        self.watch: Any = None
        self.deadline = host.now() + host.limits.slow_s

    # what the server does

    def reply(self, reply: HttpReply) -> None:
        """Sends the answer; the next request has its turn. Nothing happens when the client has gone."""
        if self._link is None:
            return
        assert self._state is _State.ANSWERING
        assert self._head is not None
        stays, with_body = self._head.is_persistent, self._head.method != "HEAD"
        self.unsent.put(rendered(reply, self._host.date(), is_last=not stays, with_body=with_body))
        self._send()

    @property
    def takes_lines(self) -> bool:
        """False while lines of the watch wait to be sent."""
        return self.is_writable and not self.unsent

    @property
    def sending_bytes(self) -> int:
        """What the socket has not taken yet of the bytes that it was given."""
        return 0 if self._link is None else self._link.get_write_buffer_size()

    def _send(self) -> None:
        """Sends of the answer what the client makes room for; behind its end the next request has its turn."""
        while self._link is not None and self.unsent and self.is_writable:
            self._link.write(self.unsent.piece())
        if not self.unsent and self._state is _State.ANSWERING and self._head is not None:
            self._next(stays=self._head.is_persistent)

    def stream(self) -> bool:
        """The answer is a watch, whose lines come by `write`, in HTTP's chunks where it knows them. False when the
        client has gone.
        """
        if self._link is None:
            return False
        assert self._state is _State.ANSWERING
        assert self._head is not None
        self._state, is_chunked = _State.STREAMING, self._head.is_chunkable
        self._rest()
        framing = "Transfer-Encoding: chunked\r\n" if is_chunked else "Connection: close\r\n"
        self.write(f"{status_line(200, JSON)}{self._host.date()}{framing}\r\n".encode())
        return True

    def write(self, data: bytes) -> None:
        """Lines of the watch, sent as the client makes room for them."""
        if self._link is not None:
            self.unsent.put(data)
            self._send()

    def end(self) -> None:
        """The watch is over."""
        self._host.ended(self)
        if self._link is None:
            return
        assert self._state is _State.STREAMING
        assert self._head is not None
        stays = self._head.is_chunkable and self._head.is_persistent
        if self._head.is_chunkable:
            self.write(_LAST_CHUNK)
        self._next(stays=stays)

    def expire(self) -> str:
        """The deadline has passed. Gives what the client was too slow at; "" for one that was merely idle."""
        if self._link is None:
            return ""
        if self._state is _State.HEAD and not self._buffer and self._link.is_secured and self.is_writable:
            self._link.close()
            return ""
        self._link.abort()
        return "reading" if not self.is_writable else "" if self._state is _State.LEAVING else "sending"

    def close_soon(self) -> None:
        """Ends the connection: now between two requests, else once the one that is being answered has its answer."""
        if self._head is not None:
            self._head.is_persistent = False
        if self._link is not None and self._state is _State.HEAD:
            self._link.close()

    def abort(self) -> None:
        """Breaks it."""
        if self._link is not None:
            self._link.abort()

    # what the link says

    def connected(self, link: TlsTransport) -> None:
        self._link = link
        self._host.connected(self)

    def secured(self) -> None:
        assert self._link is not None
        self.certificate = self._link.certificate()
        self.deadline = self._host.now() + self._host.limits.slow_s

    def received(self, data: bytes) -> None:
        if self._state is _State.LEAVING:
            return
        begins = self._state is _State.HEAD and not self._buffer
        self._buffer += data
        self._advance(begins=begins)

    def writable(self, yes: bool) -> None:
        self.is_writable = yes
        if not yes:
            self.deadline = self._host.now() + self._host.limits.slow_s
        else:
            self.line.take(self._go_on)

    def _go_on(self) -> None:
        """The client has read; it may be gone, or slow again, by the time that it has its turn."""
        if self._link is None or not self.is_writable:
            return
        self._rest()
        if self._state is _State.STREAMING:
            self._send()
            if self.takes_lines:
                self._host.readable(self)
        else:
            self._send() if self.unsent else self._advance()

    def lost(self) -> None:
        self._link = None
        self.unsent.drop()
        if self._state is _State.STREAMING:
            self._host.ended(self)
        self._host.lost(self)

    # the steps

    def _advance(self, *, begins: bool = False) -> None:
        """Goes as far as what has come allows, and the others, and a link that is still there: nothing is written to
        one that is lost.

        begins: the first bytes of a request have come.
        """
        if self._is_advancing:
            return
        self._is_advancing, read = True, 0
        try:
            while read < _REQUESTS_A_TURN and self._buffer and self._is_open() and self._read():
                read += 1
        except Malformed as error:
            is_body = error.status == TooLarge.code
            text = HttpReply(error.status, f"{error}\n".encode(), TEXT)
            self._leave(error_reply(api_errors.entity_too_large(BODY_BYTES_MAX)) if is_body else text)
        finally:
            self._is_advancing = False
        if read or begins:
            self._rest()
        if read == _REQUESTS_A_TURN:
            self.line.take(self._advance)
        self._hold_back()

    def _is_open(self) -> bool:
        return self.is_writable and self._link is not None and not self._link.is_closing()

    def _read(self) -> bool:
        """True when a head has been read, or a body's last byte."""
        if self._state is _State.HEAD:
            return self._read_head()
        return self._state is _State.BODY and self._read_body()

    def _read_head(self) -> bool:
        buffer = self._buffer
        if (nothing := _EMPTY_LINES.match(buffer)) is not None:
            del buffer[: nothing.end()]  # (an empty line before a request is nothing)
        end = buffer.find(b"\r\n\r\n", 0, HEAD_BYTES_MAX)
        if end < 0:
            if len(buffer) >= HEAD_BYTES_MAX:
                raise Malformed("request line and headers are too long", 431)
            return False
        self._head = head = parse_head(bytes(buffer[:end]), self._before)
        self._before = head if head.headers_bytes <= _HEADERS_KEPT_MAX else None
        del buffer[: end + 4]
        self._request, self._refusal = self._host.begin(self, head)
        self._body, self._state = Body(head.length, is_kept=self._refusal is None), _State.BODY
        if self._refusal is not None and (head.length is None or (head.expects_continue and not self._body.is_whole)):
            self._leave(self._refusal)  # (nobody reads chunks only to find their end)
            return False
        if head.expects_continue and not self._body.is_whole:
            self.write(_CONTINUE)
        self._read_body()
        return True

    def _read_body(self) -> bool:
        body, head, request, refusal = self._body, self._head, self._request, self._refusal
        assert body is not None
        assert head is not None
        assert request is not None
        if not body.is_whole:
            body.feed(self._buffer)
        if not body.is_whole:
            return False
        self._body = self._request = self._refusal = None
        self._state = _State.ANSWERING
        if refusal is not None:
            self.reply(refusal)
        else:
            self._host.answer(self, head, request, None if body.is_too_large else body.content())
        return True

    def _next(self, *, stays: bool) -> None:
        """The answer is out: on to the next request, or goodbye."""
        assert self._link is not None
        self._head = None
        self._state = _State.HEAD if stays else _State.LEAVING
        if not self._is_advancing:
            self._rest()
        if not stays:
            self._link.close()
        elif self._buffer and not self._is_advancing:
            self.line.take(self._advance)

    def _leave(self, reply: HttpReply) -> None:
        """Refuses, and reads on for a while: to close on unread bytes would reset the connection, and lose the answer
        with it.
        """
        if self._link is None:
            return
        self._state = _State.LEAVING
        self._buffer.clear()
        self._rest()
        self._link.write(rendered(reply, self._host.date(), is_last=True))
        self._link.end_writing()

    def _rest(self) -> None:
        """Nothing more is done now: the client has until the deadline for its next step."""
        if not self.is_writable:
            return  # (the deadline for reading counts)
        if self._state in (_State.ANSWERING, _State.STREAMING):
            self.deadline = math.inf
            return
        limits, is_idle = self._host.limits, self._state is _State.HEAD and not self._buffer
        left_s = limits.idle_s if is_idle else limits.leaving_s if self._state is _State.LEAVING else limits.slow_s
        self.deadline = self._host.now() + left_s

    def _hold_back(self) -> None:
        """Pauses reading while more requests have come than can be answered."""
        wanted = len(self._buffer) > _AHEAD_BYTES_MAX
        if wanted != self._is_paused and self._link is not None:
            self._is_paused = wanted
            self._link.pause_reading() if wanted else self._link.resume_reading()
