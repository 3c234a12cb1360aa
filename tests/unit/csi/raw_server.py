"""A server that speaks as much HTTP/2 as it takes to answer a gRPC call, also wrongly: what grpcio's own server refuses
to send.

It looks at no header, so every call to any method gets the same answer. As a program it is the server for measuring the
client:

    python -m tests.unit.csi.raw_server PATH
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

PREFACE_LENGTH = 24
DATA, HEADERS, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0x0, 0x1, 0x4, 0x6, 0x7, 0x8
END_STREAM, END_HEADERS, ACK = 0x1, 0x4, 0x1
MANY = 2**30


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """One field as HPACK's literal without indexing. name, value: under 127 bytes."""
    assert max(len(name), len(value)) < 127
    return b"\x00" + bytes((len(name),)) + name + bytes((len(value),)) + value


def answer(
    stream: int, *, message: bytes | None = b"", status: bytes | None = b"0", text: bytes | None = None
) -> bytes:
    """A gRPC answer. message: the body, None for none. status, text: the trailers grpc-status and grpc-message, as they
    are.
    """
    out = frame(HEADERS, END_HEADERS, stream, b"\x88" + header(b"content-type", b"application/grpc"))
    if message is not None:
        out += frame(DATA, 0, stream, b"\x00" + struct.pack(">I", len(message)) + message)
    trailers = b"" if status is None else header(b"grpc-status", status)
    if text is not None:
        trailers += header(b"grpc-message", text)
    return out + frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers)


def going_away(stream: int) -> bytes:
    """Says that no request was looked at, and none will be."""
    return frame(GOAWAY, 0, 0, bytes(8))


Reply = Callable[[int], bytes | None]


class RawServer:
    """reply: makes the bytes for a stream; b"" cuts the connection, None leaves the call without an answer."""

    def __init__(self) -> None:
        self.reply: Reply = answer
        self.connections: set[asyncio.Transport] = set()


class _Connection(asyncio.Protocol):
    def __init__(self, server: RawServer) -> None:
        self._server = server
        self._received = b""
        self._skip = PREFACE_LENGTH

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._server.connections.add(self._transport)
        settings = struct.pack(">HIHI", 3, 1000, 4, MANY)  # streams at once, and how much each may send
        transport.write(frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", MANY)))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        received, at, out = self._received + data, self._skip, b""
        while len(received) >= at + 9:
            size, kind, flags = int.from_bytes(received[at : at + 3]), received[at + 3], received[at + 4]
            stream = int.from_bytes(received[at + 5 : at + 9])
            if len(received) < at + 9 + size:
                break
            if kind in (SETTINGS, PING) and not flags & ACK:
                out += frame(kind, ACK, 0, received[at + 9 : at + 9 + size] if kind == PING else b"")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                reply = self._server.reply(stream)
                if reply == b"":
                    self._transport.abort()
                out += reply or b""
            at += 9 + size
        self._received, self._skip = received[at:], max(0, at - len(received))
        self._transport.write(out)


@asynccontextmanager
async def raw_server(path: Path) -> AsyncIterator[RawServer]:
    """Listens as long as the block runs; then its connections break."""
    server = RawServer()
    kept: dict[str, bool] = (
        {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
    )  # as the socket of a driver that was killed
    listener = await asyncio.get_running_loop().create_unix_server(lambda: _Connection(server), path, **kept)
    try:
        yield server
    finally:
        listener.close()
        for connection in server.connections:
            connection.abort()


async def main(path: Path) -> None:
    async with raw_server(path):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
