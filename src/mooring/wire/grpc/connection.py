"""One HTTP/2 connection to a driver: calls in, bytes out; bytes in, events out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.wire.grpc import frames
from mooring.wire.grpc.answer_headers import AnswerHeadersDecoder
from mooring.wire.grpc.calls import WINDOW_BYTES, ClientCalls, Refusal
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.events import Event, Gone, Leaving, Settled
from mooring.wire.grpc.frame_reader import FrameReader
from mooring.wire.grpc.frames import BrokenConnection, ErrorCode
from mooring.wire.grpc.request_headers import RequestHeaders
from mooring.wire.grpc.sending import Sending
from mooring.wire.grpc.settings import WINDOW_DEFAULT, changed, our_settings

HEADER_BYTES_MAX: Final = 8 * 1024 * 1024
"""The bound for all headers of an answer, or its trailers: an error's text of a megabyte fits, with each letter sent as
`%xx`. Such a text should reach the user, and not end the connection under all other calls. Differs from Go's client (16
MiB). The fields are bounded apart.
"""


class Connection:
    """The client's side of one connection, from its first byte to its last. Not for use by several threads.

    After each call of a method look at `to_send`, and write what it returns; don't ask for it while the transport is
    told to pause, so that what waits here stays bounded. Every method may be called after Gone, and does nothing then
    (`begin` excepted).
    now: a monotonic clock in seconds, read only for calls that have to wait for the server's MAX_CONCURRENT_STREAMS:
    the driver hears of the time that is left. stream_ids_end: the first id that no call gets; another one for tests.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        user_agent: str = "grpc-mooring",
        authority: str = "localhost",
        stream_ids_end: int = frames.STREAM_ID_MAX + 1,
    ) -> None:
        self._ids_end = stream_ids_end
        self._events: list[Event] = []
        self._sending = Sending()
        self._headers = RequestHeaders(user_agent=user_agent, authority=authority)
        self._calls = ClientCalls(self._sending, self._headers, self._events, now)
        self._reader = FrameReader(
            header_bytes_max=HEADER_BYTES_MAX,
            decoder=AnswerHeadersDecoder(HEADER_BYTES_MAX),
            headers=self._calls.headers_came,
            data=self._calls.data_came,
            reset=self._calls.reset_came,
            window=self._calls.window_came,
            settings=self._settings_came,
            ping=self._ping_came,
            goaway=self._goaway_came,
        )
        self._settled = False
        self._leaving: str | None = None
        self._last_taken = frames.STREAM_ID_MAX
        self._gone = False

    def start(self) -> bytes:
        """The first bytes to send: the preface and our settings. Called once, before anything else."""
        settings = our_settings(window=WINDOW_BYTES, header_bytes_max=HEADER_BYTES_MAX)
        return frames.PREFACE + settings + frames.window_update(0, WINDOW_BYTES - WINDOW_DEFAULT)

    @property
    def is_open(self) -> bool:
        """True while calls may begin here: from Settled on, until Leaving, Gone, or the last stream id was given
        away.
        """
        return self._settled and self._leaving is None and not self._gone

    @property
    def in_flight(self) -> int:
        """ClientCalls that were begun and are neither answered nor cancelled; some may still wait for
        MAX_CONCURRENT_STREAMS.
        """
        return len(self._calls)

    @property
    def has_to_send(self) -> bool:
        """True when `to_send` would return something."""
        return bool(self._sending)

    def begin(self, path: str, message: bytes, timeout_s: float, refusal: Refusal | None = None) -> int:
        """Sends a call, now or when the server has room for it, and returns its stream id. Only while `is_open`.

        path: `/csi.v1.Controller/CreateVolume`. timeout_s: > 0; the driver hears of it, never of a later one. The
        caller keeps the time, and cancels. refusal: the last word on a call that had to wait for room; its text ends
        the call as Canceled.
        """
        assert self.is_open, "begin() on a connection that takes no calls"
        stream_id = self._calls.begin(path, message, timeout_s, refusal)
        if self._calls.next_id >= self._ids_end:
            self._leave("all stream ids of the connection are used up")
        return stream_id

    def cancel(self, stream_id: int) -> list[Event]:
        """Ends a call, at the driver too (RST_STREAM); there is no Answered for it. Does nothing when it is over
        already.

        Returns what follows from it: Gone when it was the last one of a connection that is being left, mostly nothing.
        """
        self._calls.cancel(stream_id)
        return self._told()

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Takes in what was read, in pieces of any size. Raises nothing: what is no HTTP/2 ends the connection, with
        Gone.

        data: not kept; the same buffer may be read into again afterwards.
        """
        if self._gone:
            return []
        try:
            self._reader.read(data)
            self._calls.taken_in()
        except BrokenConnection as broken:
            self._sending.put(frames.goaway(broken.code, str(broken)))
            self._end(Code.UNAVAILABLE, f"error reading from server: {broken}", broken=True)
        return self._told()

    def lost(self, text: str = "error reading from server: EOF") -> list[Event]:
        """The socket has ended or broken: every call is answered as Unavailable with this text, then Gone."""
        if not self._gone:
            self._end(Code.UNAVAILABLE, text if self._leaving is None else f"{text}; {self._leaving}")
        return self._told()

    def close(self, text: str = "grpc: the client connection is closing") -> list[Event]:
        """We leave: every call is answered as Canceled with this text and ended at the driver by GOAWAY, then Gone."""
        if not self._gone:
            self._sending.put(frames.goaway(ErrorCode.NO_ERROR, "the client closes the connection"))
            self._end(Code.CANCELED, text)
        return self._told()

    def to_send(self) -> bytes:
        """The bytes to write now, b"" for none."""
        return self._sending.take()

    # -- what the server says about the connection

    def _settings_came(self, payload: bytes) -> None:
        before = self._sending.settings
        settings = changed(before, payload)
        if settings.header_table_bytes < before.header_table_bytes:
            self._headers.table_reduced()
        self._sending.reply(frames.frame(frames.SETTINGS, frames.ACK, 0))
        if not self._settled:
            self._settled = True
            self._events.append(Settled())
        self._calls.settings_came(settings)

    def _ping_came(self, payload: bytes) -> None:
        self._sending.reply(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _goaway_came(self, last_id: int, error_code: int, debug: bytes) -> None:
        """Streams up to the last one that the server names go on, whatever the error code."""
        if last_id > self._last_taken or (last_id and last_id % 2 == 0):
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, f"a GOAWAY frame whose last stream is {last_id}")
        self._last_taken = last_id
        told = f": {debug[:1000].decode(errors='replace')}" if debug else ""
        self._leave(f"received GOAWAY with error code {frames.error_name(error_code)}{told}")
        self._calls.end_above(
            last_id, f"the driver closes the connection and has not looked at the call; {self._leaving}"
        )

    # -- the end

    def _leave(self, text: str) -> None:
        if self._leaving is None:
            self._events.append(Leaving(text))
        self._leaving = text

    def _end(self, code: Code, text: str, *, broken: bool = False) -> None:
        self._calls.end_all(code, text)
        self._gone = True
        self._events.append(Gone(text, broken))

    def _told(self) -> list[Event]:
        """The events since the last time. The last call of a connection that is being left was its end."""
        if self._leaving is not None and not self._gone and not self._calls:
            self._end(Code.UNAVAILABLE, self._leaving)
        if not self._events:
            return []
        events = self._events.copy()
        self._events.clear()
        return events
