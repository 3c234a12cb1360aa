"""An HTTP server that answers each request as it was told to: rightly, wrongly, late, half, or not at all.

Bytes are written by hand, so that nothing stands in the way of breaking the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from mooring.kube.client.config import ClusterConfig, Pem, Tls
from tests.unit.kube.certificates import authority_pem


@dataclasses.dataclass(frozen=True)
class Request:
    """connection: numbers the connections from 0. headers: names in lower case; repeated ones joined by ", "."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """What a move does its mischief with."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number

    async def send(self, *chunks: bytes) -> None:
        """Each chunk in a packet of its own, as far as the kernel plays along."""
        for chunk in chunks:
            self.writer.write(chunk)
            await self.writer.drain()
            await asyncio.sleep(0)

    def reset(self) -> None:
        """The connection ends without a farewell."""
        self.writer.transport.abort()


Move = Callable[[Connection], Awaitable[bool]]
"""Answers one request. True: the connection stays open for the next."""


def answer(status: int, body: object = b"", *, content_type: str = "application/json", **headers: str) -> Move:
    """A right answer. body: bytes as they are, all else as JSON. headers: underscores for hyphens."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def move(connection: Connection) -> bool:
        head = f"HTTP/1.1 {status} Some Phrase\r\nContent-Type: {content_type}\r\nContent-Length: {len(encoded)}\r\n"
        head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        await connection.send(head.encode() + b"\r\n" + encoded)
        return True

    return move


def refusal(code: int, reason: str, message: str, details: dict[str, Any] | None = None, **headers: str) -> Move:
    """A Status, as the API server answers."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return answer(code, {**status, "details": details} if details else status, **headers)


def raw(*chunks: bytes, hang: bool = False) -> Move:
    """Bytes, and then the end of the connection, or silence."""

    async def move(connection: Connection) -> bool:
        await connection.send(*chunks)
        if hang:
            await connection.reader.read()
        return False

    return move


def silence() -> Move:
    return raw(hang=True)


def reset() -> Move:
    async def move(connection: Connection) -> bool:
        connection.reset()
        return False

    return move


def stream(*chunks: bytes, end: str = "clean", status: int = 200, content_type: str = "application/json") -> Move:
    """A chunked answer.

    end: clean (the closing chunk), cut (the connection ends without it), hang (nothing more comes), open (left to the
    caller).
    """

    async def move(connection: Connection) -> bool:
        head = f"HTTP/1.1 {status} Some Phrase\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
        await connection.send(head.encode(), *(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks if chunk))
        if end == "clean":
            await connection.send(b"0\r\n\r\n")
        elif end == "hang":
            await connection.reader.read()
        return end == "clean"

    return move


class BadServer:
    """moves: what happens to the next requests, in order; `otherwise` to all after them."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.moves: deque[Move] = deque()
        self.otherwise: Move = refusal(404, "NotFound", "nothing was planned")
        self.connection_count = 0
        self.url = ""

    def plan(self, *moves: Move) -> None:
        self.moves.extend(moves)

    def config(self, **changes: Any) -> ClusterConfig:
        tls = Tls(Pem("the test's authority", data=authority_pem())) if self.url.startswith("https:") else Tls()
        return ClusterConfig(**{"server": self.url, "tls": tls, **changes})

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self.connection_count)
        self.connection_count += 1
        try:
            while request := await _read(reader, connection.number):
                self.requests.append(request)
                move = self.moves.popleft() if self.moves else self.otherwise
                if not await move(connection):
                    break
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass  # the client went away
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader, number: int) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")[:-2]
    method, path, _ = first.split(" ")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, body, number)


@contextlib.asynccontextmanager
async def bad_server(tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[BadServer]:
    """A server on a port of its own, ended with all its connections."""
    bad = BadServer()
    running: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        task.add_done_callback(running.discard)
        await bad.serve(reader, writer)

    server = await asyncio.start_server(serve, host, 0, ssl=tls, limit=2**20)
    port = server.sockets[0].getsockname()[1]
    bad.url = f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        yield bad
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
