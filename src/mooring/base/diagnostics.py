"""A tiny HTTP server for /metrics and the health probes.

No library's server: every sidecar has this one, and aiohttp's would cost several MiB of its memory budget (decision
0003). Kubelet and Prometheus need no more than GET and HEAD of a fixed list of paths. Everything is bounded, since the
address is often open to the whole cluster: one request a connection, 8 KiB of request line and headers, ten seconds a
connection, 64 connections. One more is always let in, so that nobody can keep a probe out: in its place the address
that holds most loses a connection, the oldest that has asked nothing first.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from mooring.base.errors import ConfigError
from mooring.base.log import logger

_log = logger(__name__)

HEALTHZ: Final = "/healthz"
READYZ: Final = "/readyz"

HEADER_BYTES_MAX: Final = 8 * 1024
CONNECTION_S_MAX: Final = 10.0
CONNECTIONS_MAX: Final = 64
_BACKLOG: Final = 128
_ACCEPTED_AT_ONCE: Final = 16
"""New connections in one turn of asyncio's loop, which has one number for this and the backlog."""
_UNREAD_BYTES_MAX: Final = 64 * 1024
_NETWORK_BYTES: Final = 8
"""This part of an IPv6 address is counted as one host: a client that has one address has the whole network."""
_MAPPED: Final = bytes(10) + b"\xff\xff"
"""The network of IPv4 addresses on a socket that takes both."""

TEXT: Final = "text/plain; charset=utf-8"
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """An answer. status: HTTP's number."""

    status: int
    body: bytes | str = ""
    content_type: str = TEXT


Route = Callable[[], Awaitable[Reply]]


@dataclasses.dataclass(slots=True, eq=False)
class _Connection:
    """An open connection. address: the client's, an IPv6 network of one client as one."""

    task: asyncio.Task[None]
    address: str
    has_asked: bool = False


class Diagnostics:
    """The server. routes: path to what answers it; a path may be added later, until then it is 404. any_method: POST
    counts as GET does. connection_s: how long a connection may last.
    """

    def __init__(
        self, routes: Mapping[str, Route], *, any_method: bool = False, connection_s: float = CONNECTION_S_MAX
    ) -> None:
        self._routes = routes
        self._any_method, self._connection_s = any_method, connection_s
        self._server: asyncio.Server | None = None
        self._connections: dict[_Connection, None] = {}  # the oldest first
        self._is_crowded = False

    async def start(self, address: str) -> tuple[str, int]:
        """Listens, gives host and port. address: `:8080` (all interfaces), `[::1]:80`, `localhost:80`. Raises
        ConfigError that names it.
        """
        assert self._server is None, "started twice"
        host, port = split_address(address)
        try:
            listener = await listening_socket(host, port)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
            raise ConfigError(
                f'cannot listen on "{address}": {reason}; choose another address or free this one'
            ) from error
        bound: tuple[str, int] = listener.getsockname()[:2]
        self._server = await asyncio.start_server(
            self._serve, sock=listener, limit=HEADER_BYTES_MAX, backlog=_ACCEPTED_AT_ONCE
        )
        listener.listen(_BACKLOG)
        _log.info(2, "Diagnostics server listens", address=f"{bound[0]}:{bound[1]}")
        return bound

    async def close(self) -> None:
        """Stops listening and cuts what is open. Harmless twice."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        tasks = [connection.task for connection in self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, in a task that asyncio's server made for it."""
        task = asyncio.current_task()
        assert task is not None
        task.set_name("diagnostics/connection")
        self._make_room()
        connection = _Connection(task, _client(writer.get_extra_info("peername")))
        self._connections[connection] = None
        try:
            async with asyncio.timeout(self._connection_s):
                await self._exchange(connection, reader, writer)
        except (TimeoutError, OSError):
            writer.transport.abort()
        except asyncio.CancelledError:
            writer.transport.abort()  # close() ends us; to the stream machinery this task has simply finished
        finally:
            self._connections.pop(connection, None)
            writer.close()

    def _make_room(self) -> None:
        """Cuts a connection where there are too many. Told once, until half are gone: who floods the port must not
        flood the log.
        """
        if len(self._connections) < CONNECTIONS_MAX:
            self._is_crowded = self._is_crowded and len(self._connections) > CONNECTIONS_MAX // 2
            return
        if not self._is_crowded:
            _log.info(2, "Too many diagnostics connections, the oldest are cut", limit=CONNECTIONS_MAX)
        self._is_crowded = True
        held = Counter(connection.address for connection in self._connections)
        most = max(held.values())
        cut = min(
            (one for one in self._connections if held[one.address] == most), key=lambda one: one.has_asked
        )  # (the first of equals)
        del self._connections[cut]
        cut.task.cancel()

    async def _exchange(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return  # the client left, or opened the port only to see that it is open
        except asyncio.LimitOverrunError:
            method, reply, is_whole = "", Reply(431, "request line and headers are too long\n"), False
        else:
            connection.has_asked = True
            method, path = _request(head)
            reply, is_whole = await self._reply(method, path), method in ("GET", "HEAD")
        writer.write(_rendered(reply, with_body=method != "HEAD"))
        await writer.drain()
        if not is_whole:
            await _read_away(reader, writer)

    async def _reply(self, method: str, path: str) -> Reply:
        if not method:
            return Reply(400, "bad request\n")
        route = self._routes.get(path)
        if route is None:
            return Reply(404, "404 page not found\n")
        if method not in ("GET", "HEAD") and not self._any_method:
            return Reply(405, "only GET and HEAD are allowed\n")
        try:
            return await route()
        except Exception as error:
            _log.error("Diagnostics request failed", error=error, path=path)
            return Reply(500, "internal server error\n")


def _client(peer: tuple[Any, ...] | None) -> str:
    """The address whose share a connection counts to. peer: as the socket gives it, None for one that is gone
    already.
    """
    if peer is None:
        return ""
    host = str(peer[0]).partition("%")[0]
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host)
    return packed.hex() if packed.startswith(_MAPPED) else packed[:_NETWORK_BYTES].hex()


def _request(head: bytes) -> tuple[str, str]:
    """Method and path without the query; ("", "") for what is no HTTP/1 request."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if (
        len(words) != 3
        or not words[2].startswith(b"HTTP/1.")
        or not words[0].isalpha()
        or not words[1].startswith(b"/")
    ):
        return "", ""
    return words[0].decode("ascii"), words[1].partition(b"?")[0].decode("latin-1")


def _rendered(reply: Reply, *, with_body: bool) -> bytes:
    body = reply.body.encode() if isinstance(reply.body, str) else reply.body
    head = f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}\r\nContent-Type: {reply.content_type}\r\n"
    head += f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n"
    if reply.status == HTTPStatus.METHOD_NOT_ALLOWED:
        head += "Allow: GET, HEAD\r\n"
    return head.encode("latin-1") + b"\r\n" + (body if with_body else b"")


async def _read_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes what a refused client still sends: closing on unread bytes resets the connection, and the answer would be
    lost with it.
    """
    if writer.can_write_eof():
        writer.write_eof()
    left = _UNREAD_BYTES_MAX
    while left > 0 and (chunk := await reader.read(HEADER_BYTES_MAX)):
        left -= len(chunk)


def split_address(address: str) -> tuple[str, int]:
    """Host ("" for all interfaces) and port. Raises ConfigError that names the address."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed) or not (port.isascii() and port.isdecimal()) or int(port) > 65535:
        raise ConfigError(
            f'"{address}" is no address to listen on; it has the form host:port, as in :8080, 127.0.0.1:8080 '
            "or [::1]:8080"
        )
    return host[1:-1] if bracketed else host, int(port)


async def listening_socket(host: str, port: int) -> socket.socket:
    """A listening socket; for all interfaces it takes IPv6 and IPv4, or IPv4 alone where there is no IPv6. Raises
    OSError.
    """
    if not host:
        if socket.has_dualstack_ipv6():
            try:
                return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
        return socket.create_server(("", port), backlog=_BACKLOG)
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, where = min(found, key=lambda entry: entry[0] != socket.AF_INET)  # IPv4 first, as Go does
    return socket.create_server((str(where[0]), port), family=family, backlog=_BACKLOG)
