"""A relay of bytes before any server, TLS or not, whose connections a test can cut."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

from mooring.base.randomness import Random

Connect: TypeAlias = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]

_TORN_BYTES_MAX = 4096


@dataclasses.dataclass(eq=False)
class _Connection:
    """left: how many bytes still get through, None for all."""

    writers: list[asyncio.StreamWriter]
    left: int | None = None


class Relay:
    """connect: to the server. port: of 127.0.0.1, where that is how the relay is reached."""

    def __init__(self, connect: Connect) -> None:
        self.port = 0
        self._connect = connect
        self._open: dict[asyncio.Task[None], _Connection] = {}

    def cut(self) -> None:
        """Breaks every connection, in both directions."""
        for connection in self._open.values():
            for writer in connection.writers:
                writer.transport.abort()

    def tear_one(self, randomness: Random) -> None:
        """Breaks one of the connections after some more bytes, wherever in a message that is."""
        if self._open:
            one = list(self._open.values())[randomness.below(len(self._open))]
            one.left = randomness.below(_TORN_BYTES_MAX)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connection = self._open[task] = _Connection([writer])
        try:
            far_reader, far_writer = await self._connect()
            connection.writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, far_writer, connection), name="relay/up")
                group.create_task(_pump(far_reader, writer, connection), name="relay/down")
        except* OSError:
            pass
        finally:
            for each in connection.writers:
                each.transport.abort()
            del self._open[task]

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: _Connection) -> None:
    while data := await reader.read(65536):
        if connection.left is not None:
            data = data[: connection.left]
            connection.left -= len(data)
        writer.write(data)
        await writer.drain()
        if connection.left == 0:
            raise ConnectionResetError("the test has torn it")
    raise ConnectionResetError("one side has closed: so does the other")


@contextlib.asynccontextmanager
async def relay_to(host: str, port: int) -> AsyncIterator[Relay]:
    """A relay in this loop."""
    relay = Relay(lambda: asyncio.open_connection(host, port))
    server = await asyncio.start_server(relay._carry, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    async with _serving(server, relay):
        yield relay


@contextlib.asynccontextmanager
async def relay_to_socket(path: str, own_path: str) -> AsyncIterator[Relay]:
    """A relay in this loop, from one unix socket to another."""
    relay = Relay(lambda: asyncio.open_unix_connection(path))
    async with _serving(await asyncio.start_unix_server(relay._carry, own_path), relay):
        yield relay


@contextlib.asynccontextmanager
async def _serving(server: asyncio.Server, relay: Relay) -> AsyncIterator[None]:
    try:
        yield
    finally:
        server.close()
        await relay.close()
