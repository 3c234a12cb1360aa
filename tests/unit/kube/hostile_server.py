"""A server that is told byte by byte what to do, with or without TLS; TLS is made by hand, so that it may be done
wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

from mooring.base.clock import LoopClock
from mooring.kube.client.config import ClusterConfig, Pem, Tls
from mooring.kube.client.responses import Response
from mooring.kube.client.retrying import BodyStream
from mooring.kube.client.tls import TlsContexts
from mooring.kube.client.transport import HttpTransport
from mooring.kube.errors import Unreachable
from tests.unit.kube.certificates import authority_pem

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"


class Wire:
    """One connection, from the server's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.raw_reader, self.raw_writer, self.number = reader, writer, number
        self.requests: list[bytes] = []
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        self._read = b""

    async def secure(self, context: ssl.SSLContext) -> None:
        """The server's half of a handshake."""
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            else:
                await self._flush()
                return

    async def farewell(self) -> None:
        """TLS' own end of the stream."""
        assert self._tls is not None
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()

    async def request(self) -> bytes:
        """The next request, its body included."""
        while b"\r\n\r\n" not in self._read:
            await self._more()
        head, _, rest = self._read.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        while len(rest) < length:
            await self._more()
            rest = self._read.partition(b"\r\n\r\n")[2]
        self._read = rest[length:]
        self.requests.append(head)
        return head

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            if self._tls is None:
                self.raw_writer.write(part)
                await self.raw_writer.drain()
            else:
                self._tls.write(part)
                await self._flush()
            await asyncio.sleep(0)

    async def send_raw(self, data: bytes) -> None:
        """Past TLS."""
        self.raw_writer.write(data)
        await self.raw_writer.drain()

    async def until_gone(self) -> None:
        """Waits until the client has gone."""
        while await self.raw_reader.read(65536):
            pass

    def reset(self) -> None:
        """Breaks the connection, so that the client hears of a reset and of no end."""
        self.raw_writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.raw_writer.transport.abort()

    async def _more(self) -> None:
        if self._tls is None:
            data = await self.raw_reader.read(65536)
            if not data:
                raise ConnectionResetError
            self._read += data
            return
        try:
            self._read += self._tls.read(65536)
        except ssl.SSLWantReadError:
            await self._fill()

    async def _fill(self) -> None:
        data = await self.raw_reader.read(65536)
        if not data:
            raise ConnectionResetError
        self._incoming.write(data)

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self.raw_writer.write(self._outgoing.read())
            await self.raw_writer.drain()


Act = Callable[[Wire], Awaitable[None]]


async def behave(wire: Wire) -> None:
    """Answers each request well."""
    while True:
        await wire.request()
        await wire.send(GOOD)


class HostileServer:
    """acts: what happens on the next connections, in order; `otherwise` on all after them. context: for TLS before the
    act.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.acts: deque[Act] = deque()
        self.otherwise: Act = behave
        self.wires: list[Wire] = []
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self._came = asyncio.Event()

    @property
    def requests(self) -> list[bytes]:
        return [request for wire in self.wires for request in wire.requests]

    async def has_connections(self, count: int) -> None:
        """Waits until that many have come."""
        while len(self.wires) < count:
            self._came.clear()
            await self._came.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer, len(self.wires))
        self.wires.append(wire)
        self._came.set()
        act = self.acts.popleft() if self.acts else self.otherwise
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            if self.context is not None:
                await wire.secure(self.context)
            await act(wire)
        except (OSError, asyncio.CancelledError):
            pass  # (the client went away, or the test is over)
        finally:
            writer.close()
            self.tasks.discard(task)


@contextlib.asynccontextmanager
async def hostile_server(context: ssl.SSLContext | None = None) -> AsyncIterator[HostileServer]:
    hostile = HostileServer(context)
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0, limit=2**20)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        for task in tuple(hostile.tasks):
            task.cancel()
        if hostile.tasks:
            await asyncio.wait(hostile.tasks)


@contextlib.asynccontextmanager
async def a_transport(server: HostileServer, *, tls: bool | None = None) -> AsyncIterator[HttpTransport]:
    """A client of that server, which leaves no task behind. tls: None where the server's own `context` says so."""
    secure = server.context is not None if tls is None else tls
    config = ClusterConfig(
        server=f"http{'s' if secure else ''}://127.0.0.1:{server.port}",
        tls=Tls(Pem("the test's authority", data=authority_pem())) if secure else Tls(),
    )
    before = asyncio.all_tasks() | server.tasks
    transport = HttpTransport(config, TlsContexts(config.tls, LoopClock()) if secure else None)
    try:
        yield transport
    finally:
        await transport.close()
        assert set() == asyncio.all_tasks() - before - server.tasks


async def ask(
    transport: HttpTransport, method: str = "GET", path: str = "/", timeout_s: float = 20.0
) -> Response | str:
    """The answer, or the words of the fault. A watch is read to its end."""
    try:
        if method == "WATCH":
            return await read(await transport.stream(path, (), timeout_s))
        return await transport.request(method, path, (), None if method == "GET" else b"{}", timeout_s)
    except Unreachable as error:
        return str(error)


async def read(stream: BodyStream, timeout_s: float = 20.0) -> Response | str:
    parts = []
    try:
        while data := await stream.chunk(timeout_s):
            parts.append(data)
    except Unreachable as error:
        return str(error)
    finally:
        stream.close()
    return Response(stream.status, stream.headers, b"".join(parts))
