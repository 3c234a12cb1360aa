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
from mooring.wire.http1.sockets import open_socket
from mooring.wire.http1.tls_transport import READ_BYTES, TlsTransport
from mooring.wire.http1.tunnel import Tunnel

ContextMaker = Callable[[], ssl.SSLContext]
"""Gives TLS' context for a connection that is made now."""


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """host: a name, or an address without brackets. authorization: the header Proxy-Authorization. context: None for one without TLS."""

    host: str
    port: int
    authorization: str = dataclasses.field(default="", repr=False)
    context: ContextMaker | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """host: a name, or an address without brackets. server_name: what its certificate must be for. context: None for one without TLS."""

    host: str
    port: int
    server_name: str = ""
    context: ContextMaker | None = None


class _Receiver(Protocol):
    """`Connection` or `Tunnel`, at the end of any link."""

    def connected(self, link: ByteTransport) -> None: ...

    def secured(self) -> None: ...

    def received(self, data: bytes) -> None: ...

    def writable(self, yes: bool) -> None: ...

    def lost(self) -> None: ...


class Dialer:
    """Makes connections to one server. TLS goes through a proxy in a tunnel; a proxy to a server without TLS is asked for whole URLs."""

    def __init__(self, server: Server, proxy: Proxy | None = None) -> None:
        self._server, self._proxy = server, proxy
        self._buffer: Final = memoryview(bytearray(READ_BYTES))

    async def dial(self, owner: ConnectionOwner, generation: int) -> Connection:
        """A connection that takes requests. Raises OSError (ssl.SSLError is one), ValueError (Malformed, BrokenOff), ProxyRefused."""
        connection = Connection(owner, generation)
        tunnel: Tunnel | None = None
        server, proxy = self._server, self._proxy
        try:
            if proxy is None:
                await self._reach(connection, server.host, server.port, server.context, server.server_name)
            elif server.context is None:
                await self._reach(connection, proxy.host, proxy.port, proxy.context)
            else:
                tunnel = Tunnel()
                await self._reach(tunnel, proxy.host, proxy.port, proxy.context)
                await tunnel.open(_connect_request(server, proxy))
                tunnel.carry(self._tls(connection, server.context, server.server_name or server.host))
            await connection.secure()
        except BaseException:
            (tunnel or connection).abort()
            raise
        return connection

    async def _reach(self, receiver: _Receiver, host: str, port: int, context: ContextMaker | None, server_name: str = "") -> None:
        """A socket to the host becomes the receiver's link; TLS' handshake begins."""
        link = PlainTransport(receiver, self._buffer) if context is None else self._tls(receiver, context, server_name or host)
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
