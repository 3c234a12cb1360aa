"""A connection to a server from nothing: its socket, a proxy's tunnel, TLS."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from mooring.wire.http1.connection import ByteTransport, Connection, ConnectionOwner
from mooring.wire.http1.plain_transport import PlainTransport
from mooring.wire.http1.requests import header_lines, request_bytes
from mooring.wire.http1.responses import ResponseReader
from mooring.wire.http1.sockets import open_socket
from mooring.wire.http1.syntax import BrokenOff, Malformed
from mooring.wire.http1.tls_transport import READ_BYTES, TlsTransport

ContextMaker = Callable[[], ssl.SSLContext]
"""Gives TLS' context for a connection that is made now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """host: a name, or an address without brackets. authorization: the header Proxy-Authorization. context: None for
    one without TLS.
    """

    host: str
    port: int
    authorization: str = dataclasses.field(default="", repr=False)
    context: ContextMaker | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """host: a name, or an address without brackets. server_name: what its certificate must be for. context: None for
    one without TLS.
    """

    host: str
    port: int
    server_name: str = ""
    context: ContextMaker | None = None


class _Receiver(Protocol):
    """`Connection` or `_Tunnel`, at the end of any link."""

    def connected(self, link: ByteTransport) -> None: ...

    def secured(self) -> None: ...

    def received(self, data: bytes) -> None: ...

    def writable(self, yes: bool) -> None: ...

    def lost(self) -> None: ...


class Dialer:
    """Makes connections to one server. TLS goes through a proxy in a tunnel; a proxy to a server without TLS is asked
    for whole URLs.
    """

    def __init__(self, server: Server, proxy: Proxy | None = None) -> None:
        self._server, self._proxy = server, proxy
        self._buffer: Final = memoryview(bytearray(READ_BYTES))

    async def dial(self, owner: ConnectionOwner, generation: int) -> Connection:
        """A connection that takes requests. Raises OSError (ssl.SSLError is one), ValueError (Malformed, BrokenOff),
        ProxyRefused.
        """
        connection = Connection(owner, generation)
        tunnel: _Tunnel | None = None
        server, proxy = self._server, self._proxy
        try:
            if proxy is None:
                await self._reach(connection, server.host, server.port, server.context, server.server_name)
            elif server.context is None:
                await self._reach(connection, proxy.host, proxy.port, proxy.context)
            else:
                tunnel = _Tunnel()
                await self._reach(tunnel, proxy.host, proxy.port, proxy.context)
                await tunnel.open(_connect_request(server, proxy))
                tunnel.carry(self._tls(connection, server.context, server.server_name or server.host))
            await connection.secure()
        except BaseException:
            (tunnel or connection).abort()
            raise
        return connection

    async def _reach(
        self, receiver: _Receiver, host: str, port: int, context: ContextMaker | None, server_name: str = ""
    ) -> None:
        """A socket to the host becomes the receiver's link; TLS' handshake begins."""
        link = (
            PlainTransport(receiver, self._buffer)
            if context is None
            else self._tls(receiver, context, server_name or host)
        )
        opened = await open_socket(host, port)
        try:
            await asyncio.get_running_loop().create_connection(lambda: link, sock=opened)
        except BaseException:
            opened.close()
            raise

    def _tls(self, receiver: _Receiver, context: ContextMaker, server_name: str) -> TlsTransport:
        return TlsTransport(context(), receiver, self._buffer, is_client=True, server_name=server_name.rstrip("."))


def _connect_request(server: Server, proxy: Proxy) -> bytes:
    host = f"[{server.host}]" if ":" in server.host else server.host
    place = f"{host}:{server.port}"
    own = (("Proxy-Authorization", proxy.authorization),) if proxy.authorization else ()
    return request_bytes("CONNECT", place, header_lines((("Host", place), *own)))


class ProxyRefused(Exception):
    """The proxy makes no connection. status, reason: its answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the proxy answered {status} {reason}".rstrip())
        self.status, self.reason = status, reason


class _Tunnel:
    """The receiver of a connection to a proxy."""

    def __init__(self) -> None:
        self._link: ByteTransport | None = None
        self._inner: TlsTransport | None = None
        self._reader = ResponseReader("CONNECT")
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._is_secured = False

    async def open(self, request: bytes) -> None:
        """Asks the proxy for the connection. Raises ProxyRefused, Malformed, BrokenOff, OSError."""
        if not self._is_secured:
            await self._wait()
        if self._link is not None:
            self._link.write(request)
        if self._reader.head is None:
            await self._wait()
        head = self._reader.head
        assert head is not None
        if not 200 <= head.status < 300:
            raise ProxyRefused(head.status, head.reason)

    def carry(self, inner: TlsTransport) -> None:
        """From now on all bytes are for this transport. Raises OSError when the proxy has gone."""
        if self._link is None:
            raise self._failure or ConnectionResetError()
        self._inner = inner
        inner.connection_made(self._link)

    def abort(self) -> None:
        """Breaks it."""
        if self._link is not None:
            self._link.abort()

    # what the link says

    def connected(self, link: ByteTransport) -> None:
        self._link = link

    def secured(self) -> None:
        self._is_secured = True
        self._wake()

    def received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)
            return
        try:
            self._reader.feed(data)
        except Malformed as error:
            self._fail(error)
            return
        if self._reader.head is not None:
            self._wake()

    def writable(self, yes: bool) -> None:
        if self._inner is not None:
            self._inner.resume_writing() if yes else self._inner.pause_writing()

    def lost(self) -> None:
        link, self._link = self._link, None
        assert link is not None
        if self._inner is not None:
            self._inner.connection_lost(link.failure)
            return
        failure = link.failure or ConnectionResetError()
        if self._is_secured:
            failure = BrokenOff(has_begun=self._reader.has_begun, has_head=False)
            failure.__cause__ = link.failure
        self._fail(failure)

    # inside

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._failure)
        self.abort()
