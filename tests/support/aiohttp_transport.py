"""The API client's transport on aiohttp, as it was before the project spoke HTTP itself: the same tests hold both to
each other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import aiohttp
from yarl import URL

from mooring.kube.client.config import ClusterConfig
from mooring.kube.client.responses import Headers, Response
from mooring.kube.client.retrying import Pairs
from mooring.kube.client.tls import TlsContexts, tls_reason
from mooring.kube.client.transport import place_of
from mooring.kube.errors import AnswerTooLarge, NoAnswer, Unreachable

BODY_BYTES_MAX: Final = 256 * 2**20
_HEADER_BYTES_MAX: Final = 64 * 1024
_READ_BUFFER_BYTES: Final = 256 * 1024
_IDLE_S: Final = (
    60.0  # below the 90 s after which an API server drops an idle connection, so that we seldom meet a closed one
)
_PROBE_AFTER_S: Final = (
    30  # of silence; then three probes 10 s apart: a dead host is noticed in a minute, on an idle watch too
)
_PROBE_EVERY_S: Final = 10
_PROBE_COUNT: Final = 3


class AiohttpTransport:
    """Carries requests over aiohttp's connection pool, and tells its many errors as one, `Unreachable`."""

    def __init__(self, config: ClusterConfig, contexts: TlsContexts | None) -> None:
        """contexts: None for a server without TLS."""
        self._base = config.server
        self._server = URL(config.server, encoded=True)
        self._prefix = self._server.raw_path.rstrip("/")
        self._contexts = contexts
        self._server_name = config.tls.server_name or None
        self._proxy = URL(config.proxy) if config.proxy else None
        self._place = place_of(config)
        self._session: aiohttp.ClientSession | None = None
        self._open: set[aiohttp.ClientResponse] = set()
        self._closed = False

    async def request(self, method: str, path: str, headers: Pairs, body: bytes | None, timeout_s: float) -> Response:
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._send(method, path, headers, body)
                self._open.add(response)
                try:
                    return Response(response.status, response.headers, await _body(response))
                finally:
                    self._open.discard(response)
        except TimeoutError:
            raise Unreachable(f"no answer from {self._place} to {method} within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                _reason(error, self._place)
            ) from None  # some of aiohttp's errors carry the request's headers

    async def stream(self, path: str, headers: Pairs, timeout_s: float) -> ResponseStream:
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._send("GET", path, headers, None)
                self._open.add(response)
                return ResponseStream(response, self._place, self._open.discard)
        except TimeoutError:
            raise NoAnswer(f"no answer from {self._place} to a watch within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(
                _reason(error, self._place)
            ) from None  # some of aiohttp's errors carry the request's headers

    async def close(self) -> None:
        """Who reads a body is told first: aiohttp closes connections without waking their readers."""
        self._closed = True
        for response in tuple(self._open):
            _drop(response)
        if self._session is not None:
            await self._session.close()

    async def _send(self, method: str, path: str, headers: Pairs, body: bytes | None) -> aiohttp.ClientResponse:
        """The answer's head."""
        session = self._session
        if session is None or session.closed:
            session = self._opened()
        return await session.request(
            method,
            self._url(path),
            headers=headers,
            data=body,
            allow_redirects=False,
            ssl=self._contexts.current() if self._contexts else True,
            server_hostname=self._server_name,
            proxy=self._proxy,
            middlewares=_ONCE if method in _SENT_AGAIN_BY_AIOHTTP else None,
        )

    def _url(self, path: str) -> URL:
        """with_path is the cheap way, for it knows no query."""
        if "?" in path:
            return URL(self._base + path, encoded=True)
        return self._server.with_path(self._prefix + path, encoded=True)

    def _opened(self) -> aiohttp.ClientSession:
        """The session; it wants a running loop, so it is made with the first request."""
        if self._closed:
            raise Unreachable("the client is closed")
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S, socket_factory=_probing_socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # ours is around the whole
            read_bufsize=_READ_BUFFER_BYTES,
            max_field_size=_HEADER_BYTES_MAX,
            trust_env=False,
        )
        return self._session


class ResponseStream:
    """The answer to a watch. close() is needed at every end."""

    def __init__(
        self, response: aiohttp.ClientResponse, place: str, on_close: Callable[[aiohttp.ClientResponse], None]
    ) -> None:
        self._response = response
        self._place = place
        self._on_close = on_close

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    async def chunk(self, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._response.content.readany()
        except TimeoutError:
            raise Unreachable(
                f"{self._place} neither sent anything nor ended the watch when its time was over"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(
                _reason(error, self._place)
            ) from None  # some of aiohttp's errors carry the request's headers

    def close(self) -> None:
        self._on_close(self._response)
        _drop(self._response)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body; its end gives the connection back. Raises Unreachable for one beyond the bound."""
    parts, length = [], 0
    try:
        while part := await response.content.readany():
            length += len(part)
            if length > BODY_BYTES_MAX:
                raise AnswerTooLarge(f"the answer is larger than {BODY_BYTES_MAX} bytes; ask for pages (limit)")
            parts.append(part)
    except BaseException:
        _drop(response)
        raise
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _drop(response: aiohttp.ClientResponse) -> None:
    """Ends the connection at once, if the body was not read to its end. A polite TLS farewell would linger for half a
    minute.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class _Broken(aiohttp.ClientError):
    """A connection that broke, under a name for which aiohttp does not send again."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keeps aiohttp from repeating a write when the connection breaks: a PUT that took effect would meet itself as a
    conflict.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Broken from error


_SENT_AGAIN_BY_AIOHTTP: Final = frozenset(("PUT", "DELETE"))
_ONCE: Final = (_send_once,)


def _probing_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that detects a dead peer by itself, also while nothing is written."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER_S),
        ("TCP_KEEPINTVL", _PROBE_EVERY_S),
        ("TCP_KEEPCNT", _PROBE_COUNT),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return connection


def _reason(error: Exception, place: str) -> str:
    """The error, its place, and the next thing to look at."""
    tls = tls_reason(error)
    if tls:
        return f"TLS with {place}: {tls}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name of {place} can't be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"no connection to {place}: the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error, ConnectionRefusedError):
            return f"no connection to {place}: nothing listens there; does the API server run, and on this port?"
        if isinstance(error.os_error, ConnectionResetError):
            return (
                f"no connection to {place}: the server closed it at once; if it speaks TLS, check the client "
                "certificate"
            )
        return f"no connection to {place}: {error.os_error.strerror or error.os_error}"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer from {place} is no HTTP"
    if isinstance(error, aiohttp.ClientPayloadError):
        return f"the answer from {place} broke off"
    detail = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
    return f"the connection to {place} broke before the answer was there{detail}"
