"""One HTTP/2 connection of a client's: bytes in, calls out; answers in, bytes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.wire.grpc import frames
from mooring.wire.grpc.events import Gone
from mooring.wire.grpc.frame_reader import FrameReader
from mooring.wire.grpc.frames import PREFACE, BrokenConnection, ErrorCode
from mooring.wire.grpc.header_decoder import HeaderDecoder
from mooring.wire.grpc.sending import Sending
from mooring.wire.grpc.serving.call_headers import read_call_headers
from mooring.wire.grpc.serving.calls import WINDOW_BYTES, ServedCalls
from mooring.wire.grpc.serving.events import Event
from mooring.wire.grpc.serving.limits import FEW, ServerLimits
from mooring.wire.grpc.settings import changed, our_settings

HEADER_BYTES_MAX: Final = 64 * 1024
"""For one request's headers. A client of ours sends 200 bytes."""


class ServerConnection:
    """The server's side of one connection, from its first byte to its last. Not for use by several threads.

    After each call of a method look at `to_send`, and write what it returns. Don't read on while what it returned is
    not written: what waits here is bounded by that. Every method may be called after Gone, and does nothing then.
    now: a monotonic clock in seconds, for deadlines. limits: those of connections are for whoever accepts them.
    """

    def __init__(self, *, now: Callable[[], float], limits: ServerLimits = FEW) -> None:
        self._events: list[Event] = []
        self._sending = Sending()
        self._streams_max = limits.streams
        self._calls = ServedCalls(self._sending, self._events, now, limits)
        self._reader = FrameReader(
            header_bytes_max=HEADER_BYTES_MAX,
            decoder=HeaderDecoder(HEADER_BYTES_MAX, read_call_headers),
            headers=self._calls.headers_came,
            data=self._calls.data_came,
            reset=self._calls.reset_came,
            window=self._calls.window_came,
            settings=self._settings_came,
            ping=self._ping_came,
            goaway=self._goaway_came,
        )
        self._preface = PREFACE  # what of it has yet to come
        self._gone = False
        self.is_settled = False
        """True once the client has shown that it speaks HTTP/2."""

    def start(self) -> bytes:
        """The first bytes to send: our settings. Called once, before anything else."""
        return our_settings(window=WINDOW_BYTES, header_bytes_max=HEADER_BYTES_MAX, streams_max=self._streams_max)

    @property
    def has_to_send(self) -> bool:
        """True when `to_send` would return something."""
        return bool(self._sending)

    def receive(self, data: bytes) -> list[Event]:
        """Takes in what was read, in pieces of any size. Raises nothing: what is no HTTP/2 ends the connection, with
        Gone.
        """
        if self._gone:
            return []
        try:
            self._reader.read(self._without_preface(data))
            self._calls.taken_in()
        except BrokenConnection as broken:
            self._sending.put(frames.goaway(broken.code, str(broken), self._calls.last_id))
            self._end(f"error reading from client: {broken}", broken=True)
        return self._told()

    def answer(self, stream_id: int, message: bytes) -> list[Event]:
        """Ends a call with its message. Returns what follows from it: Gone when it was the last one of a connection
        that is being left.
        """
        self._calls.answer(stream_id, message)
        return self._told()

    def refuse(self, stream_id: int, code: int, text: str) -> list[Event]:
        """Ends a call with an error; otherwise as `answer`."""
        self._calls.refuse(stream_id, code, text)
        return self._told()

    def leave(self) -> list[Event]:
        """We take no more calls (GOAWAY); those that have begun go on. Gone follows when the last one is over. Harmless
        twice.
        """
        if not self._gone and not self._calls.is_leaving:
            self._calls.is_leaving = True
            self._sending.put(
                frames.goaway(ErrorCode.NO_ERROR, "the server closes the connection", self._calls.last_id)
            )
        return self._told()

    def close(self, text: str = "the server closes the connection") -> list[Event]:
        """We leave at once: calls that have no answer yet end as Unavailable with this text, then Gone."""
        self.leave()
        if not self._gone:
            self._end(text)
        return self._told()

    def lost(self, text: str = "error reading from client: EOF") -> list[Event]:
        """The socket has ended or broken: nobody waits for answers any more, then Gone."""
        if not self._gone:
            self._end(text)
        return self._told()

    def to_send(self) -> bytes:
        """The bytes to write now, b"" for none."""
        return self._sending.take()

    # -- what the client says about the connection

    def _without_preface(self, data: bytes) -> bytes:
        """The frames. Raises BrokenConnection at the first byte that is none of HTTP/2's preface."""
        wanted = self._preface
        if not wanted:
            return data
        if data[: len(wanted)] != wanted[: len(data)]:
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "what it sends does not begin as HTTP/2 does")
        self._preface = wanted[len(data) :]
        return data[len(wanted) :]

    def _settings_came(self, payload: bytes) -> None:
        settings = changed(self._sending.settings, payload, push_max=1)
        self._sending.reply(frames.frame(frames.SETTINGS, frames.ACK, 0))
        self.is_settled = True
        self._calls.settings_came(settings)

    def _ping_came(self, payload: bytes) -> None:
        self._sending.reply(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _goaway_came(self, last_id: int, error_code: int, debug: bytes) -> None:
        """The client begins no more calls; it waits for the answers of those that it has begun."""
        self._calls.is_leaving = True

    # -- the end

    def _end(self, text: str, *, broken: bool = False) -> None:
        self._calls.end_all(text)
        self._gone = True
        self._events.append(Gone(text, broken))

    def _told(self) -> list[Event]:
        """The events since the last time. The last call of a connection that is being left was its end."""
        if self._calls.is_leaving and not self._gone and not self._calls:
            self._end("the last call of the connection has ended")
        events = self._events.copy()
        self._events.clear()
        return events
