"""A connection goes step by step, in its client's line; checked with a link and a host of the test's own."""

from __future__ import annotations

import asyncio
import math

from mooring.apiserver.web.connection import _REQUESTS_A_TURN, Connection
from mooring.apiserver.web.limits import ConnectionLimits
from mooring.apiserver.web.messages import TEXT, HttpReply, HttpRequest
from mooring.base.turns import Line, Turns
from mooring.wire.http1.requests import RequestHead

ASKED = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Here:
    """The `Host`: whatever is asked, the answer is yes."""

    limits = ConnectionLimits()

    def __init__(self) -> None:
        self.turns = Turns()
        self.answered, self.at_s = 0, 0.0

    def now(self) -> float:
        return self.at_s

    def date(self) -> str:
        return ""

    def line(self) -> Line:
        return self.turns.line()

    def connected(self, connection: Connection) -> None: ...
    def readable(self, connection: Connection) -> None: ...
    def ended(self, connection: Connection) -> None: ...
    def lost(self, connection: Connection) -> None: ...

    def begin(self, connection: Connection, head: RequestHead) -> tuple[HttpRequest, HttpReply | None]:
        return HttpRequest(head.method, head.path(), {}, head.headers), None

    def answer(self, connection: Connection, head: RequestHead, request: HttpRequest, body: bytes | None) -> None:
        self.answered += 1
        connection.reply(HttpReply(200, b"yes", TEXT))


class Wire:
    """The link. lost_after: so many answers it is lost, of which the loop tells a turn later."""

    is_secured = True

    def __init__(self, lost_after: int = 10_000) -> None:
        self.sent, self._lost_after = 0, lost_after

    def certificate(self) -> None:
        """None was shown."""

    def is_closing(self) -> bool:
        return self.sent >= self._lost_after

    def write(self, data: bytes) -> None:
        self.sent += 1

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def joined(host: Here, wire: Wire) -> Connection:
    connection = Connection(host)
    connection.connected(wire)  # type: ignore[arg-type]  # (as much of a TlsTransport as is asked for)
    connection.secured()
    return connection


async def test_of_many_requests_of_one_client_so_many_are_read_before_others_have_their_turn() -> None:
    host, many, one = Here(), Wire(), Wire()
    asks, probes = joined(host, many), joined(host, one)
    seen = []

    def together() -> None:
        asks.received(ASKED * 100)
        seen.append(many.sent)
        probes.line.take(lambda: probes.received(ASKED))

    asks.line.take(together)
    assert [_REQUESTS_A_TURN] == seen
    async with asyncio.timeout(10):
        while many.sent < 100:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)
    assert (100, 1) == (many.sent, one.sent)


async def test_a_client_that_has_gone_is_answered_no_more() -> None:
    """The loop tells of a lost connection in its next turn; each answer until then was made for nobody."""
    host, wire = Here(), Wire(lost_after=1)
    joined(host, wire).received(ASKED * 20)
    assert (1, 1) == (wire.sent, host.answered)


async def test_a_client_has_so_long_for_each_step_from_its_begin() -> None:
    """Further bytes of the same step give it no more time."""
    host, limits = Here(), Here.limits
    connection = joined(host, Wire())
    assert limits.slow_s == connection.deadline
    steps = (
        (ASKED, limits.idle_s),
        (b"POST / HTTP/1.1\r\n", limits.slow_s),
        (b"Host: x\r\n", None),
        (b"Content-Length: 3\r\n\r\na", limits.slow_s),
    )
    for data, left_s in (*steps, (b"b", None), (b"c", limits.idle_s)):
        host.at_s += 1
        wanted = connection.deadline if left_s is None else host.at_s + left_s
        connection.received(data)
        assert wanted == connection.deadline, data
    assert 2 == host.answered


class Watched(Here):
    """Each answer is a watch."""

    def answer(self, connection: Connection, head: RequestHead, request: HttpRequest, body: bytes | None) -> None:
        assert connection.stream()


async def test_a_watch_with_a_request_behind_it_has_no_deadline() -> None:
    """It goes on for as long as it was asked for; the request that came with it waits."""
    connection = joined(Watched(), Wire())
    connection.received(ASKED * 2)
    assert math.inf == connection.deadline


async def test_empty_lines_are_taken_away_at_once() -> None:
    host, wire = Here(), Wire()
    connection = joined(host, wire)
    steps = 0

    class Counting(bytearray):
        def __delitem__(self, place: object) -> None:
            nonlocal steps
            steps += 1
            super().__delitem__(place)  # type: ignore[arg-type]

    connection._buffer = Counting()
    connection.received(b"\r\n" * 10_000 + ASKED)
    assert 1 == wire.sent
    assert steps <= 2
