"""The client's HTTP and TLS against servers that send whatever they like: each fault has its words, nothing hangs,
nothing is left behind, and no write is sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import zlib

import pytest

from mooring.kube.client import transport as transport_module
from mooring.kube.client.responses import Response
from mooring.kube.client.transport import HttpTransport
from mooring.kube.errors import Unreachable
from tests.support.rows import each_row
from tests.unit.kube.certificates import server_context
from tests.unit.kube.hostile_server import (
    GOOD,
    Act,
    HostileServer,
    Wire,
    a_transport,
    ask,
    behave,
    hostile_server,
    read,
)
from tests.unit.wire.http1.answers import MALFORMED, OK, cut, with_chunks

METHODS = ("GET", "PATCH", "WATCH")


def says(*parts: bytes, hangs: bool = False) -> Act:
    """Reads one request, sends these bytes, and closes the connection."""

    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(*parts)
        if hangs:
            await wire.until_gone()

    return act


async def lives_on(server: HostileServer, transport: HttpTransport) -> None:
    server.acts.clear()
    server.otherwise = behave
    answer = await ask(transport)
    assert isinstance(answer, Response), answer
    assert b"good" == answer.body


# -- bytes that are no answer


@each_row("how", MALFORMED)
async def test_what_is_no_answer_is_told_at_once_and_not_asked_for_again(how: str) -> None:
    """While the server keeps the connection open: nobody waits for the end of what can't become an answer."""
    async with hostile_server() as server, a_transport(server) as transport:
        for method in METHODS:
            for parts in ([MALFORMED[how]], cut(MALFORMED[how], max(7, len(MALFORMED[how]) // 40))):
                server.otherwise = says(*parts, hangs=True)
                told = await ask(transport, method)
                assert f"the answer from http://127.0.0.1:{server.port} (given in code) is no HTTP: " in str(told)
        assert 2 * len(METHODS) == len(server.requests) == len(server.wires)
        await lives_on(server, transport)


WHOLE = {
    "a length": OK + b"Content-Length: 5\r\n\r\n[1,2]",
    "chunks": with_chunks(b"[1,", b"2]", trailer=b"T: x\r\n"),
    "an interim answer first": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\n[1,2]",
}


@each_row("method", METHODS)
async def test_a_packed_answer_that_breaks_off_is_told_though_its_body_ends_in_good_order(method: str) -> None:
    """As behind a proxy that lost the server."""
    packer = zlib.compressobj(wbits=31)
    begun = packer.compress(b"[1,") + packer.flush(zlib.Z_SYNC_FLUSH)
    async with hostile_server() as server, a_transport(server) as transport:
        server.otherwise = says(with_chunks(begun).replace(OK, OK + b"Content-Encoding: gzip\r\n", 1))
        assert "gzip breaks off" in str(await ask(transport, method))


@pytest.mark.slow
@each_row("tls", [False, True], parts=2)
@each_row("method", METHODS)
@each_row("how", WHOLE)
async def test_a_server_that_closes_at_any_point_is_told_and_no_write_is_sent_twice(
    how: str, method: str, tls: bool
) -> None:
    raw = WHOLE[how]
    async with hostile_server(server_context() if tls else None) as server, a_transport(server) as transport:
        for length in range(0, len(raw), 3):
            for resets in (False, True):

                async def act(wire: Wire, length: int = length, resets: bool = resets) -> None:
                    await wire.request()
                    await wire.send(raw[:length])
                    if resets:
                        wire.reset()

                server.otherwise = act
                before = len(server.requests)
                told = str(await ask(transport, method))
                assert "broke off" in told or "broke before the answer was there" in told
                assert (resets and "broke before" in told) == told.endswith("Connection reset by peer")
                assert 1 == len(server.requests) - before
        await lives_on(server, transport)


@each_row("tls", [False, True])
@each_row("resets", [False, True])
@each_row(("begun", "again"), [(b"", True), (b"H", False)])
async def test_a_kept_connection_that_breaks_before_a_byte_of_the_answer_is_one_try_for_reads_alone(
    begun: bytes, again: bool, resets: bool, tls: bool
) -> None:
    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(GOOD)
        await wire.request()
        if begun:
            await wire.send(begun)
        if resets:
            wire.reset()

    async with hostile_server(server_context() if tls else None) as server, a_transport(server) as transport:
        for method in METHODS:
            server.wires.clear()
            server.acts.extend([act])
            assert isinstance(await ask(transport), Response)
            told = await ask(transport, method)
            is_repeated = again and method != "PATCH"
            assert is_repeated == isinstance(told, Response)
            assert [2, 1] if is_repeated else [2] == [len(wire.requests) for wire in server.wires]
            await lives_on(server, transport)
            server.wires[-1].reset()


async def test_a_read_is_sent_twice_at_most() -> None:
    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(GOOD)
        await wire.request()

    async with hostile_server() as server, a_transport(server) as transport:
        server.acts.append(act)
        assert isinstance(await ask(transport), Response)
        server.otherwise = says()
        assert "broke before the answer was there" in str(await ask(transport))
        assert [2, 1] == [len(wire.requests) for wire in server.wires]


async def test_a_read_whose_connection_was_closed_goes_to_a_new_one_and_not_to_another_of_before() -> None:
    """After a restart of the server all kept connections are dead."""

    async def dies(wire: Wire) -> None:
        await wire.request()
        await server.has_connections(4)
        await wire.send(GOOD)
        await wire.request()

    async with hostile_server() as server, a_transport(server) as transport:
        server.otherwise = dies
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(ask(transport), name="ask")
        server.otherwise = behave
        assert isinstance(await ask(transport), Response)
        assert 4 + 2 == len(server.requests)
        assert 4 + 1 == len(server.wires)


@each_row("tls", [False, True])
async def test_a_body_without_end_is_refused_at_its_bound(tls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "BODY_BYTES_MAX", 2**20)

    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            await wire.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")

    async with hostile_server(server_context() if tls else None) as server, a_transport(server) as transport:
        server.otherwise = act
        for method in ("GET", "PATCH"):
            assert "the answer is larger than 1048576 bytes" in str(await ask(transport, method))
        await lives_on(server, transport)


@each_row("unasked", [GOOD, b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", b"\r\n"])
async def test_what_comes_unasked_is_never_the_answer_to_the_next_request(unasked: bytes) -> None:
    sent = asyncio.Event()

    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK + b"Content-Length: 5\r\n\r\nfirst")
        await asyncio.sleep(0)
        await wire.send(unasked)
        sent.set()
        await wire.until_gone()

    async with hostile_server() as server, a_transport(server) as transport:
        server.acts.append(act)
        first = await ask(transport)
        assert isinstance(first, Response)
        await sent.wait()
        async with asyncio.timeout(10):
            await asyncio.gather(*server.tasks)  # the client leaves by itself
        second = await ask(transport, "PATCH")
        assert isinstance(second, Response)
        assert (b"first", b"good", [1, 1]) == (first.body, second.body, [len(wire.requests) for wire in server.wires])


async def test_an_answer_with_bytes_behind_it_ends_its_connection() -> None:
    async with hostile_server() as server, a_transport(server) as transport:
        server.acts.append(says(GOOD + OK + b"Content-Length: 4\r\n\r\nevil", hangs=True))
        first, second = await ask(transport), await ask(transport, "PATCH")
        assert isinstance(first, Response)
        assert isinstance(second, Response)
        assert (b"good", b"good", 2) == (first.body, second.body, len(server.wires))


@each_row(
    "endless",
    [b"X: y\r\n" * 50, b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["headers", "interim answers"],
)
async def test_what_never_ends_is_cut(endless: bytes) -> None:
    async def act(wire: Wire) -> None:
        await wire.request()
        if endless.startswith(b"X"):
            await wire.send(OK)
        while True:
            await wire.send(endless)

    async with hostile_server() as server, a_transport(server) as transport:
        server.otherwise = act
        for method in METHODS:
            assert "is no HTTP: " in str(await ask(transport, method))
        await lives_on(server, transport)


@each_row("tls", [False, True])
async def test_a_byte_now_and_then_does_not_prolong_the_time(tls: bool) -> None:
    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK + b"X: ")
        while True:
            await asyncio.sleep(0.005)
            await wire.send(b"y")

    async with hostile_server(server_context() if tls else None) as server, a_transport(server) as transport:
        for method in METHODS:
            server.acts.append(act)
            assert "within 0.1 s" in str(await ask(transport, method, timeout_s=0.1))
        await lives_on(server, transport)


async def test_a_body_whose_end_came_while_nobody_read_leaves_its_connection_well() -> None:
    """The socket rests beyond 256 KiB unread; that must not go on into the next exchange."""
    large = b"HTTP/1.1 500 x\r\nContent-Length: 270000\r\n\r\n" + bytes(270_000)

    async def act(wire: Wire) -> None:
        while True:
            await wire.request()
            await wire.send(large)

    async with hostile_server() as server, a_transport(server) as transport:
        server.otherwise = act
        for _ in range(3):
            stream = await transport.stream("/", (), 20.0)
            for _ in range(50):
                await asyncio.sleep(0)
            stream.close()
            answer = await ask(transport)
            assert isinstance(answer, Response)
            assert 270_000 == len(answer.body)


async def test_a_slow_reader_of_a_watch_holds_the_server_back() -> None:
    sent = 0

    async def act(wire: Wire) -> None:
        nonlocal sent
        await wire.request()
        await wire.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            await wire.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            sent += 0x10000
        await wire.send(b"0\r\n\r\n")

    async with hostile_server() as server, a_transport(server) as transport:
        server.acts.append(act)
        stream = await transport.stream("/", (), 20.0)
        before = -1
        while sent != before:
            before = sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert sent < 400 * 0x10000, "the server was not held back"
        answer = await read(stream)
        assert isinstance(answer, Response)
        assert 400 * 0x10000 == len(answer.body)
        assert isinstance(await ask(transport), Response)


async def test_a_watch_that_unpacks_to_very_much_comes_in_pieces_with_others_turns_between_them() -> None:
    """50 KiB of gzip, 50 MiB of line ends."""
    packed = zlib.compress(b"\n" * (50 * 2**20), 9, wbits=31)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with hostile_server() as server, a_transport(server) as transport:
        server.acts.append(says(with_chunks(packed).replace(OK, OK + b"Content-Encoding: gzip\r\n", 1)))
        stream = await transport.stream("/", (), 20.0)
        task, before, sizes = asyncio.create_task(others(), name="others"), 0, []
        while chunk := await stream.chunk(20.0):
            sizes.append(len(chunk))
            assert turns > before or len(sizes) == 1, "others had a turn"
            before = turns
        task.cancel()
        await asyncio.wait([task])
        assert 50 * 2**20 == sum(sizes)
        assert max(sizes) <= 2**18


# -- TLS

NO_TLS = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "zeros": bytes(300),
    "ones": b"\xff" * 300,
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "an empty record": b"\x16\x03\x03\x00\x00",
    "a record beyond its bound": b"\x16\x03\x03\xff\xff" + bytes(70_000),
    "a hello of nothing": b"\x16\x03\x03\x00\x04\x02\x00\x00\x00",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
}


@each_row("method", METHODS)
@each_row("how", NO_TLS)
async def test_a_server_that_speaks_no_tls_is_told_and_asked_once(how: str, method: str) -> None:
    async def act(wire: Wire) -> None:
        await wire.raw_reader.read(100)
        await wire.send_raw(NO_TLS[how])
        await wire.until_gone()

    async with hostile_server() as server, a_transport(server, tls=True) as transport:
        server.otherwise = act
        told = str(await ask(transport, method, timeout_s=0.2))
        assert f"https://127.0.0.1:{server.port} (given in code)" in told
        assert "TLS with" in told or "within 0.2 s" in told
        assert 1 == len(server.wires)


def server_flight(context: ssl.SSLContext) -> bytes:
    """What a server says to a client's first bytes."""
    ours, theirs, back, client_context = (
        ssl.MemoryBIO(),
        ssl.MemoryBIO(),
        ssl.MemoryBIO(),
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    )
    client_context.check_hostname = False
    client_context.verify_mode = ssl.CERT_NONE
    client = client_context.wrap_bio(back, ours)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    server = context.wrap_bio(ours, theirs, server_side=True)
    with contextlib.suppress(ssl.SSLWantReadError):
        server.do_handshake()
    return theirs.read()


@each_row("at", [0, 1, 4, 5, 6, 9, 43, 44, 76, 79, 80, 120, 127, 128, 140, 200, 600, -1])
@each_row("what", ["changed", "cut"])
async def test_a_handshake_that_is_changed_or_cut_makes_no_connection(at: int, what: str) -> None:
    """The server's answer to a hello, of another connection even."""
    flight = bytearray(server_flight(server_context()))
    if what == "cut":
        del flight[at:]
    else:
        flight[at] ^= 0x55

    async def act(wire: Wire) -> None:
        await wire.raw_reader.read(100)
        await wire.send_raw(bytes(flight))

    async with hostile_server() as server, a_transport(server, tls=True) as transport:
        server.otherwise = act
        told = str(await ask(transport, "PATCH"))
        assert "TLS with" in told or "the server closed it at once" in told
        assert 1 == len(server.wires)


@each_row("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@each_row("polite", [False, True])
@each_row("method", METHODS)
async def test_a_server_that_leaves_right_after_the_handshake_is_not_connected_to_without_end(
    method: str, polite: bool, version: ssl.TLSVersion
) -> None:
    context = server_context()
    context.maximum_version = version

    async def act(wire: Wire) -> None:
        if polite:
            await wire.farewell()

    async with hostile_server(context) as server, a_transport(server) as transport:
        server.otherwise = act
        told = str(await ask(transport, method))
        assert "the server closed it at once" in told or "broke before the answer was there" in told
        assert 1 == len(server.wires)


@each_row("garbage", [b"\x17\x03\x03\x00\x20" + bytes(32), b"HTTP/1.1 200 OK\r\n\r\n", b"\x17\x03\x03\x00\x00" * 40])
@each_row("method", METHODS)
async def test_bytes_past_tls_break_the_connection_and_a_write_is_sent_once(method: str, garbage: bytes) -> None:
    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send_raw(garbage)
        await wire.until_gone()

    async with hostile_server(server_context()) as server, a_transport(server) as transport:
        server.otherwise = act
        told = str(await ask(transport, method))
        assert "TLS with" in told
        assert 1 == len(server.requests)
        await lives_on(server, transport)


@each_row(("polite", "whole"), [(True, True), (False, False)])
async def test_a_body_without_a_length_is_whole_only_when_the_server_takes_its_leave(polite: bool, whole: bool) -> None:
    """Else anybody on the way could cut it."""

    async def act(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK + b"\r\n[1,2]")
        if polite:
            await wire.farewell()

    async with hostile_server(server_context()) as server, a_transport(server) as transport:
        for method in METHODS:
            server.acts.append(act)
            told = await ask(transport, method)
            assert whole == isinstance(told, Response)
            assert whole or "broke off" in str(told)
        await lives_on(server, transport)


# -- ends


@each_row("tls", [False, True])
async def test_a_client_that_closes_ends_all_that_runs(tls: bool) -> None:
    """Requests, watches, and connections that are being made, some of them in a handshake that hangs."""

    async def hang(wire: Wire) -> None:
        await wire.until_gone()

    async with hostile_server() as server, a_transport(server, tls=tls) as transport, asyncio.TaskGroup() as group:
        server.otherwise = hang
        asked = [group.create_task(ask(transport, method), name="ask") for method in METHODS * 5]
        await server.has_connections(8)
        await transport.close()
        assert ["the client is closed"] * len(asked) == [str(await one) for one in asked]
        assert "the client is closed" == await ask(transport)


@pytest.mark.slow
@each_row("tls", [False, True], parts=2)
@each_row("seed", range(4))
async def test_whoever_gives_up_whenever_each_answer_reaches_the_request_it_belongs_to(seed: int, tls: bool) -> None:
    """Requests and watches, given up at any step, on connections that break at any step; then the client is as good as
    new.
    """
    chance, answered, served = random.Random(seed), 0, dict[str, int]()

    async def act(wire: Wire) -> None:
        while True:
            head = await wire.request()
            method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
            if method == "PATCH":
                served[path] = served.get(path, 0) + 1
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.1:
                return
            body = path.encode() * chance.choice((1, 10, 10_000))
            raw = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body if chance.random() < 0.5 else with_chunks(body)
            await wire.send(*cut(raw, chance.choice((len(raw), 1 + len(raw) // 3))))

    async def one(number: int) -> None:
        nonlocal answered
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        method, path = chance.choice(METHODS), f"/{number}"
        asked = asyncio.ensure_future(ask(transport, method, path))
        if chance.random() < 0.3:
            for _ in range(chance.randrange(40)):
                await asyncio.sleep(0)
            asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            answer = await asked
            if isinstance(answer, Response):
                answered += 1
                assert set(answer.body.split(b"/")) == {b"", path[1:].encode()}
            else:
                assert "broke" in answer

    async with hostile_server(server_context() if tls else None) as server, a_transport(server) as transport:
        server.otherwise = act
        for _ in range(10):
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(one(number), name="one")
        assert answered > 100
        server.otherwise = behave
        while not isinstance(await ask(transport), Response):
            pass
        assert max(served.values()) <= 10, "a write was sent twice in one round"


async def test_an_unreachable_says_no_secret() -> None:
    async with hostile_server() as server, a_transport(server) as transport:
        for name, value in (("Authorization", "Bearer geheim\r\nX: y"), ("X-Extra", "geheim\0")):
            with pytest.raises(Unreachable, match="can't be sent") as error:
                await transport.request("GET", "/", ((name, value),), None, 20.0)
            assert "geheim" not in str(error.value)
        assert [] == server.wires
