"""A server and raw clients of it, for tests of what goes over the sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mooring.apiserver.identity.tls import ServerIdentity
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.web.server import ApiServer
from mooring.base.clock import LoopClock
from mooring.base.randomness import Random
from tests.unit.apiserver.objects import a_store

PATH = "/api/v1/namespaces/default/secrets"


@contextlib.asynccontextmanager
async def serving(
    identity: ServerIdentity, store: ObjectStore | None = None, **options: Any
) -> AsyncIterator[ApiServer]:
    server = ApiServer(store or a_store(), identity, clock=LoopClock(), randomness=Random(1), **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def connected(
    server: ApiServer, identity: ServerIdentity, login: tuple[Path, Path] | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """login: files of a client certificate and its key."""
    context = ssl.create_default_context(cadata=identity.ca.decode())
    if login is not None:
        context.load_cert_chain(*login)
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=2**16)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def head(identity: ServerIdentity, method: str, path: str, **headers: object) -> bytes:
    """A request's head with the server's token. headers: names with underscores; Authorization="" leaves the token
    out.
    """
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    if "Authorization" not in headers:
        lines.append(f"Authorization: Bearer {identity.token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value != ""]
    return "\r\n".join([*lines, "", ""]).encode()


async def answered(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """Status and body: decoded where it is JSON."""
    async with asyncio.timeout(10):
        status = int((await reader.readline()).split()[1])
        headers: dict[bytes, bytes] = {}
        while line := (await reader.readline()).strip():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
        return status, json.loads(body) if headers.get(b"content-type") == b"application/json" else body
