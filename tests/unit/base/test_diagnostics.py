"""The small HTTP server: what it answers, and its bounds. Over real sockets on loopback, without waiting."""

import asyncio
import contextlib
import itertools
import socket

import pytest

from mooring.base import diagnostics, log
from mooring.base.diagnostics import CONNECTIONS_MAX, Diagnostics, Reply, split_address
from mooring.base.errors import ConfigError
from tests.support.layers import IPV6, not_tested
from tests.support.rows import each_row


async def fine():
    return Reply(200, "ok")


async def broken():
    raise RuntimeError("secret")


@contextlib.asynccontextmanager
async def serving(address="127.0.0.1:0", connection_s=10.0, **routes):
    server = Diagnostics({"/healthz": fine, "/broken": broken, **routes}, connection_s=connection_s)
    bound = await server.start(address)
    try:
        yield bound
    finally:
        await server.close()


async def exchange(bound, request):
    """(status line, headers, body) of one request given as bytes."""
    reader, writer = await asyncio.open_connection(*bound)
    try:
        writer.write(request)
        head, _, body = (await asyncio.wait_for(reader.read(), 5)).partition(b"\r\n\r\n")
    finally:
        writer.close()
        await writer.wait_closed()
    status, *headers = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in headers), body.decode()


async def asked(bound, path, method="GET"):
    return await exchange(bound, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def test_a_known_path_is_answered():
    async with serving() as bound:
        status, headers, body = await asked(bound, "/healthz")
    assert ("HTTP/1.1 200 OK", "ok") == (status, body)
    assert ("2", "close", "text/plain; charset=utf-8") == (
        headers["Content-Length"],
        headers["Connection"],
        headers["Content-Type"],
    )


async def test_the_query_does_not_count():
    async with serving() as bound:
        assert "HTTP/1.1 200 OK" == (await asked(bound, "/healthz?verbose=1"))[0]


async def test_head_has_the_same_head_and_no_body():
    async with serving() as bound:
        status, headers, body = await asked(bound, "/healthz", "HEAD")
    assert ("HTTP/1.1 200 OK", "2", "") == (status, headers["Content-Length"], body)


@each_row("path", ["/", "/unknown", "/healthz/", "/healthz/leader-election"])
async def test_HT03_an_unknown_path_is_404(path):
    async with serving() as bound:
        assert "HTTP/1.1 404 Not Found" == (await asked(bound, path))[0]


async def test_other_methods_are_405():
    async with serving() as bound:
        status, headers, _ = await exchange(
            bound, b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        )
    assert ("HTTP/1.1 405 Method Not Allowed", "GET, HEAD") == (status, headers["Allow"])


async def test_a_refused_client_gets_its_answer_in_spite_of_what_it_still_sends():
    """Closing on unread bytes would reset the connection, and the answer would be lost with it."""
    async with serving() as bound:
        status, _, body = await exchange(
            bound, b"POST /healthz HTTP/1.1\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60_000
        )
    assert ("HTTP/1.1 405 Method Not Allowed", "only GET and HEAD are allowed\n") == (status, body)


async def test_headers_of_a_usual_size_are_taken():
    async with serving() as bound:
        assert (
            "HTTP/1.1 200 OK"
            == (await exchange(bound, b"GET /healthz HTTP/1.1\r\nCookie: " + b"x" * 8_000 + b"\r\n\r\n"))[0]
        )


@each_row(
    "head",
    [
        b"rubbish",
        b"GET /healthz",
        b"GET /healthz HTTP/2",
        b"GET  /healthz HTTP/1.1",
        b"\x16\x03\x01",
        b"GET http://x/ HTTP/1.1",
    ],
)
async def test_what_is_no_http_request_is_400(head):
    async with serving() as bound:
        assert "HTTP/1.1 400 Bad Request" == (await exchange(bound, head + b"\r\n\r\n"))[0]


async def test_long_headers_are_431_and_are_not_kept():
    async with serving() as bound:
        status, _, _ = await exchange(bound, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n")
    assert "HTTP/1.1 431 Request Header Fields Too Large" == status


async def test_an_answer_that_fails_is_500_and_keeps_its_reason_in_the_log(capsys):
    async with serving() as bound:
        status, _, body = await asked(bound, "/broken")
    assert ("HTTP/1.1 500 Internal Server Error", "internal server error\n") == (status, body)
    assert 'err="secret" path="/broken"' in capsys.readouterr().err


async def test_a_slow_client_is_cut():
    async with serving(connection_s=0.02) as bound:
        reader, writer = await asyncio.open_connection(*bound)
        writer.write(b"GET /heal")
        with contextlib.suppress(ConnectionError):
            assert b"" == await asyncio.wait_for(reader.read(), 5)
        writer.close()


async def test_a_client_that_only_knocks_is_no_error(capsys):
    async with serving() as bound:
        _, writer = await asyncio.open_connection(*bound)
        writer.close()
        await writer.wait_closed()
        assert "HTTP/1.1 200 OK" == (await asked(bound, "/healthz"))[0]
    assert "" == capsys.readouterr().err


@contextlib.asynccontextmanager
async def held(bound, *addresses):
    """Silent connections in this order, each from its address of loopback."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for address in addresses:
            reader, writer = await asyncio.open_connection(*bound, local_addr=(address, 0))
            stack.callback(writer.close)
            found.append((reader, writer))
        yield found


async def reply_to(connection):
    """The first bytes of the answer to a request, b"" from one that was cut."""
    reader, writer = connection
    with contextlib.suppress(ConnectionError):
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        return (await asyncio.wait_for(reader.read(), 5))[:12]
    return b""


async def test_silent_connections_keep_no_probe_out():
    """Else any pod that can reach the port has the kubelet kill the program."""
    async with serving() as bound, held(bound, *["127.0.0.1"] * CONNECTIONS_MAX) as open_ones:
        assert "HTTP/1.1 200 OK" == (await asked(bound, "/healthz"))[0]
        assert [b"", b"HTTP/1.1 200"] == [await reply_to(one) for one in open_ones[:2]]


async def test_the_address_with_most_connections_makes_room():
    async with serving() as bound, held(bound, "127.0.0.1", *["127.0.0.2"] * (CONNECTIONS_MAX + 10)) as open_ones:
        assert [b"HTTP/1.1 200", *[b""] * 11] == [await reply_to(one) for one in open_ones[:12]]


async def test_who_has_asked_is_cut_after_who_has_not():
    async def never():
        await asyncio.Event().wait()

    async with serving(**{"/never": never}) as bound, held(bound, *["127.0.0.1"] * CONNECTIONS_MAX) as open_ones:
        open_ones[0][1].write(b"GET /never HTTP/1.1\r\n\r\n")
        assert "HTTP/1.1 200 OK" == (await asked(bound, "/healthz"))[0]  # (what was written before has been read)
        assert "HTTP/1.1 200 OK" == (await asked(bound, "/healthz"))[0]
        assert b"" == await reply_to(open_ones[1])
        assert not open_ones[0][0].at_eof()


async def test_a_flood_of_connections_is_logged_once(capsys):
    log.configure(verbosity=2)
    try:
        async with serving() as bound, held(bound, *["127.0.0.1"] * (CONNECTIONS_MAX + 20)):
            await asked(bound, "/healthz")
    finally:
        log.configure()
    assert 1 == capsys.readouterr().err.count("Too many diagnostics connections")


async def test_of_many_who_connect_so_many_are_accepted_in_one_turn():
    server, seen = Diagnostics({}), [0]
    bound = await server.start("127.0.0.1:0")
    with contextlib.ExitStack() as stack:
        count = 3 * diagnostics._ACCEPTED_AT_ONCE
        for _ in range(count):
            stack.enter_context(socket.create_connection(bound))
        async with asyncio.timeout(5):
            while seen[-1] < count:
                await asyncio.sleep(0)
                seen.append(len(server._connections))
    await server.close()
    assert max(after - before for before, after in itertools.pairwise(seen)) <= diagnostics._ACCEPTED_AT_ONCE


@each_row(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("2001:db8::1:2:3:4", "2001:db8::5", True),
        ("2001:db8:0:1::5", "2001:db8::5", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_a_network_of_ipv6_has_one_share(one, other, is_same):
    assert is_same == (diagnostics._client((one, 9)) == diagnostics._client((other, 10)))


def test_a_client_that_is_gone_has_no_address():
    assert "" == diagnostics._client(None)


async def test_closing_cuts_what_is_open():
    server = Diagnostics({"/healthz": fine})
    bound = await server.start("127.0.0.1:0")
    reader, writer = await asyncio.open_connection(*bound)
    async with asyncio.timeout(5):  # less than a slow client gets
        await server.close()
        await server.close()
    with contextlib.suppress(ConnectionError):
        assert b"" == await asyncio.wait_for(reader.read(), 5)
    writer.close()
    with pytest.raises(OSError):
        await asyncio.open_connection(*bound)


async def test_HT02_a_taken_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(
            ConfigError, match=f'cannot listen on "{address}": .*in use; choose another address'
        ) as refusal:
            await Diagnostics({}).start(address)
    assert refusal.value.exit_code == 1


async def test_HT02_a_port_taken_on_all_interfaces_is_named_too():
    async with serving(":0") as (_, port):
        with pytest.raises(ConfigError, match=f'cannot listen on ":{port}": .*in use'):
            await Diagnostics({}).start(f":{port}")


async def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(ConfigError, match=r'cannot listen on "no-such-host\.invalid:80": '):
        await Diagnostics({}).start("no-such-host.invalid:80")


async def test_a_port_alone_takes_ipv6_too():
    if not socket.has_dualstack_ipv6():
        not_tested(IPV6, "this machine has none")
    async with serving(":0") as (_, port):
        assert "HTTP/1.1 200 OK" == (await asked(("::1", port), "/healthz"))[0]


async def test_a_port_alone_is_all_interfaces():
    async with serving(":0") as (_, port):
        assert "HTTP/1.1 200 OK" == (await asked(("127.0.0.1", port), "/healthz"))[0]


async def test_a_name_is_looked_up_and_ipv4_comes_first():
    async with serving("localhost:0") as bound:
        assert "127.0.0.1" == bound[0]


@each_row(
    ("address", "expected"),
    [
        (":8080", ("", 8080)),
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("[::1]:80", ("::1", 80)),
        ("[::]:80", ("::", 80)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_the_forms_of_an_address(address, expected):
    assert expected == split_address(address)


@each_row(
    "address",
    [
        "8080",
        "localhost",
        "localhost:",
        "localhost:http",
        "::1:80",
        "[::1:80",
        "::1]:80",
        ":65536",
        ":99999",
        ":-1",
        "http://x:80",
        ":８０",
    ],
)
def test_what_is_no_address_is_refused_by_name(address):
    with pytest.raises(ConfigError, match="no address to listen on") as refusal:
        split_address(address)
    assert f'"{address}"' in str(refusal.value)
