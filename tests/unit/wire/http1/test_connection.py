"""A connection's exchanges: when a waiter is woken, when the socket rests, and what is good for another request."""

from __future__ import annotations

import asyncio

import pytest

from mooring.wire.http1.connection import UNREAD_BYTES_MAX, Closed, Connection
from mooring.wire.http1.syntax import BrokenOff, Malformed
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.wire.http1.fake_links import ANSWER, FakeLink, turns

pytestmark = in_virtual_time

STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


class Keeper:
    """Implements `Owner`."""

    def __init__(self) -> None:
        self.lost_ones: list[Connection] = []

    def lost(self, connection: Connection) -> None:
        self.lost_ones.append(connection)


def a_connection(answers: bytes | None = None) -> tuple[Connection, FakeLink]:
    connection = Connection(Keeper(), 0)
    return connection, FakeLink(connection, answers)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def test_an_answer_makes_the_connection_good_for_the_next() -> None:
    connection, link = a_connection(ANSWER)
    for number in range(3):
        assert (connection.is_usable, connection.is_reused) == (True, number > 0)
        head, body = await connection.ask("GET", b"the request", 1000)
        assert (200, b"{}") == (head.status, body)
        assert not connection.is_usable, "the exchange is not finished"
        assert connection.finish()
    assert [b"the request"] * 3 == link.sent


@each_row(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        ANSWER + b"HTTP/1.1 200 OK\r\n",
    ],
    ids=["the server says so", "HTTP/1.0", "bytes behind the end"],
)
async def test_a_connection_whose_answer_says_so_is_broken(answer: bytes) -> None:
    connection, link = a_connection(answer)
    await connection.ask("GET", b"x", 1000)
    assert not connection.finish()
    assert link.is_aborted


async def test_a_server_that_leaves_with_its_answer_is_not_asked_again() -> None:
    connection, link = a_connection(ANSWER)
    await connection.ask("GET", b"x", 1000)
    link.leave()
    assert not connection.finish()


async def test_an_answer_that_comes_before_the_request_is_sent_breaks_the_connection() -> None:
    """The rest of the request would be read as the beginning of the next one."""
    connection, link = a_connection(ANSWER)
    link.unsent = 1
    await connection.ask("POST", b"x", 1000)
    assert not connection.finish()
    assert link.is_aborted


async def test_a_stream_that_nobody_reads_rests_and_goes_on_when_it_is_read() -> None:
    connection, link = a_connection()
    connection.begin("GET", b"x")
    link.tell(STREAM)
    assert 200 == (await connection.head()).status
    link.tell(chunk(b"a" * UNREAD_BYTES_MAX))
    assert not link.is_paused
    link.tell(chunk(b"b"))
    assert link.is_paused
    link.tell(chunk(b"c"))  # (was under way)
    assert UNREAD_BYTES_MAX + 2 == len(await connection.some())
    assert not link.is_paused
    link.tell(chunk(b"d" * UNREAD_BYTES_MAX) + chunk(b"e") + b"0\r\n\r\n")
    assert link.is_paused
    assert UNREAD_BYTES_MAX + 1 == len(await connection.some())
    assert (b"", True) == (await connection.some(), connection.finish())
    connection.begin("GET", b"x")
    link.tell(STREAM + chunk(b"f" * UNREAD_BYTES_MAX) + chunk(b"g") + b"0\r\n\r\n")
    assert link.is_paused
    assert connection.finish(), "nobody wants to read it, and it is there to its end"
    assert not link.is_paused


async def test_a_body_that_is_asked_for_whole_never_rests() -> None:
    connection, link = a_connection()
    asked = asyncio.gather(connection.ask("GET", b"x", 10**9))
    await turns()
    link.tell(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (3 * UNREAD_BYTES_MAX))
    for _ in range(3):
        link.tell(b"a" * UNREAD_BYTES_MAX)
        assert not link.is_paused
    ((_, body),) = await asked
    assert 3 * UNREAD_BYTES_MAX == len(body)


async def test_a_body_beyond_its_bound_is_read_no_further() -> None:
    connection, link = a_connection()
    asked = asyncio.gather(connection.ask("GET", b"x", 10))
    await turns()
    link.tell(STREAM + chunk(b"a" * 10))
    await turns()
    assert not asked.done()
    link.tell(chunk(b"a"))
    ((_, body),) = await asked
    assert 11 == len(body)
    assert not connection.finish()
    assert link.is_aborted


async def test_a_body_without_a_length_ends_with_a_farewell_alone() -> None:
    """A connection that was cut would look the same."""
    reset = ConnectionResetError()
    for failure, has_farewell in ((None, True), (None, False), (reset, False), (reset, True)):
        connection, link = a_connection()
        connection.begin("GET", b"x")
        link.tell(UNTIL_CLOSE + b"half")
        link.leave(failure)
        link.has_farewell = has_farewell
        await turns()
        assert b"half" == await connection.some()
        if has_farewell and failure is None:
            assert b"" == await connection.some()
        else:
            with pytest.raises(BrokenOff) as caught:
                await connection.some()
            assert (True, failure) == (caught.value.has_head, caught.value.__cause__)
        assert not connection.finish()


@each_row(("told", "has_begun", "has_head"), [(b"", False, False), (b"HTTP", True, False), (STREAM, True, True)])
async def test_an_end_says_how_far_the_answer_had_come(told: bytes, has_begun: bool, has_head: bool) -> None:
    connection, link = a_connection()
    asked = asyncio.gather(connection.ask("GET", b"x", 10), return_exceptions=True)
    await turns()
    link.tell(told)
    link.leave()
    (error,) = await asked
    assert isinstance(error, BrokenOff)
    assert (has_begun, has_head) == (error.has_begun, error.has_head)


async def test_what_came_before_a_fault_is_read_and_then_the_fault_each_time() -> None:
    connection, link = a_connection()
    connection.begin("GET", b"x")
    link.tell(STREAM + chunk(b"good"))
    link.tell(b"zz\r\n")
    assert link.is_aborted
    assert b"good" == await connection.some()
    for _ in range(3):
        with pytest.raises(Malformed):
            await connection.some()
        await turns()  # (the connection's end is a consequence)


async def test_who_waits_is_told_when_the_time_is_over_or_the_client_closed() -> None:
    for end, error in ((Connection.give_up, TimeoutError), (Connection.close, Closed)):
        connection, link = a_connection()
        asked = asyncio.gather(connection.ask("GET", b"x", 10), return_exceptions=True)
        await turns()
        end(connection)
        assert [error] == [type(one) for one in await asked]
        assert link.is_aborted


async def test_bytes_that_nobody_asked_for_break_the_connection_and_the_owner_is_told() -> None:
    keeper = Keeper()
    connection = Connection(keeper, 0)
    link = FakeLink(connection)
    link.tell(ANSWER)
    assert link.is_aborted
    assert not connection.is_usable
    await turns()
    assert [connection] == keeper.lost_ones


async def test_a_request_on_a_connection_that_has_gone_was_never_sent() -> None:
    connection, link = a_connection()
    link.leave()
    with pytest.raises(BrokenOff) as caught:
        await connection.ask("POST", b"x", 10)
    assert ([], False) == (link.sent, caught.value.has_begun)
