"""Our server on a unix socket beside grpcio's: the same calls by the same clients, hostile bytes, and the rules of the
socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket as sockets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.wire.grpc import server
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.frames import READ_BYTES
from mooring.wire.grpc.server import listening
from mooring.wire.grpc.serving.connection import ServerConnection
from mooring.wire.grpc.serving.events import Event
from mooring.wire.grpc.serving.limits import FEW, ServerLimits
from tests.support.rows import each_row
from tests.unit.wire.grpc import talk
from tests.unit.wire.grpc.unary_servers import CLIENTS, SAY, SERVERS, SERVICE, Echo, fate, over

BEGIN = talk.PREFACE + talk.settings()
ANY_SERVER = pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS.keys())
ANY_CLIENT = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())


async def refusal(call: Any) -> tuple[int, str]:
    with pytest.raises(DriverError) as caught:
        await call
    return caught.value.code, caught.value.message


async def until(holds: Callable[[], object]) -> None:
    """Lets others work until it holds."""
    async with asyncio.timeout(20.0):
        while not holds():  # noqa: ASYNC110 - some of it happens in threads
            await asyncio.sleep(0.002)


# -- calls


@ANY_SERVER
@ANY_CLIENT
async def test_messages_of_every_size_come_back(server: Any, client: Any, socket: Path) -> None:
    async with server(Echo().methods(), socket), client(socket) as ask:
        for size in (0, 1, 16_379, 65_531, 70_000, 4_000_000):
            message = bytes(range(256)) * (size // 256 + 1)
            assert message[:size] == await ask("Say", message[:size])


@pytest.mark.slow
@ANY_SERVER
@ANY_CLIENT
async def test_more_calls_at_once_than_one_connection_takes(server: Any, client: Any, socket: Path) -> None:
    async with server(Echo().methods(), socket), client(socket) as ask:
        messages = [b"%d" % number * 500 for number in range(3 * FEW.streams)]
        assert messages == await asyncio.gather(*(ask("Say", message) for message in messages))


@ANY_SERVER
@ANY_CLIENT
async def test_an_error_arrives_as_it_was_raised(server: Any, client: Any, socket: Path) -> None:
    texts = ["no such volume", "", "100% of Bücher\n\t\u00e9\U0001f600", "%41 %zz", " spaces ", "x" * 5_000]
    async with server(Echo().methods(), socket), client(socket) as ask:
        for text in texts:
            assert (Code.NOT_FOUND, text) == await refusal(ask("Fail", f"5 {text}".encode()))
        for code in range(1, 17):
            assert (code, "x") == await refusal(ask("Fail", f"{code} x".encode()))


@ANY_SERVER
@ANY_CLIENT
async def test_what_a_method_forgot_and_what_nobody_has(server: Any, client: Any, socket: Path) -> None:
    async with server(Echo().methods(), socket), client(socket) as ask:
        code, text = await refusal(ask("Break", b"oh"))
        assert (Code.UNKNOWN, True) == (code, "ValueError" in text and "oh" in text)
        assert Code.UNKNOWN == (await refusal(ask("Break", b"late")))[0], "a time of the method's own, not the caller's"
        assert Code.UNIMPLEMENTED == (await refusal(ask("Other")))[0]
        assert b"still" == await ask("Say", b"still")


@ANY_SERVER
@ANY_CLIENT
async def test_a_message_that_is_too_long_is_refused_and_the_next_is_taken(
    server: Any, client: Any, socket: Path
) -> None:
    async with server(Echo().methods(), socket), client(socket) as ask:
        assert Code.RESOURCE_EXHAUSTED == (await refusal(ask("Say", bytes(4 * 1024 * 1024 + 1))))[0]
        assert b"x" == await ask("Say", b"x")


@pytest.mark.slow
@ANY_SERVER
@ANY_CLIENT
async def test_a_deadline_ends_the_call_on_both_sides(server: Any, client: Any, socket: Path) -> None:
    echo = Echo()
    async with server(echo.methods(), socket), client(socket) as ask:
        assert Code.DEADLINE_EXCEEDED == (await refusal(ask("Hang", timeout_s=0.2)))[0]
        await until(lambda: echo.cancelled == 1)


@ANY_SERVER
@ANY_CLIENT
async def test_a_caller_who_goes_ends_the_call(server: Any, client: Any, socket: Path) -> None:
    echo = Echo()
    async with server(echo.methods(), socket), client(socket) as ask:
        call = asyncio.create_task(ask("Hang"))
        await until(lambda: echo.began == 1)
        call.cancel()
        await until(lambda: echo.cancelled == 1)
        assert b"x" == await ask("Say", b"x")
        with contextlib.suppress(asyncio.CancelledError):
            await call


async def test_unknown_methods_are_named_as_go_names_them(socket: Path) -> None:
    async with listening(Echo().methods(), socket), over(socket) as ask:
        assert (Code.UNIMPLEMENTED, f"unknown method Other for service {SERVICE}") == await refusal(ask("Other"))
        assert (Code.UNIMPLEMENTED, f"unknown service {SERVICE}/x") == await refusal(ask("x/y"))


async def test_a_deadline_that_has_passed_begins_nothing(socket: Path) -> None:
    """By the headers of a request whose message comes late."""
    echo = Echo()
    async with listening(echo.methods(), socket):
        reader, writer = await asyncio.open_unix_connection(socket)
        fields = [
            *((name, value if name != ":path" else f"/{SERVICE}/Hang") for name, value in SAY),
            ("grpc-timeout", "0n"),
        ]
        writer.write(BEGIN + talk.headers(1, fields) + talk.data(1, talk.message(b""), end=True))
        got = b""
        while b"context deadline exceeded" not in got:
            piece = await reader.read(65_536)
            assert piece, got
            got += piece
        writer.close()
        assert 0 == echo.began


@ANY_SERVER
async def test_a_client_that_dies_ends_its_calls(server: Any, socket: Path) -> None:
    echo = Echo()
    async with server(echo.methods(), socket):
        _, writer = await asyncio.open_unix_connection(socket)
        hang = talk.headers(1, [(name, value if name != ":path" else f"/{SERVICE}/Hang") for name, value in SAY])
        writer.write(BEGIN + hang + talk.data(1, talk.message(b""), end=True))
        await until(lambda: echo.began == 1)
        writer.transport.abort()
        await until(lambda: echo.cancelled == 1)


# -- the end


@ANY_SERVER
@ANY_CLIENT
async def test_what_has_begun_may_end_within_the_grace(server: Any, client: Any, socket: Path) -> None:
    echo = Echo()
    serving = server(echo.methods(), socket, grace_s=20.0)
    await serving.__aenter__()
    async with client(socket) as ask:
        call = asyncio.create_task(ask("Wait", b"late"))
        await until(lambda: echo.began == 1)
        ending = asyncio.create_task(serving.__aexit__(None, None, None))
        await until(lambda: not is_taken(socket))
        assert not ending.done()
        echo.go_on.set()
        assert b"late" == await call
        await ending


@ANY_SERVER
@ANY_CLIENT
async def test_without_grace_calls_end_at_once(server: Any, client: Any, socket: Path) -> None:
    echo = Echo()
    async with contextlib.AsyncExitStack() as clients:
        async with server(echo.methods(), socket, grace_s=0.0):
            ask = await clients.enter_async_context(client(socket))
            call = asyncio.create_task(ask("Hang"))
            await until(lambda: echo.began == 1)
        await until(lambda: echo.cancelled == 1)
        assert (await refusal(call))[0] in (Code.UNAVAILABLE, Code.CANCELED)


def kind(path: Path) -> int:
    """Of what is there; 0 for nothing."""
    return path.stat().st_mode if path.exists() else 0


def is_taken(path: Path) -> bool:
    with sockets.socket(sockets.AF_UNIX) as probe:
        return path.exists() and probe.connect_ex(str(path)) == 0


async def test_the_socket_is_private_from_the_first_moment_and_goes_at_the_end(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    bind = sockets.socket.bind

    def watched(self: sockets.socket, path: str) -> None:
        bind(self, path)
        made.append(stat.S_IMODE(Path(path).stat().st_mode))

    monkeypatch.setattr(sockets.socket, "bind", watched)
    async with listening({}, socket, mode=0o700):
        assert [0o700] == made
        assert 0o700 == stat.S_IMODE(os.stat(socket).st_mode)
    assert not kind(socket)


async def test_a_socket_that_another_has_put_in_its_place_stays(socket: Path) -> None:
    async with listening({}, socket, grace_s=0.0):
        os.unlink(socket)
        os.mkdir(socket)
    assert stat.S_ISDIR(kind(socket))


@each_row("path", ["/nowhere/at/all.sock", f"/tmp/{'x' * 120}"])
async def test_a_socket_that_cannot_be_made_is_named(path: str) -> None:
    with pytest.raises(ConfigError, match="can't be bound"):
        async with listening({}, Path(path)):
            raise AssertionError


async def test_an_error_of_the_block_passes_and_ends_all(socket: Path) -> None:
    opened = []

    async def breaks() -> None:
        async with listening(Echo().methods(), socket, grace_s=0.0):
            opened.append(await asyncio.open_unix_connection(socket))
            assert await opened[0][0].readexactly(9)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await breaks()
    ((reader, writer),) = opened
    while await reader.read(1000):
        pass
    writer.close()
    assert not kind(socket)


# -- who means no good


async def test_a_client_that_says_nothing_is_cut(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SETTLED_S_MAX", 0.1)
    async with listening(Echo().methods(), socket), over(socket) as ask:
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(talk.PREFACE)
        while await reader.read(1000):
            pass
        writer.close()
        assert b"x" == await ask("Say", b"x"), "who has spoken is left alone"


async def test_one_connection_too_many_is_cut(socket: Path) -> None:
    async with listening(Echo().methods(), socket, limits=ServerLimits(connections=2)):
        first = await asyncio.open_unix_connection(socket)
        async with over(socket) as ask:
            third, writer = await asyncio.open_unix_connection(socket)
            assert b"" == await third.read(1)
            writer.close()
            assert b"x" == await ask("Say", b"x")
            first[1].close()
            got = b""
            while not got:  # until the server has heard of the end of the first
                reader, writer = await asyncio.open_unix_connection(socket)
                got = await reader.read(9)
                writer.close()


async def test_a_client_that_does_not_read_is_not_read(socket: Path) -> None:
    """Each of its calls has an answer of a hundred bytes, which would wait here. Once it reads, it gets them all."""
    refused = talk.block([*SAY[:2], (":path", "/no/such"), *SAY[3:]])
    async with listening(Echo().methods(), socket), over(socket) as ask:
        with sockets.socket(sockets.AF_UNIX) as flood:
            flood.setblocking(False)
            flood.connect(str(socket))
            calls, unsent = 0, BEGIN
            stuck = 0
            while stuck < 50:
                unsent = sent_of(flood, unsent)
                if unsent:
                    stuck += 1
                    assert b"x" == await ask("Say", b"x"), "others are served meanwhile"
                else:
                    stuck = 0
                    unsent = talk.frame(talk.HEADERS, talk.END_HEADERS | talk.END_STREAM, 2 * calls + 1, refused)
                    calls += 1
                assert calls < 100_000, "whatever it says is taken in"
            got = b""
            answers = 0
            while answers < calls:
                unsent = sent_of(flood, unsent)
                with contextlib.suppress(BlockingIOError):
                    got += flood.recv(65_536)
                while len(got) >= 9 + int.from_bytes(got[:3]):
                    answers += got[3] == talk.HEADERS
                    got = got[9 + int.from_bytes(got[:3]) :]
                await asyncio.sleep(0)


def sent_of(peer: sockets.socket, data: bytes) -> bytes:
    """Sends what the system takes; gives the rest."""
    try:
        return data[peer.send(data) :]
    except BlockingIOError:
        return data


async def test_a_client_that_begins_and_drops_gets_no_more_work_done_than_any(socket: Path) -> None:
    echo = Echo()
    async with listening(echo.methods(), socket), over(socket) as ask:
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(BEGIN)
        headers = talk.block([(name, value if name != ":path" else f"/{SERVICE}/Hang") for name, value in SAY])
        for first in range(1, 1_601, 400):
            for call in range(first, first + 400, 2):
                writer.write(
                    talk.frame(talk.HEADERS, talk.END_HEADERS, call, headers)
                    + talk.data(call, talk.message(b""), end=True)
                )
                writer.write(talk.reset(call, talk.CANCEL))
            assert b"x" == await ask("Say", b"x")
        writer.close()
        await until(lambda: echo.running == 0)
        assert echo.most <= FEW.streams
        while await reader.read(65_536):
            pass


async def test_a_flood_is_read_in_small_pieces_and_each_has_a_turn_of_its_own(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the loop would read at once: small frames cost much more than their bytes."""
    turn, reads = 0, []
    receive = ServerConnection.receive

    def received(self: ServerConnection, data: bytes) -> list[Event]:
        reads.append((turn, len(data)))
        return receive(self, data)

    monkeypatch.setattr(ServerConnection, "receive", received)
    flood = BEGIN + talk.frame(talk.PRIORITY, 0, 1, bytes(5)) * 8_000
    async with listening(Echo().methods(), socket):
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(flood)
        while sum(size for _, size in reads) < len(flood):
            turn += 1
            await asyncio.sleep(0)
        writer.close()
        await reader.read()
    assert max(size for _, size in reads) <= READ_BYTES
    assert len(reads) == len({turn for turn, _ in reads}) >= len(flood) / READ_BYTES


HEADERS = talk.headers(1, SAY)
BLOCK = talk.block(SAY)
MESSAGE = talk.data(1, talk.message(b"x"), end=True)


def saying(name: str, value: str | None) -> bytes:
    """A call with another field of this name, or without it."""
    kept = [one for one in SAY if one[0] != name]
    changed = kept if value is None else [(name, value), *kept] if name[0] == ":" else [*kept, (name, value)]
    return talk.headers(1, changed) + MESSAGE


ALIKE = {
    "a good call": (HEADERS + MESSAGE, "status 0, alive"),
    "a block in two frames": (
        talk.frame(1, 0, 1, BLOCK[:5]) + talk.frame(9, 4, 1, BLOCK[5:]) + MESSAGE,
        "status 0, alive",
    ),
    "an unknown frame": (talk.frame(0x77, 3, 1, b"z") + HEADERS + MESSAGE, "status 0, alive"),
    "trailers": (
        HEADERS + talk.data(1, talk.message(b"x")) + talk.headers(1, [("x", "y")], end=True),
        "status 0, alive",
    ),
    "an unknown path": (saying(":path", "/x/y"), "status 12, alive"),
    "a path without a slash": (saying(":path", "x"), "status 12, alive"),
    "a reset, then a message": (HEADERS + talk.reset(1, talk.CANCEL) + MESSAGE, "nothing, alive"),
}


@ANY_SERVER
@each_row("name", ALIKE)
async def test_both_servers_answer_these_bytes_alike(server: Any, name: str, socket: Path) -> None:
    received, expected = ALIKE[name]
    async with server(Echo().methods(), socket):
        assert expected == await fate(socket, received)


BROKEN = {
    "a short ping": talk.frame(talk.PING, payload=b"1"),
    "half a setting": talk.frame(talk.SETTINGS, payload=b"123"),
    "an answer to settings with settings": talk.frame(talk.SETTINGS, talk.ACK, payload=bytes(6)),
    "settings on a stream": talk.frame(talk.SETTINGS, stream=1),
    "a window that adds nothing": talk.window(0, 0),
    "a frame of 16,385 bytes": talk.frame(talk.DATA, 0, 1, bytes(16_385)),
    "a continuation of nothing": talk.frame(talk.CONTINUATION, talk.END_HEADERS, 1),
    "a short goaway": talk.frame(talk.GOAWAY, payload=b"123"),
    "push of 2": talk.settings({talk.ENABLE_PUSH: 2}),
    "a window of 2**31": talk.settings({talk.INITIAL_WINDOW_SIZE: 2**31}),
    "frames of one byte": talk.settings({talk.MAX_FRAME_SIZE: 1}),
}


@ANY_SERVER
@each_row("name", BROKEN)
async def test_both_servers_end_the_connection_at_these_bytes(server: Any, name: str, socket: Path) -> None:
    async with server(Echo().methods(), socket):
        assert (await fate(socket, BROKEN[name])).startswith("nothing, ended")


# What our server refuses, mostly as Go's does, and grpcio's lets pass. Third: what Go's does where it differs from
# ours.
STRICTER = {
    "another content-type": (saying("content-type", "text/plain"), "http 415 status 3, alive", ""),
    "no content-type": (saying("content-type", None), "http 415 status 3, alive", ""),
    "GET": (saying(":method", "GET"), "http 405 status 13, alive", ""),
    "no method": (saying(":method", None), "reset 1, alive", "405"),
    "no path": (saying(":path", None), "reset 1, alive", "Unimplemented"),
    "no scheme": (saying(":scheme", None), "reset 1, alive", "carried out"),
    "te: gzip": (saying("te", "gzip"), "reset 1, alive", "carried out"),
    "upper case": (saying("Upper", "x"), "reset 1, alive", ""),
    "connection": (saying("connection", "close"), "reset 1, alive", ""),
    "an answer's status": (saying(":status", "200"), "reset 1, alive", ""),
    "a timeout of no unit": (saying("grpc-timeout", "1x"), "http 400 status 13, alive", ""),
    "a timeout of nine digits": (saying("grpc-timeout", "123456789S"), "http 400 status 13, alive", ""),
    # (The oldest grpcio that we allow; a newer one refuses it, too.)
    "a compressed message of nobody's form": (
        HEADERS + talk.data(1, talk.message(b"x", 1), end=True),
        "status 13, alive",
        "",
    ),
    "no message": (HEADERS + talk.data(1, b"", end=True), "status 13, alive", "Unknown"),
    "half a message": (HEADERS + talk.data(1, talk.message(b"xyz")[:-1], end=True), "status 13, alive", "Unknown"),
    "two messages": (
        HEADERS + talk.data(1, talk.message(b"x") * 2, end=True),
        "status 13, alive",
        "the first is carried out",
    ),
    "flag 2": (HEADERS + talk.data(1, talk.message(b"x", 2), end=True), "status 13, alive", ""),
    "gzip": (saying("grpc-encoding", "gzip"), "status 12, alive", "read, where the program has it"),
    "data after the end": (HEADERS + MESSAGE + talk.data(1, b"x"), "reset 5, alive", ""),
    "data for no stream": (talk.data(1, b"x"), "nothing, ended 1", "ignored"),
    "a reset of no stream": (talk.reset(1, talk.CANCEL), "nothing, ended 1", "ignored"),
    "a window of no stream": (talk.window(1, 5), "nothing, ended 1", "ignored"),
    "an even stream": (talk.headers(2, SAY), "nothing, ended 1", ""),
    "a stream below": (talk.headers(3, SAY) + HEADERS, "nothing, ended 1", ""),
    "a window that is too large": (talk.window(0, 2**31 - 1), "nothing, ended 3", "ignored"),
    "a push": (talk.frame(talk.PUSH_PROMISE, 4, 1, bytes(4)), "nothing, ended 1", "ignored"),
    "padding": (HEADERS + talk.frame(talk.DATA, talk.PADDED, 1, b"\x05abc"), "nothing, ended 1", ""),
}


@each_row("name", STRICTER)
async def test_what_grpcio_lets_pass_and_we_do_not(name: str, socket: Path) -> None:
    received, expected, _ = STRICTER[name]
    async with listening(Echo().methods(), socket):
        assert expected == await fate(socket, received)


async def test_another_protocol_is_told_off_and_cut(socket: Path) -> None:
    async with listening(Echo().methods(), socket):
        reader, writer = await asyncio.open_unix_connection(socket)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        got = b""
        while piece := await reader.read(1000):
            got += piece
        writer.close()
        assert talk.PROTOCOL_ERROR == talk.goodbye_in(got)
