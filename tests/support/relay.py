"""A relay of bytes before any server, TLS or not, whose connections a test can cut."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Relay:
    """port: of 127.0.0.1, leads to the server."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._upstream = host, port
        self._open: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    def cut(self) -> None:
        """Breaks every connection, in both directions."""
        for writers in self._open.values():
            for writer in writers:
                writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._open[task] = [writer]
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._upstream)
            writers.append(far_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, far_writer), name="relay/up")
                group.create_task(_pump(far_reader, writer), name="relay/down")
        except* OSError:
            pass
        finally:
            for each in writers:
                each.transport.abort()
            del self._open[task]

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError("one side has closed: so does the other")


@contextlib.asynccontextmanager
async def relay_to(host: str, port: int) -> AsyncIterator[Relay]:
    """A relay in this loop."""
    relay = Relay(host, port)
    server = await asyncio.start_server(relay._carry, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
