"""One connection to a server: a socket, the HTTP/2 connection on it, and the calls that wait for an answer.

The socket is read and written by callbacks of the event loop, without a transport or a task: connecting to a unix
socket never waits, and all calls of one turn of the loop go out in one write. A call behind a fence goes out at once,
while the fence is open.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final, Protocol

from mooring.base import fence
from mooring.base.log import logger
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.connection import Connection
from mooring.wire.grpc.errors import DEADLINE_TEXT
from mooring.wire.grpc.events import Answered, Event, Gone, Leaving, Settled
from mooring.wire.grpc.frames import READ_BYTES

_log = logger(__name__)

CROWDED_BYTES: Final = 8 * 1024 * 1024
"""For requests that lie here since the peer has taken in all before them: from then on no call begins until it has
taken them, too.
"""
_CALL_BYTES: Final = 256
"""About what a call takes beside its message."""
_LAST_READS_MAX: Final = 64
"""For bytes that a peer sent before it closed: far more than a unix socket holds."""


class LinkOwner(Protocol):
    """The owner of a link, which gets the link's events."""

    def link_settled(self, link: Link) -> None:
        """The peer speaks HTTP/2: calls may begin. Once."""

    def link_leaving(self, link: Link) -> None:
        """No more calls may begin; those that did go on. At most once."""

    def link_drained(self, link: Link) -> None:
        """The peer has taken in all that was waiting, of a link that was crowded."""

    def link_gone(self, link: Link, text: str) -> None:
        """All calls are over, and the socket is closed. Once, and the last word. text: why."""


class Link:
    """peer: a connected socket that does not block; the link's from now on. Ends with `close`, or when the peer ends
    it.
    """

    def __init__(self, peer: socket.socket, owner: LinkOwner) -> None:
        self._socket, self._owner = peer, owner
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(now=self._loop.time)
        self._calls: dict[int, asyncio.Future[Answered]] = {}
        self._rest = memoryview(b"")
        self._begun_bytes = 0  # of calls, since all was written
        self._flushing: asyncio.Handle | None = None
        self._gone = False
        self.over = asyncio.Event()
        """Set when no more calls may begin, as far as the owner was told."""

    def start(self) -> None:
        """Sends the preface, and reads from now on. The owner gets the answer."""
        self._loop.add_reader(self._socket, self._read)
        self._write(self._connection.start())

    @property
    def is_open(self) -> bool:
        """True while calls may begin."""
        return self._connection.is_open

    @property
    def is_crowded(self) -> bool:
        """True when the peer has to read before another call may begin."""
        return self._begun_bytes > CROWDED_BYTES

    async def call(self, path: str, message: bytes, timeout_s: float) -> Answered:
        """The answer of one call, or what ended it: DeadlineExceeded in Go's words when the time is over. Only while
        `is_open`.

        A caller who is cancelled, or late, cancels the call at the server.
        """
        refusal = fence.refusal()
        stream_id = self._connection.begin(path, message, timeout_s, refusal)
        answer: asyncio.Future[Answered] = self._loop.create_future()
        self._calls[stream_id] = answer
        self._begun_bytes += len(message) + _CALL_BYTES
        timer = self._loop.call_later(timeout_s, _late, stream_id, answer)
        if refusal is None:
            self._flush_soon()
        else:
            self._flush()
        try:
            return await answer
        finally:
            timer.cancel()
            if self._calls.pop(stream_id, None) is not None:
                self._carry_out(self._connection.cancel(stream_id))
                self._flush_soon()

    def close(self) -> None:
        """Ends the connection, and every call on it as Canceled."""
        self._carry_out(self._connection.close())

    # -- the socket

    def _read(self) -> None:
        """Handles the bytes that have come; called when there are some."""
        data = self._received()
        if data is not None:
            self._carry_out(self._connection.receive(data) if data else self._connection.lost())
            self._flush()

    def _received(self) -> bytes | None:
        """None when there are no bytes yet, b"" at the end."""
        try:
            return self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _flush_soon(self) -> None:
        """In the next turn of the loop, so that calls which begin in this one go out together."""
        if self._flushing is None:
            self._flushing = self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes the waiting bytes, unless the system has not taken the earlier ones yet."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if not self._gone and not self._rest and self._connection.has_to_send:
            self._write(self._connection.to_send())
            if not self._rest:
                self._drained()

    def _write(self, data: bytes) -> None:
        sent = self._sent(data)
        if sent is not None and sent < len(data):
            self._rest = memoryview(data)[sent:]
            self._loop.add_writer(self._socket, self._write_rest)

    def _write_rest(self) -> None:
        sent = self._sent(self._rest)
        if sent is None:
            return
        self._rest = self._rest[sent:]
        if not self._rest:
            self._loop.remove_writer(self._socket)
            self._drained()
            self._flush()

    def _drained(self) -> None:
        """The system has taken in all that was written."""
        was_crowded, self._begun_bytes = self.is_crowded, 0
        if was_crowded:
            self._owner.link_drained(self)

    def _sent(self, data: bytes | memoryview) -> int | None:
        """The number of bytes that the system has taken; None when the peer has closed, and the link is over."""
        try:
            return self._socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._hear_the_end()
            return None

    def _hear_the_end(self) -> None:
        """Reads the bytes that the peer sent before it closed: maybe answers."""
        for _ in range(_LAST_READS_MAX):
            data = self._received()
            if not data or self._gone:
                break
            self._carry_out(self._connection.receive(data))
        self._carry_out(self._connection.lost())

    # -- what the connection says

    def _carry_out(self, events: Iterable[Event]) -> None:
        for event in events:
            if type(event) is Answered:
                self._answered(event)
            elif isinstance(event, Gone):
                self._end(event)
            elif isinstance(event, Leaving):
                self._leave()
            elif isinstance(event, Settled):
                self._owner.link_settled(self)

    def _answered(self, event: Answered) -> None:
        answer = self._calls.pop(event.stream_id, None)
        if answer is not None and not answer.done():
            answer.set_result(event)

    def _leave(self) -> None:
        self.over.set()
        self._owner.link_leaving(self)

    def _end(self, event: Gone) -> None:
        assert not self._calls, "calls without an answer"
        if event.broken:
            _log.warning("The server's bytes are no HTTP/2, or too many: ending the connection", reason=event.text)
        self._gone = True
        self._say_goodbye()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        if self._flushing is not None:
            self._flushing.cancel()
        self._socket.close()
        self.over.set()
        self._owner.link_gone(self, event.text)

    def _say_goodbye(self) -> None:
        """One try to send what is left, GOAWAY: the peer may not listen any more, and is not waited for."""
        try:
            if not self._rest:
                self._socket.send(self._connection.to_send())
        except OSError:
            pass


def _late(stream_id: int, answer: asyncio.Future[Answered]) -> None:
    if not answer.done():
        answer.set_result(Answered(stream_id, Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))
