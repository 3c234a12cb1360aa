"""Clients share the turns of the loop; who asks much waits, and nobody waits for him."""

from __future__ import annotations

import asyncio
import io
import itertools
import socket
import ssl
import time
from pathlib import Path

import pytest

from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.web import server as web_server
from mooring.apiserver.web.queries import route_of
from mooring.base import log, turns
from mooring.base.turns import STALL_S
from tests.support.embedded import EmbeddedServer
from tests.support.rows import each_row
from tests.support.stalls import StallMeter
from tests.unit.apiserver.objects import a_store
from tests.unit.apiserver.serving import PATH, answered, connected, head, serving


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> ServerIdentity:
    return identity_in(tmp_path_factory.mktemp("identity"), time.time())


async def test_a_request_that_holds_the_server_is_named_in_the_log(
    identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mooring dev as in mooring apiserver: both serve by ApiServer. The query, which may hold anything, is left
    out.
    """
    clock = itertools.count(0.0, 2 * turns.STALL_S)
    logged = io.StringIO()
    log.configure(stream=logged)
    try:
        async with serving(identity) as server, connected(server, identity) as (reader, writer):
            writer.write(head(identity, "GET", "/version"))
            assert 200 == (await answered(reader))[0]
            assert not logged.getvalue()
            monkeypatch.setattr(turns, "processor_s", lambda: next(clock))
            writer.write(head(identity, "GET", f"{PATH}?labelSelector=a"))
            assert 200 == (await answered(reader))[0]
    finally:
        log.configure()
    assert f'"A request held the server" method="GET" path="{PATH}" processor_s=0.2' in logged.getvalue()


async def test_a_probe_waits_for_no_request(identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SHARE_S", 1e-9)  # each request has a turn of its own
    many = 200
    async with (
        serving(identity) as server,
        connected(server, identity) as (reader, writer),
        connected(server, identity) as (probe, asking),
    ):
        writer.write(head(identity, "GET", PATH) * many)
        asking.write(head(identity, "GET", "/livez"))
        assert (200, b"ok") == await answered(probe)
        assert [200] * many == [(await answered(reader))[0] for _ in range(many)]


CHUNKED = "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n{}\r\n"
FLOODS = {
    "chunks of a stranger": (30, CHUNKED.format(""), b"1 ;\r\nx\r\n" * 8_000),
    "chunks": (30, CHUNKED.format("Authorization: Bearer TOKEN\r\n"), b"1 ;\r\nx\r\n" * 8_000),
    "empty lines": (40, "", b"\r\n" * 30_000),
    "probes": (120, "", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" * 500),
}
"""How many clients, what each begins with, and what all then send at the same time."""


def hello(context: ssl.SSLContext) -> bytes:
    """What a client begins with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1").do_handshake()
    return outgoing.read()


def probe(context: ssl.SSLContext, port: int) -> None:
    """Raises where /livez is not answered."""
    with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 20.0), server_hostname="127.0.0.1") as link:
        link.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert link.recv(1024).startswith(b"HTTP/1.1 200 OK")


def sent_at_once(clients: list[ssl.SSLSocket], data: bytes) -> None:
    """As much as the socket takes; nobody reads the answers."""
    for client in clients:
        client.setblocking(False)
        try:
            client.send(data)
        except (ssl.SSLWantWriteError, OSError):
            pass


@pytest.mark.slow
@each_row("flood", FLOODS)
def test_many_clients_share_a_turn(tmp_path: Path, flood: str) -> None:
    """What comes at the same time took half a second and more in one turn, and a probe waited for that."""
    count, begin, data = FLOODS[flood]
    meter = StallMeter()
    with EmbeddedServer(tmp_path, meter=meter) as server:
        context, port = ssl.create_default_context(cafile=server.ca_file), int(server.url.rpartition(":")[2])
        clients = []
        for _ in range(count):
            clients.append(
                context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
            )
            clients[-1].sendall(begin.replace("TOKEN", server.identity.token).encode())
        probe(context, port)
        meter.worst_s = 0.0
        sent_at_once(clients, data)
        for _ in range(3):
            probe(context, port)
        for client in clients:
            client.close()
    assert meter.worst_s < 3 * STALL_S  # of processor time, which a busy machine stretches, too


@pytest.mark.slow
def test_handshakes_share_a_turn(tmp_path: Path) -> None:
    meter = StallMeter()
    with EmbeddedServer(tmp_path, meter=meter) as server:
        context, port = ssl.create_default_context(cafile=server.ca_file), int(server.url.rpartition(":")[2])
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(400)]
        probe(context, port)
        meter.worst_s = 0.0
        begin = hello(context)
        for client in clients:
            client.sendall(begin)
        for _ in range(3):
            probe(context, port)
        for client in clients:
            client.close()
    assert meter.worst_s < 3 * STALL_S  # of processor time, which a busy machine stretches, too


async def test_of_many_who_connect_so_many_are_accepted_in_one_turn(identity: ServerIdentity) -> None:
    async with serving(identity) as server:
        port, seen = int(server.url.rpartition(":")[2]), [0]
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4 * web_server._ACCEPTED_AT_ONCE)]
        async with asyncio.timeout(10):
            while seen[-1] < len(clients):
                await asyncio.sleep(0)
                seen.append(server.connection_count)
        assert max(after - before for before, after in itertools.pairwise(seen)) <= web_server._ACCEPTED_AT_ONCE
        for client in clients:
            client.close()


def test_a_path_of_slashes_is_read_once() -> None:
    """Twenty times as long takes twenty times as long, and not four hundred times."""

    def used_s(slashes: int) -> float:
        path = ("",) * slashes
        begun = time.process_time()
        assert route_of(path, store) is None
        return time.process_time() - begun

    store = a_store()
    few = max(min(used_s(10_000) for _ in range(5)), 1e-5)
    assert min(used_s(200_000) for _ in range(5)) < 100 * few
