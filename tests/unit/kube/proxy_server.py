"""A proxy that makes tunnels, over TLS or without."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any


class TunnelServer:
    """asked: the heads of all CONNECT requests. route: where tunnels lead, whatever is asked for."""

    def __init__(self, route: str) -> None:
        self.asked: list[str] = []
        self.url = ""
        self._host, _, port = route.rpartition(":")
        self._port = int(port)
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Breaks all tunnels."""
        for writer in self._writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        self._writers += [writer, far_writer]
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(reader, far_writer), name="there")
            group.create_task(_pump(far_reader, writer), name="back")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def tunnel_server(target: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[TunnelServer]:
    """target: URL of the server behind it."""
    proxy = TunnelServer(target.rpartition("/")[2])
    running: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        task.add_done_callback(running.discard)
        try:
            await proxy.serve(reader, writer)
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    proxy.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
