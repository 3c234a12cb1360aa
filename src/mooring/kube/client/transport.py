"""Requests to an API server over HTTP/1.1 of our own (`mooring.wire.http1`). Its many errors are told as one,
`Unreachable`.

One connection per running request and per watch, kept for the next. A read is sent a second time when a kept connection
turns out to be closed before a byte of its answer has come; a write never is.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from typing import Final
from urllib.parse import unquote, urlsplit

from mooring.base import fence
from mooring.base.clock import LoopClock
from mooring.kube.client.config import ClusterConfig, Tls
from mooring.kube.client.responses import Headers, Response
from mooring.kube.client.retrying import Pairs
from mooring.kube.client.tls import TlsContexts, client_context, tls_reason
from mooring.kube.errors import AnswerTooLarge, NoAnswer, Unreachable
from mooring.wire.http1.connection import Closed, Connection
from mooring.wire.http1.dialing import ContextMaker, Dialer, Proxy, Server
from mooring.wire.http1.gunzip import Gunzip, TooLarge, decoder_of
from mooring.wire.http1.pool import DIAL_TIMEOUT_S, DialError, DialTimeout, Pool
from mooring.wire.http1.requests import header_lines, request_bytes
from mooring.wire.http1.responses import ResponseHead
from mooring.wire.http1.syntax import BrokenOff, Malformed, Unsendable

BODY_BYTES_MAX: Final = 256 * 2**20
"""The largest answer, also once it is unpacked."""
_UNPACKED_MAX: Final = 256 * 1024
"""Bytes of a watch at once: what is packed may become a thousand times as much."""
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_LINES_MAX: Final = 64
"""Sets of headers kept as bytes, one for each content type and credential; with more of them all are forgotten."""


class HttpTransport:
    """Implements `Transport`."""

    def __init__(self, config: ClusterConfig, contexts: TlsContexts | None) -> None:
        """contexts: None for a server without TLS."""
        parts = urlsplit(config.server)
        self._contexts = contexts
        self._context: ssl.SSLContext | None = None
        self._place = place_of(config)
        self._base, self._own = parts.path.rstrip("/"), [("Host", _host_header(config.server))]
        proxy = _proxy(config.proxy, contexts) if config.proxy else None
        if proxy is not None and contexts is None:
            self._base = config.server
            self._own += [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        server = Server(parts.hostname or "", port, config.tls.server_name, contexts.current if contexts else None)
        self._pool = Pool(Dialer(server, proxy).dial)
        self._lines: dict[Pairs, bytes] = {}

    async def request(self, method: str, path: str, headers: Pairs, body: bytes | None, timeout_s: float) -> Response:
        try:
            data = request_bytes(method, self._base + path, self._lines_of(headers), body)
            deadline = asyncio.get_running_loop().time() + timeout_s
            _, head, body = await self._answer(method, data, deadline, is_stream=False)
            return Response(head.status, head.headers, _unpacked(head, body))
        except TimeoutError:
            raise Unreachable(f"no answer from {self._place} to {method} within {timeout_s:g} s") from None
        except TooLarge:
            raise AnswerTooLarge(f"the answer is larger than {BODY_BYTES_MAX} bytes; ask for pages (limit)") from None
        except _FAULTS as error:
            raise Unreachable(_reason(error, self._place)) from None

    async def stream(self, path: str, headers: Pairs, timeout_s: float) -> ResponseStream:
        try:
            data = request_bytes("GET", self._base + path, self._lines_of(headers))
            deadline = asyncio.get_running_loop().time() + timeout_s
            connection, head, _ = await self._answer("GET", data, deadline, is_stream=True)
            return ResponseStream(connection, head, self._pool, self._place)
        except TimeoutError:
            raise NoAnswer(f"no answer from {self._place} to a watch within {timeout_s:g} s") from None
        except _FAULTS as error:
            raise NoAnswer(_reason(error, self._place)) from None

    async def close(self) -> None:
        """Ends what runs, connections that are being made too, with Unreachable for who waits."""
        self._pool.close()
        await self._pool.ended()

    async def _answer(
        self, method: str, data: bytes, deadline: float, *, is_stream: bool
    ) -> tuple[Connection, ResponseHead, bytes]:
        """The answer's head, and its body unless that is a stream; then the connection stays with the caller. deadline:
        loop time.
        """
        self._look_at_context()
        pool, needs_new = self._pool, False
        while True:
            connection = None if needs_new else pool.take()
            if connection is None:
                async with asyncio.timeout_at(deadline):
                    connection = await pool.get(needs_new=needs_new)
            if method != "GET" and (why := fence.closed()):  # no await from here to the sending
                connection.abort()
                raise Unreachable(f"{method} was not sent: {why}")
            timer = asyncio.get_running_loop().call_at(deadline, connection.give_up)
            is_whole = False
            try:
                if is_stream:
                    connection.begin(method, data)
                    head, body = await connection.head(), b""
                else:
                    head, body = await connection.ask(method, data, BODY_BYTES_MAX)
                is_whole = True
                return connection, head, body
            except BrokenOff as error:
                if method != "GET" or error.has_begun or not connection.is_reused:
                    raise
                needs_new = True
            finally:
                timer.cancel()
                if not (is_stream and is_whole):
                    pool.give_back(connection)

    def _look_at_context(self) -> None:
        """Let connections that were made with former certificates carry no further request."""
        if self._contexts is None:
            return
        context = self._contexts.current()
        if context is not self._context:
            if self._context is not None:
                self._pool.renew()
            self._context = context

    def _lines_of(self, headers: Pairs) -> bytes:
        """Headers as bytes: they are the same for thousands of requests. Raises Unsendable."""
        lines = self._lines.get(headers)
        if lines is None:
            if len(self._lines) >= _LINES_MAX:
                self._lines.clear()
            lines = self._lines[headers] = header_lines((*self._own, *headers))
        return lines


class ResponseStream:
    """The answer to a watch. close() is needed at every end."""

    def __init__(self, connection: Connection, head: ResponseHead, pool: Pool, place: str) -> None:
        """Raises Malformed for a body that is packed in an unknown way."""
        self._connection, self._head, self._pool, self._place = connection, head, pool, place
        self._is_over = False
        try:
            self._decoder = _decoder(head)
        except Malformed:
            self.close()
            raise

    @property
    def status(self) -> int:
        return self._head.status

    @property
    def headers(self) -> Headers:
        return self._head.headers

    async def chunk(self, timeout_s: float) -> bytes:
        if self._is_over:
            return b""
        timer = asyncio.get_running_loop().call_later(timeout_s, self._connection.give_up)
        try:
            data = await self._some()
        except TimeoutError:
            raise Unreachable(
                f"{self._place} neither sent anything nor ended the watch when its time was over"
            ) from None
        except _FAULTS as error:
            raise Unreachable(_reason(error, self._place)) from None
        finally:
            timer.cancel()
        if not data:
            self.close()
        return data

    def close(self) -> None:
        """The connection is kept if the body was read to its end."""
        if not self._is_over:
            self._is_over = True
            self._pool.give_back(self._connection)

    async def _some(self) -> bytes:
        decoder = self._decoder
        if decoder is None:
            return await self._connection.some()
        is_new = False
        while not (piece := decoder.some(_UNPACKED_MAX)):
            data = await self._connection.some()
            if not data:
                decoder.end()
                return b""
            decoder.put(data)
            is_new = True
        if not is_new:
            await LoopClock().sleep(0)  # (it lay ready: others have their turn first)
        return piece


def place_of(config: ClusterConfig) -> str:
    """The server as messages name it."""
    proxy = f" through the proxy {urlsplit(config.proxy).hostname}" if config.proxy else ""
    return f"{config.server}{proxy} ({config.source})"


def _proxy(url: str, contexts: TlsContexts | None) -> Proxy:
    """The proxy. TLS to it is checked as that to the server is; where that has none, by the system's authorities."""
    parts = urlsplit(url)
    context: ContextMaker | None = None
    if parts.scheme == "https":
        context = contexts.current if contexts is not None else lambda: client_context(Tls())
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        authorization = f"Basic {base64.b64encode(pair).decode()}"
    return Proxy(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], authorization, context)


def _host_header(server: str) -> str:
    parts = urlsplit(server)
    return parts.netloc.removesuffix(f":{_DEFAULT_PORTS[parts.scheme]}")


def _decoder(head: ResponseHead) -> Gunzip | None:
    return decoder_of(head.headers.get("Content-Encoding", ""))


def _unpacked(head: ResponseHead, body: bytes) -> bytes:
    """Raises TooLarge, and Malformed for what can't be unpacked."""
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge
    decoder = _decoder(head)
    if decoder is None or not body:
        return body
    unpacked = decoder.feed(body, BODY_BYTES_MAX)
    decoder.end()
    return unpacked


_FAULTS: Final = (DialError, BrokenOff, Malformed, Unsendable, TooLarge, Closed)


def _reason(error: Exception, place: str) -> str:
    """The error, its place, and the next thing to look at."""
    cause = error.reason if isinstance(error, DialError) else error
    tls = tls_reason(cause)
    if tls:
        return f"TLS with {place}: {tls}"
    match cause:
        case Closed():
            return str(cause)
        case Unsendable():
            return f"the request to {place} can't be sent: {cause}"
        case Malformed():
            return f"the answer from {place} is no HTTP: {cause}"
        case BrokenOff(has_head=True):
            return f"the answer from {place} broke off"
        case BrokenOff():
            detail = _detail(cause.__cause__)
            return f"the connection to {place} broke before the answer was there{f': {detail}' if detail else ''}"
        case DialTimeout():
            return f"no connection to {place} within {DIAL_TIMEOUT_S:g} s"
        case socket.gaierror():
            return f"the host name of {place} can't be resolved"
        case ConnectionRefusedError():
            return f"no connection to {place}: nothing listens there; does the API server run, and on this port?"
        case ConnectionResetError():
            return (
                f"no connection to {place}: the server closed it at once; if it speaks TLS, check the client "
                "certificate"
            )
    return f"no connection to {place}: {_detail(cause) or type(cause).__name__}"


def _detail(error: BaseException | None) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "" if error is None else str(error)
