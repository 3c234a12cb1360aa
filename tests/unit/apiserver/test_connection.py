"""One client on a socket: what it may send, how fast, how much, and who it is."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.apiserver.identity.certificates import client_login
from mooring.apiserver.identity.tls import ServerIdentity, identity_in
from mooring.apiserver.web import dispatch
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.server import ApiServer
from mooring.base import log
from tests.support.builders import a_secret
from tests.support.rows import each_row
from tests.unit.apiserver.serving import PATH, answered, connected, head, serving

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CORPUS = Path(__file__).parent / "hostile"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("identity")


@pytest.fixture(scope="module")
def identity(folder: Path) -> ServerIdentity:
    return identity_in(folder, time.time())


async def ended(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the server ends the connection."""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            return await reader.read()
    return b""


# -- in order


async def test_requests_sent_at_once_are_answered_in_order(identity: ServerIdentity) -> None:
    body = json.dumps(a_secret("a")).encode()
    requests = [
        head(identity, "GET", f"{PATH}/a"),
        head(identity, "POST", PATH, Content_Length=len(body), Content_Type="application/json") + body,
        head(identity, "GET", f"{PATH}/a"),
        head(identity, "DELETE", f"{PATH}/a"),
        head(identity, "GET", "/healthz", Connection="close"),
    ]
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(b"\r\n".join(requests))
        assert [404, 201, 200, 200, 200] == [(await answered(reader))[0] for _ in requests]
        assert b"" == await ended(reader)


async def test_a_request_may_come_byte_by_byte(identity: ServerIdentity) -> None:
    body = json.dumps(a_secret("a")).encode()
    chunks = b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        for byte in head(identity, "POST", PATH, Transfer_Encoding="chunked") + chunks:
            writer.write(bytes([byte]))
        assert 201 == (await answered(reader))[0]


async def test_a_client_that_asks_first_is_told_to_go_on_or_not(identity: ServerIdentity) -> None:
    body = json.dumps(a_secret("a")).encode()
    ask = {"Expect": "100-continue", "Content_Length": len(body)}
    async with serving(identity) as server:
        async with connected(server, identity) as (reader, writer):
            writer.write(head(identity, "POST", PATH, **ask))
            assert b"HTTP/1.1 100 Continue\r\n\r\n" == await reader.readexactly(25)
            writer.write(body)
            assert 201 == (await answered(reader))[0]
        async with connected(server, identity) as (reader, writer):
            writer.write(head(identity, "POST", PATH, Authorization="", **ask))
            assert 401 == (await answered(reader))[0]
            assert b"" == await ended(reader)


@pytest.mark.slow
async def test_head_and_http_1_0(identity: ServerIdentity) -> None:
    async with serving(identity) as server:
        async with connected(server, identity) as (reader, writer):
            writer.write(head(identity, "HEAD", "/healthz") + head(identity, "GET", "/healthz", Connection="close"))
            answers = await ended(reader)
            assert 2 == answers.count(b"HTTP/1.1 200 OK")
            assert 1 == answers.count(b"\r\n\r\nok")
        async with connected(server, identity) as (reader, writer):
            old = head(
                identity,
                "GET",
                f"{PATH}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            )
            writer.write(old.replace(b"watch=1", b"watch=1&allowWatchBookmarks=true").replace(b"HTTP/1.1", b"HTTP/1.0"))
            headers, _, lines = (await ended(reader)).partition(b"\r\n\r\n")
            assert b"chunked" not in headers
            assert ["BOOKMARK", "BOOKMARK"] == [json.loads(line)["type"] for line in lines.splitlines()]


@pytest.mark.slow
async def test_what_comes_during_a_watch_is_answered_after_it(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        watch = head(identity, "GET", f"{PATH}?watch=1&timeoutSeconds=1&resourceVersion=1")
        writer.write(watch + head(identity, "GET", "/healthz"))
        await reader.readuntil(b"\r\n\r\n")
        assert b"0\r\n\r\n" == await reader.readuntil(b"0\r\n\r\n")
        assert (200, b"ok") == await answered(reader)


# -- slow, quiet, many


async def test_a_head_that_comes_too_slowly_and_a_handshake_that_never_comes_are_cut_off(
    identity: ServerIdentity,
) -> None:
    async with serving(identity, limits=ConnectionLimits(slow_s=0.5)) as server:
        async with connected(server, identity) as (reader, writer):
            writer.write(b"GET / HT")
            assert b"" == await ended(reader)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(b"\x16\x03")
        assert b"" == await ended(reader)
        writer.close()


async def test_a_quiet_connection_is_ended_properly(identity: ServerIdentity) -> None:
    async with (
        serving(identity, limits=ConnectionLimits(slow_s=2.0, idle_s=0.5)) as server,
        connected(server, identity) as (reader, writer),
    ):
        writer.write(head(identity, "GET", "/healthz"))
        assert 200 == (await answered(reader))[0]
        async with asyncio.timeout(5):
            assert b"" == await reader.read(), "TLS's farewell, not a reset"


@pytest.mark.slow
async def test_a_watch_is_not_quiet(identity: ServerIdentity) -> None:
    limits = ConnectionLimits(slow_s=0.4, idle_s=0.2)
    async with serving(identity, limits=limits) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "GET", f"{PATH}?watch=1&timeoutSeconds=1&resourceVersion=1"))
        assert (await ended(reader)).endswith(b"\r\n\r\n0\r\n\r\n"), "it lived its second, and only then was quiet"


async def test_one_client_too_many_is_told_when_to_come_back(identity: ServerIdentity) -> None:
    async with serving(identity, limits=ConnectionLimits(connections=1)) as server:
        async with connected(server, identity) as (reader, writer):
            async with connected(server, identity) as (second, asks):
                asks.write(head(identity, "GET", PATH))
                text = await ended(second)
                assert text.startswith(b"HTTP/1.1 429 Too Many Requests")
                assert b"\r\nRetry-After: 1\r\n" in text
                assert "TooManyRequests" == json.loads(text.partition(b"\r\n\r\n")[2])["reason"]
            writer.write(head(identity, "GET", PATH))
            assert 200 == (await answered(reader))[0]
        async with connected(server, identity) as (reader, writer):
            writer.write(head(identity, "GET", PATH))
            assert 200 == (await answered(reader))[0]


async def test_nobody_reads_the_body_of_a_stranger(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(
            head(identity, "POST", PATH, Authorization="Bearer no", Content_Length=5)
            + b"12345"
            + head(identity, "GET", "/healthz")
        )
        assert 401 == (await answered(reader))[0]
        assert 200 == (await answered(reader))[0]


async def test_chunks_of_a_stranger_end_his_connection(identity: ServerIdentity) -> None:
    """To find the end of a body costs more than the body: nobody does it for a body that nobody wants."""
    chunks = b"1 ;\r\nx\r\n" * 1000 + b"0\r\n\r\n"
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        refused = head(identity, "POST", PATH, Authorization="Bearer no", Transfer_Encoding="chunked")
        writer.write(refused + chunks + head(identity, "GET", "/healthz"))
        assert 401 == (await answered(reader))[0]
        assert b"" == await ended(reader)


async def test_who_has_gone_leaves_nothing_behind(identity: ServerIdentity) -> None:
    async with serving(identity) as server:
        async with contextlib.AsyncExitStack() as stack:
            for number in range(20):
                reader, writer = await stack.enter_async_context(connected(server, identity))
                writer.write(head(identity, "GET", f"{PATH}?watch=1&resourceVersion=1") if number % 2 else b"GET / HT")
            await reader.readuntil(b"\r\n\r\n")
            assert (20, 10) == (server.connection_count, server.watch_count)
        async with asyncio.timeout(5):
            while server.connection_count:  # noqa: ASYNC110 (nobody says when a client has gone)
                await asyncio.sleep(0)
        assert 0 == server.watch_count


# -- who it is


def login_of(folder: Path, into: Path, name: str, *groups: str) -> tuple[Path, Path]:
    certificate, key = client_login(folder, name, groups, time.time())
    (into / "crt").write_bytes(certificate)
    (into / "key").write_bytes(key)
    return into / "crt", into / "key"


async def test_a_certificate_says_who_it_is_and_needs_no_token(
    identity: ServerIdentity, folder: Path, tmp_path: Path
) -> None:
    login = login_of(folder, tmp_path, "jane", "team-a", "team-b")
    async with serving(identity) as server, connected(server, identity, login) as (reader, writer):
        body = b"{}"
        asks = head(
            identity, "POST", REVIEW, Authorization="", Content_Length=len(body), Content_Type="application/json"
        )
        writer.write(asks + body)
        status, answer = await answered(reader)
        assert 201 == status, answer
        assert "jane" == answer["status"]["userInfo"]["username"]
        assert ["team-a", "team-b", "system:authenticated"] == answer["status"]["userInfo"]["groups"]


async def test_somebody_elses_certificate_opens_nothing(identity: ServerIdentity, tmp_path: Path) -> None:
    """Differs from kube-apiserver: refused in the handshake, before any answer."""
    other = trustme.CA().issue_cert("x", common_name="mooring-admin", organization_name="system:masters")
    other.cert_chain_pems[0].write_to_path(tmp_path / "crt")
    other.private_key_pem.write_to_path(tmp_path / "key")
    async with serving(identity) as server:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            async with connected(server, identity, (tmp_path / "crt", tmp_path / "key")) as (reader, writer):
                writer.write(head(identity, "GET", PATH))
                assert b"" == await ended(reader)


@each_row(
    "header",
    ["", "Bearer", "Bearer wrong", "Basic eDp5", "bearer {token}x", "Bearer {token}x", "Bearer  {token}", "{token}"],
)
async def test_without_the_token_it_is_401_and_a_status(identity: ServerIdentity, header: str) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(head(identity, "GET", PATH, Authorization=header.format(token=identity.token)))
        status, answer = await answered(reader)
        assert (401, "Status", "Unauthorized") == (status, answer["kind"], answer["reason"])


async def test_old_tls_is_refused(identity: ServerIdentity) -> None:
    context = ssl.create_default_context(cadata=identity.ca.decode())
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    async with serving(identity) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), ssl=context)


# -- hostile


def hostile_cases() -> list[Path]:
    return sorted(CORPUS.glob("*.http"))


def wire_of(case: Path, identity: ServerIdentity) -> bytes:
    """The file's lines end as HTTP's do; `\\n` in one is a bare line feed."""
    return case.read_bytes().replace(b"\n", b"\r\n").replace(b"@TOKEN@", identity.token.encode()).replace(b"\\n", b"\n")


@each_row("case", hostile_cases(), ids=lambda case: case.stem)
async def test_a_nasty_request_is_refused_and_nothing_after_it_is_read(identity: ServerIdentity, case: Path) -> None:
    """Each file: a request that must be refused (its name begins with the status), and another smuggled in behind
    it.
    """
    asked = wire_of(case, identity)
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        writer.write(asked)
        answers = await ended(reader)
        assert answers.startswith(f"HTTP/1.1 {case.stem.split('-')[0]} ".encode()), answers
        assert 1 == answers.count(b"\r\nDate: ")


HEADS = st.sampled_from(
    [b"GET / HTTP/1.1\r\nHost: x\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", b""]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(HEADS, st.binary(max_size=300))
def test_no_bytes_break_the_server(identity: ServerIdentity, start: bytes, noise: bytes) -> None:
    async def run() -> None:
        async with serving(identity, limits=ConnectionLimits(slow_s=0.02, idle_s=0.02, leaving_s=0.02)) as server:
            await tried(make_noise, server)
            await tried(ask_for_health, server)

    async def make_noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start + noise)
        answers = await ended(reader)
        assert b"HTTP/1.1 5" not in answers.replace(b"HTTP/1.1 501", b"").replace(b"HTTP/1.1 505", b"")

    async def ask_for_health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head(identity, "GET", "/healthz"))
        assert (200, b"ok") == await answered(reader)

    async def tried(use: Callable[..., Awaitable[None]], server: ApiServer) -> None:
        """A busy machine may keep a client longer than this server waits, in the handshake already: then again."""
        async with asyncio.timeout(20.0):
            while True:
                with contextlib.suppress(ConnectionResetError, asyncio.IncompleteReadError, BrokenPipeError):
                    async with connected(server, identity) as (reader, writer):
                        return await use(reader, writer)

    logged = io.StringIO()
    log.configure(stream=logged)
    try:
        asyncio.run(run())
    finally:
        log.configure()
    assert "could not be answered" not in logged.getvalue()


# -- large answers


async def many_secrets(
    server: ApiServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identity: ServerIdentity
) -> None:
    """Ten, of a megabyte each."""
    for number in range(10):
        body = json.dumps({**a_secret(f"s{number}"), "stringData": {"k": "x" * 700_000}}).encode()
        writer.write(head(identity, "POST", PATH, Content_Length=len(body), Content_Type="application/json") + body)
        assert 201 == (await answered(reader))[0]


async def test_of_a_large_answer_as_much_is_encrypted_as_the_client_reads(identity: ServerIdentity) -> None:
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        await many_secrets(server, reader, writer, identity)
        async with connected(server, identity) as (slow, asking):
            asking.write(head(identity, "GET", PATH) * 2)
            async with asyncio.timeout(10):
                connections = server._dispatcher.connections
                while not (unsent := sum(len(each.unsent) for each in connections)):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert unsent > 1_000_000, "what the client does not read is not in the buffers of TLS and of the socket"
            first, second = await answered(slow), await answered(slow)
            assert first[0] == second[0] == 200
            assert 10 == len(first[1]["items"]) == len(second[1]["items"])
            assert not sum(len(each.unsent) for each in server._dispatcher.connections)


async def test_while_large_answers_are_not_read_no_more_of_them_are_given(
    identity: ServerIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_UNSENT_BYTES_MAX", 10_000_000)
    async with serving(identity) as server, connected(server, identity) as (reader, writer):
        await many_secrets(server, reader, writer, identity)
        async with connected(server, identity) as (_slow, asking):
            asking.write(head(identity, "GET", PATH))
            async with asyncio.timeout(10):
                while not any(each.unsent for each in server._dispatcher.connections):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            writer.write(head(identity, "GET", PATH) + head(identity, "GET", f"{PATH}/s1"))
            assert 429 == (await answered(reader))[0]
            assert 200 == (await answered(reader))[0], "what is small is answered"
        async with asyncio.timeout(10):
            while any(each.unsent for each in server._dispatcher.connections):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        writer.write(head(identity, "GET", PATH))
        assert 200 == (await answered(reader))[0]
