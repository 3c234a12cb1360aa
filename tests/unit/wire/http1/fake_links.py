"""A link of no network: the test is the server, and sees what was done to each connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.wire.http1.connection import Connection, ConnectionOwner

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class FakeLink:
    """Implements `Link`. sent: what was written. answers: what is told to `Connection.received` in the turn after each
    write.
    """

    def __init__(self, connection: Connection, answers: bytes | None = None) -> None:
        self.connection = connection
        self.sent: list[bytes] = []
        self.failure: Exception | None = None
        self.has_farewell = self.is_aborted = self.is_paused = self._is_closing = False
        self.unsent = 0
        self._answers = answers
        connection.connected(self)
        connection.secured()

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        assert not self._is_closing, "written to a link that is closing"
        self.sent.append(data)
        if self._answers is not None:
            asyncio.get_running_loop().call_soon(self.tell, self._answers)

    def tell(self, data: bytes) -> None:
        """The server sends."""
        if not self._is_closing:
            self.connection.received(data)

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = self.is_aborted = True
            asyncio.get_running_loop().call_soon(self.connection.lost)

    def leave(self, failure: Exception | None = None) -> None:
        """The server ends the connection: in good order, or by this failure."""
        if not self._is_closing:
            self._is_closing, self.failure, self.has_farewell = True, failure, failure is None
            asyncio.get_running_loop().call_soon(self.connection.lost)

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False


class FakeDials:
    """Dials that the test ends: `links` in the order in which they were begun; None while the dial goes on."""

    def __init__(self, answers: bytes | None = ANSWER, *, at_once: bool = False) -> None:
        self.links: list[FakeLink | None] = []
        self.cancelled: list[int] = []
        self.under_way = 0
        self.most_under_way = 0
        self._answers, self._at_once = answers, at_once
        self._ends: list[asyncio.Future[None]] = []

    async def dial(self, owner: ConnectionOwner, generation: int) -> Connection:
        number = len(self.links)
        self.links.append(None)
        self._ends.append(asyncio.get_running_loop().create_future())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if not self._at_once:
                await self._ends[number]
            connection = Connection(owner, generation)
            self.links[number] = FakeLink(connection, self._answers)
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        else:
            return connection
        finally:
            self.under_way -= 1

    def succeed(self, number: int) -> None:
        self._ends[number].set_result(None)

    def fail(self, number: int, error: Exception) -> None:
        self._ends[number].set_exception(error)

    def link(self, number: int) -> FakeLink:
        link = self.links[number]
        assert link is not None
        return link


async def turns(count: int = 5) -> None:
    """So many turns of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(check: Callable[[], object]) -> None:
    """Turns of the loop until it is so; a virtual loop tells when it never will be."""
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to be in a thousand turns")
