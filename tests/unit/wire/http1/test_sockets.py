"""Sockets to a host: which addresses are tried, when, and what is told when none answers."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.wire.http1 import sockets
from mooring.wire.http1.sockets import in_turn, open_socket

V4, V6 = socket.AF_INET, socket.AF_INET6


@contextlib.contextmanager
def listening(host: str, *, full: bool = False) -> Iterator[int]:
    """A port. full: its line of new connections has no place left, so that another one hears nothing at all."""
    family = V6 if ":" in host else V4
    with (
        socket.create_server((host, 0), family=family, backlog=0 if full else 10) as server,
        contextlib.ExitStack() as stack,
    ):
        place = server.getsockname()
        for _ in range(2 if full else 0):
            filling = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            filling.setblocking(False)
            filling.connect_ex(place)
        yield place[1]


@contextlib.contextmanager
def listening_beside_a_full_one() -> Iterator[int]:
    """A port that is full at 127.0.0.2 and answers at 127.0.0.1. Another program may have it there: then the next."""
    with contextlib.ExitStack() as stack:
        while True:
            port = stack.enter_context(listening("127.0.0.2", full=True))
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                break
        yield port


def resolved(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """The name `server.example` has these addresses."""

    async def getaddrinfo(host: str, port: int, **options: Any) -> list[sockets.Address]:
        assert host == "server.example"
        found = []
        for one in hosts:
            found += socket.getaddrinfo(
                one, port, type=options["type"], proto=options["proto"], flags=socket.AI_NUMERICHOST
            )
        return found

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_socket_probes_its_peer_and_sends_at_once() -> None:
    with listening("127.0.0.1") as port, await open_socket("127.0.0.1", port) as made:
        options = (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
            (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL),
            (socket.IPPROTO_TCP, socket.TCP_KEEPCNT),
        )
        assert [1, 1, 30, 10, 3] == [made.getsockopt(level, option) for level, option in options]
        assert not made.getblocking()


async def test_an_address_needs_no_resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch)  # (which knows neither)
    for host in ("127.0.0.1", "::1"):
        with listening(host) as port, await open_socket(host, port) as made:
            assert (host, port) == made.getpeername()[:2]


async def test_a_name_without_an_address_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch)
    with pytest.raises(socket.gaierror):
        await open_socket("server.example", 1)


async def test_the_first_address_is_used_where_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening("127.0.0.2") as port:
        resolved(monkeypatch, "127.0.0.2", "127.0.0.1")
        with await open_socket("server.example", port) as made:
            assert made.getpeername()[0] == "127.0.0.2"


async def test_the_next_address_is_tried_when_one_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECOND_TRY_S", 1000.0)
    with listening("127.0.0.1") as port:
        resolved(monkeypatch, "::1", "127.0.0.2", "127.0.0.1")
        before = open_files()
        with await open_socket("server.example", port) as made:
            assert made.getpeername()[0] == "127.0.0.1"
            assert before + 1 == open_files()


async def test_the_next_address_is_tried_beside_one_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECOND_TRY_S", 0.01)
    with listening_beside_a_full_one() as port:
        resolved(monkeypatch, "127.0.0.2", "127.0.0.1")
        before = open_files()
        with await open_socket("server.example", port) as made:
            assert made.getpeername()[0] == "127.0.0.1"
            assert before + 1 == open_files(), "the first try is over, and its socket closed"
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_of_two_that_connect_at_once_one_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECOND_TRY_S", 0.001)
    connect, both = asyncio.get_running_loop().sock_connect, asyncio.Barrier(2)

    async def together(made: socket.socket, place: Any) -> None:
        await connect(made, place)
        await both.wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", together)
    with listening("127.0.0.1") as port:
        resolved(monkeypatch, "127.0.0.1", "127.0.0.1")
        before = open_files()
        with await open_socket("server.example", port):
            assert before + 1 == open_files()


async def test_who_gives_up_leaves_no_socket_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SECOND_TRY_S", 0.001)
    with listening("127.0.0.2", full=True) as port:
        resolved(monkeypatch, "127.0.0.2", "127.0.0.2")
        before = open_files()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await open_socket("server.example", port)
        assert before == open_files()
    assert {asyncio.current_task()} == asyncio.all_tasks()


async def test_of_several_errors_the_telling_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without IPv6 would say that of each server that is down."""
    with listening("127.0.0.1") as port:
        pass
    connect = asyncio.get_running_loop().sock_connect

    async def without_ipv6(made: socket.socket, place: Any) -> None:
        if made.family == V6:
            raise OSError(errno.ENETUNREACH, "Network is unreachable")
        await connect(made, place)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", without_ipv6)
    for hosts in (("::1", "127.0.0.1"), ("127.0.0.1", "::1")):
        resolved(monkeypatch, *hosts)
        with pytest.raises(ConnectionRefusedError):
            await open_socket("server.example", port)
    resolved(monkeypatch, "::1", "::1")
    with pytest.raises(OSError, match="Network is unreachable"):
        await open_socket("server.example", port)


def test_families_take_turns_from_the_resolver_s_first() -> None:
    six, four = [(V6, n) for n in range(3)], [(V4, n) for n in range(2)]
    assert [six[0], four[0], six[1], four[1], six[2]] == in_turn([*six, *four])
    assert [four[0], six[0], four[1], six[1], six[2]] == in_turn([*four, *six])
    assert four == in_turn(four)
