"""The client's end of a connection: one exchange at a time, a request sent and its answer read as it comes.

    IDLE --begin--> BUSY --the answer is read to its end, and both sides stay--> IDLE
                    BUSY --a fault, or given up--> gone

The arriving bytes wake waiting callers: no task per connection, no queue. Bytes that have come and were not asked for
yet stay in the reader; beyond a bound the socket is not read from, so a slow reader holds the server back.
"""

from __future__ import annotations

import asyncio
import enum
from typing import Final, Protocol

from mooring.wire.http1.responses import ResponseHead, ResponseReader
from mooring.wire.http1.syntax import BrokenOff, Malformed

UNREAD_BYTES_MAX: Final = 256 * 1024
"""For a stream: with more of them unread the socket rests."""


class Closed(Exception):
    """The client was closed by its owner."""


class ByteTransport(Protocol):
    """The way of a connection's bytes: `PlainTransport` or `TlsTransport`."""

    failure: Exception | None
    has_farewell: bool

    def is_closing(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class ConnectionOwner(Protocol):
    """The pool, or whoever else opened the connection."""

    def lost(self, connection: Connection) -> None:
        """The connection has gone, whatever it was doing."""


class _Need(enum.Enum):
    """The event that a waiter waits for. The end of the answer serves each."""

    HEAD = enum.auto()
    SOME = enum.auto()
    WHOLE = enum.auto()


class Connection:
    """generation: of the pool when it was begun. idle_since: loop time.

    is_reused: it has carried an answer, or has waited for a request: the server may have closed it meanwhile.

    Methods that wait raise BrokenOff (its cause says why, if anything is known), Malformed, Closed, and TimeoutError
    after `give_up`. One that is cancelled leaves the exchange unfinished: `abort` then.
    """

    __slots__ = (
        "_bytes_max",
        "_end_of_link",
        "_failure",
        "_is_paused",
        "_is_secured",
        "_link",
        "_loop",
        "_need",
        "_owner",
        "_reader",
        "_waiter",
        "generation",
        "idle_since",
        "is_reused",
    )

    def __init__(self, owner: ConnectionOwner, generation: int) -> None:
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._link: ByteTransport | None = None
        self._reader: ResponseReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._end_of_link: Exception | None = None
        self._need, self._bytes_max = _Need.WHOLE, 0
        self._is_paused = self._is_secured = False
        self.generation, self.idle_since, self.is_reused = generation, 0.0, False

    @property
    def is_usable(self) -> bool:
        """True while another exchange may begin on it."""
        return self._reader is None and self._link is not None and not self._link.is_closing()

    async def secure(self) -> None:
        """Waits until the link's handshake is done. Raises OSError (an ssl.SSLError is one), ValueError, Closed.

        A server that takes its leave with the handshake's last bytes has made no connection either.
        """
        if not self._is_secured:
            await self._wait()
        if not self.is_usable:
            raise self._failure or (self._link and self._link.failure) or ConnectionResetError()

    # an exchange

    async def ask(self, method: str, data: bytes, bytes_max: int) -> tuple[ResponseHead, bytes]:
        """Sends a whole request and gives its whole answer. A body of more than bytes_max is a part of one that is too
        long.
        """
        reader = self.begin(method, data)
        self._need, self._bytes_max = _Need.WHOLE, bytes_max
        await self._wait()
        assert reader.head is not None
        return reader.head, reader.take()

    def begin(self, method: str, data: bytes) -> ResponseReader:
        """Sends a request; `head` and `some` wait for its answer."""
        assert self._reader is None
        reader = self._reader = ResponseReader(method)
        if self._link is None or self._link.is_closing():
            self._break(self._end_of_link if self._link is None else self._link.failure)
        else:
            self._link.write(data)
        return reader

    async def head(self) -> ResponseHead:
        """The answer's head."""
        reader = self._busy()
        if reader.head is None:
            self._need = _Need.HEAD
            await self._wait()
        assert reader.head is not None
        return reader.head

    async def some(self) -> bytes:
        """The bytes of the body that have come, b"" at its end."""
        reader = self._busy()
        if not reader.unread and not reader.is_done:
            self._need = _Need.SOME
            await self._wait()
        data = reader.take()
        if self._is_paused and self._link is not None:
            self._is_paused = False
            self._link.resume_reading()
        return data

    def finish(self) -> bool:
        """Ends the exchange. True when the connection is good for another; else it is closed."""
        reader, link = self._reader, self._link
        if reader is None or link is None:
            return False
        if not reader.keep_alive or link.is_closing() or link.get_write_buffer_size():
            link.abort()
            return False
        if self._is_paused:
            self._is_paused = False
            link.resume_reading()
        self._reader = None
        self.is_reused = True
        return True

    # its ends

    def give_up(self) -> None:
        """The time is over."""
        self._fail(TimeoutError())

    def close(self) -> None:
        """The client is closed."""
        self._fail(Closed("the client is closed"))

    def abort(self) -> None:
        """Breaks the connection at once; a polite TLS farewell would wait for the peer's."""
        if self._link is not None:
            self._link.abort()

    # what the link says

    def connected(self, link: ByteTransport) -> None:
        self._link = link

    def secured(self) -> None:
        self._is_secured = True
        self._wake()

    def received(self, data: bytes) -> None:
        reader = self._reader
        if reader is None:
            self.abort()  # nobody asked: it would be taken for the next request's answer
            return
        try:
            reader.feed(data)
        except Malformed as error:
            self._fail(error)
            return
        if self._waiter is not None:
            if self._is_served(reader):
                self._wake()
        elif reader.unread > UNREAD_BYTES_MAX and not self._is_paused and self._link is not None:
            self._is_paused = True
            self._link.pause_reading()

    def writable(self, yes: bool) -> None:
        """(A request is handed over whole, and its deadline holds for the sending as well.)"""

    def lost(self) -> None:
        link, self._link = self._link, None
        self._owner.lost(self)
        assert link is not None
        self._end_of_link = link.failure
        reader = self._reader
        if reader is None:
            if not self._is_secured:
                self._fail(link.failure or ConnectionResetError())
        elif not reader.is_done:
            self._end(reader, link)

    # inside

    def _end(self, reader: ResponseReader, link: ByteTransport) -> None:
        """The connection has gone in the middle of an answer; that was its end, if it has no length and the peer took
        its leave.
        """
        try:
            if link.has_farewell and link.failure is None:
                reader.end()
        except BrokenOff:
            pass
        if reader.is_done:
            self._wake()
        else:
            self._break(link.failure)

    def _break(self, cause: Exception | None) -> None:
        reader = self._busy()
        failure = BrokenOff(has_begun=reader.has_begun, has_head=reader.head is not None)
        failure.__cause__ = cause
        self._fail(failure)

    def _fail(self, failure: Exception) -> None:
        """The first failure counts: those that follow are its consequences."""
        if self._failure is None:
            self._failure = failure
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._failure)
        self.abort()

    def _busy(self) -> ResponseReader:
        assert self._reader is not None
        return self._reader

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                waiter.exception()  # (it failed in the same turn: nobody else will hear of it)
            raise
        finally:
            self._waiter = None

    def _is_served(self, reader: ResponseReader) -> bool:
        if reader.is_done:
            return True
        if self._need is _Need.WHOLE:
            return reader.unread > self._bytes_max
        return reader.head is not None and (self._need is _Need.HEAD or reader.unread > 0)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
