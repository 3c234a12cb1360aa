"""h2spec's cases against our gRPC server, whose HTTP/2 is our own.

h2spec speaks TCP, and sends GET and POST of texts, which are no gRPC: here a bridge leads it to the socket, and the
server takes whatever request HTTP/2 allows for a call. All beneath that is as it is shipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from mooring.wire.grpc import server
from mooring.wire.grpc.server import listening
from mooring.wire.grpc.serving.call_headers import CallHeaders
from mooring.wire.grpc.serving.request import Refusal, Request, Wrong
from tests.support.real import binary

pytestmark = pytest.mark.slow

OURS = {
    "closed: Sends a DATA frame after sending RST_STREAM frame": (
        "dropped, as by grpc-go and gRPC's core: it may have been on its way"
    ),
    "closed: Sends a DATA frame": "the same",
    "Sends HEADERS frame that depend on itself": "RFC 9113 has no priorities any more",
    "Sends PRIORITY frame that depend on itself": "the same",
}
"""Cases where we differ, and why."""

CASES = 145
"""All of h2spec's without TLS."""

_CASE = re.compile(r"^\s*× \d+: (.*)$", re.MULTILINE)


def takes_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a server of plain HTTP/2 would."""
    headers_came, data_came = Request.headers_came, Request.data_came

    def any_headers(self: Request, headers: CallHeaders, ended: bool) -> Wrong | None:
        if headers.method:
            headers = dataclasses.replace(headers, method=b"POST", content_type=b"application/grpc", timeout=None)
        return headers_came(self, headers, ended)

    def any_data(self: Request, data: bytes, ended: bool) -> Wrong | None:
        wrong = data_came(self, data, ended)
        return None if isinstance(wrong, Refusal) else wrong

    monkeypatch.setattr(Request, "headers_came", any_headers)
    monkeypatch.setattr(Request, "data_came", any_data)
    monkeypatch.setattr(Request, "message", lambda _: b"")


async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The end of one way is the end of both."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def bridge_to(socket: Path) -> AsyncGenerator[int, None]:
    """Gives the port."""
    async with asyncio.TaskGroup() as group:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_unix_connection(socket)
            group.create_task(piped(there, writer), name="bridge/back")
            await group.create_task(piped(reader, back), name="bridge/there")

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[1]
        server.close()


async def test_our_server_is_as_h2spec_wants_it_but_for_known_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = binary("h2spec")
    takes_any_request(monkeypatch)
    monkeypatch.setattr(server, "SETTLED_S_MAX", 600.0)  # some cases wait, and say nothing before

    async def answer(_: bytes) -> bytes:
        return b"x" * 100

    async with listening({"/any": answer}, tmp_path / "s"), bridge_to(tmp_path / "s") as port:
        command = ["-h", "127.0.0.1", "-p", str(port), "--path", "/any", "-o", "5"]
        process = await asyncio.create_subprocess_exec(
            program, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
    text = said.decode(errors="replace")
    assert set(OURS) == set(_CASE.findall(text.partition("Failures:")[2])), text
    assert f"{CASES} tests, {CASES - len(OURS)} passed, 0 skipped, {len(OURS)} failed" in text
