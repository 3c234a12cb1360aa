"""The calls of one connection, as a server has them: those that are coming, those that are carried out, those whose
answers wait.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.frames import END_STREAM, BrokenConnection, ErrorCode, header_frames, rst_stream, window_update
from mooring.wire.grpc.literals import STATUS_200, TABLE_EMPTIED, literal, named
from mooring.wire.grpc.sending import Sending
from mooring.wire.grpc.serving.call_headers import CallHeaders
from mooring.wire.grpc.serving.events import Asked, Dropped, Event
from mooring.wire.grpc.serving.limits import ServerLimits
from mooring.wire.grpc.serving.request import Refusal, Request, Wrong
from mooring.wire.grpc.settings import WINDOW_DEFAULT, PeerSettings

_CONTENT_TYPE, _STATUS = 31, 8  # in HPACK's static table
_ESCAPED: Final = re.compile(rb"[^\x20-\x24\x26-\x7e]")
_GRPC: Final = named(_CONTENT_TYPE, b"application/grpc")
_READS: Final = literal(b"grpc-accept-encoding", b"identity")  # to whom this is news: who has sent something compressed

_HEADERS: Final = STATUS_200 + _GRPC
"""Before the message of an answer that is one."""

_TRAILERS_OK: Final = literal(b"grpc-status", b"0")

WASTED_MAX: Final = 1_000
"""Calls that a client has dropped at once, or begun beyond its limit, more than were answered: each costs us more
than its client.
"""

AT_ONCE_S: Final = 1.0
"""A client that drops a call later than this wanted the answer: sidecars do so while a driver is stuck, and some end
with a connection.
"""

WINDOW_BYTES: Final = WINDOW_DEFAULT
"""The number of bytes that the client may send on one stream, and on the connection, before we confirm that we have
read some.
"""


class ServedCalls:
    """The calls of a connection, each on its stream. Each call ends by `answer` or `refuse`.

    events: shared with the connection, whose own come between. now: a clock for deadlines, in seconds.
    """

    def __init__(self, sending: Sending, events: list[Event], now: Callable[[], float], limits: ServerLimits) -> None:
        self._sending, self._events, self._now, self._limits = sending, events, now, limits
        self._streams: dict[int, Request] = {}
        self._dropped: set[int] = set()  # asked, and ended by the client
        self._received = 0
        self._held = 0
        self._wasted = 0
        self._begin_with = b""
        self.last_id = 0
        self.is_leaving = False

    def __len__(self) -> int:
        return len(self._streams)

    def answer(self, stream_id: int, message: bytes) -> None:
        """Ends a call with its message, and OK."""
        if (stream := self._asked(stream_id)) is not None:
            self._wasted = max(0, self._wasted - 1)
            stream.unsent = b"\x00%b%b" % (len(message).to_bytes(4), message)
            stream.trailers = header_frames(stream_id, _TRAILERS_OK, self._frame_bytes_max, END_STREAM)
            self._sending.begin(stream, self._block(_HEADERS))
            if not stream.unsent:
                self._close(stream)

    def refuse(self, stream_id: int, code: int, text: str) -> None:
        """Ends a call with an error. text: of any length; some clients take 8 KiB."""
        if (stream := self._asked(stream_id)) is not None:
            self._wasted = max(0, self._wasted - 1)
            self._end(stream, _error_headers(code, text))

    def end_all(self, text: str) -> None:
        """Nobody waits any more for what is being carried out; who still listens hears that."""
        for stream in list(self._streams.values()):
            if stream.is_carried_out:
                self._events.append(Dropped(stream.id))
                self._end(stream, _error_headers(Code.UNAVAILABLE, text))
        self._streams.clear()

    # -- what the client sends

    def settings_came(self, settings: PeerSettings) -> None:
        """Other windows; a smaller table, which our next block has to speak of."""
        if settings.header_table_bytes < self._sending.settings.header_table_bytes:
            self._begin_with = TABLE_EMPTIED
        self._sending.settings_came(settings)

    def headers_came(self, stream_id: int, headers: CallHeaders, ended: bool) -> None:
        """A request begins; or ends, with trailers."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._go_on(stream, stream.trailers_came(headers, ended))
            return
        if stream_id % 2 == 0 or stream_id <= self.last_id:
            raise BrokenConnection(
                ErrorCode.PROTOCOL_ERROR, f"a HEADERS frame for stream {stream_id}, which no client begins now"
            )
        self.last_id = stream_id
        if len(self._streams) + len(self._dropped) >= self._limits.streams or self.is_leaving:
            self._sending.put(rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            self._waste()
            return
        stream = self._streams[stream_id] = Request(stream_id, self._now(), self._limits.message_bytes)
        self._go_on(stream, stream.headers_came(headers, ended))

    def data_came(self, stream_id: int, data: bytes, size: int, ended: bool) -> None:
        """A piece of a request. size: what it takes of the windows, with its padding."""
        stream = self._stream(stream_id, "DATA")
        self._count(size)
        if stream is None:
            return
        self._held -= len(stream.body)
        wrong = stream.data_came(data, ended)
        self._held += len(stream.body)
        if wrong is None and self._held > self._limits.held_bytes:
            wrong = Refusal(Code.RESOURCE_EXHAUSTED, f"more than {self._limits.held_bytes} bytes of requests at once")
        if wrong is None and not ended:
            self._count_on(stream, size)
        self._go_on(stream, wrong)

    def reset_came(self, stream_id: int, error_code: int) -> None:
        """The client does not wait any more."""
        if (stream := self._stream(stream_id, "RST_STREAM")) is not None:
            self._drop(stream)
            if self._now() - stream.began < AT_ONCE_S:
                self._waste()

    def window_came(self, stream_id: int, increment: int) -> None:
        """The client takes more, of one stream or (0) of all."""
        if not stream_id:
            self._sending.window_opened(increment)
        elif (
            stream := self._stream(stream_id, "WINDOW_UPDATE")
        ) is not None and not self._sending.stream_window_opened(stream, increment):
            self._reset(stream, ErrorCode.FLOW_CONTROL_ERROR if increment else ErrorCode.PROTOCOL_ERROR)

    def taken_in(self) -> None:
        """All that came together has been read."""
        if self._sending.is_opened:
            for stream_id in self._sending.go_on(self._streams):
                self._close(self._streams[stream_id])

    # -- streams

    def _waste(self) -> None:
        """One more call was begun for nothing. Raises BrokenConnection for a client that does little else."""
        self._wasted += 1
        if self._wasted > WASTED_MAX:
            raise BrokenConnection(
                ErrorCode.ENHANCE_YOUR_CALM, f"more than {WASTED_MAX} calls that were begun and dropped"
            )

    def _stream(self, stream_id: int, name: str) -> Request | None:
        """The stream of a frame; None for one that is over: frames may have been on their way. Raises BrokenConnection
        for no stream.
        """
        found = self._streams.get(stream_id)
        if found is None and (stream_id % 2 == 0 or stream_id > self.last_id):
            raise BrokenConnection(
                ErrorCode.PROTOCOL_ERROR, f"a {name} frame for stream {stream_id}, which nobody began"
            )
        return found

    def _asked(self, stream_id: int) -> Request | None:
        """The stream of a call that is over for us; None when the client, or the connection, was faster."""
        self._dropped.discard(stream_id)
        stream = self._streams.get(stream_id)
        assert stream is None or stream.is_carried_out, "one answer for each call"
        return stream

    def _go_on(self, stream: Request, wrong: Wrong | None) -> None:
        """The result of a frame: nothing yet, a call, or the end of something that is no call."""
        if wrong is None and stream.ended:
            message = stream.message()
            if isinstance(message, bytes):
                stream.asked = True
                self._events.append(Asked(stream.id, stream.path, message, stream.deadline))
            else:
                wrong = message
        if isinstance(wrong, ErrorCode):
            self._reset(stream, wrong)
        elif wrong is not None:
            self._end(stream, _error_headers(wrong.code, wrong.text, wrong.http_status))

    def _end(self, stream: Request, block: bytes) -> None:
        """Ends a stream with an answer that is headers alone. A client that has more to say hears that nobody
        listens.
        """
        self._sending.put(header_frames(stream.id, self._block(block), self._frame_bytes_max, END_STREAM))
        if not stream.ended:
            self._sending.put(rst_stream(stream.id, ErrorCode.NO_ERROR))
        self._close(stream)

    def _reset(self, stream: Request, code: ErrorCode) -> None:
        self._sending.put(rst_stream(stream.id, code))
        self._drop(stream)

    def _drop(self, stream: Request) -> None:
        """Ends a stream whose answer nobody takes."""
        if stream.is_carried_out:
            self._events.append(Dropped(stream.id))
            self._dropped.add(stream.id)
        self._close(stream)

    def _close(self, stream: Request) -> None:
        del self._streams[stream.id]
        self._held -= len(stream.body)
        if stream.unsent:
            self._sending.forget(stream.id)

    def _block(self, block: bytes) -> bytes:
        begin_with, self._begin_with = self._begin_with, b""
        return begin_with + block

    @property
    def _frame_bytes_max(self) -> int:
        return self._sending.settings.frame_bytes_max

    # -- our windows: given back when half of one is used, at once, so that only what is held needs a bound

    def _count(self, size: int) -> None:
        self._received += size
        if self._received > WINDOW_BYTES // 2:
            self._sending.put(window_update(0, self._received))
            self._received = 0

    def _count_on(self, stream: Request, size: int) -> None:
        stream.received += size
        if stream.received > WINDOW_BYTES // 2:
            self._sending.put(window_update(stream.id, stream.received))
            stream.received = 0


def _error_headers(code: int, text: str, http_status: int = 200) -> bytes:
    """The whole of an answer without a message: headers and trailers in one, with an error's code and text."""
    status = STATUS_200 if http_status == 200 else named(_STATUS, str(http_status).encode())
    block = (
        status + _GRPC + literal(b"grpc-status", str(code).encode()) + literal(b"grpc-message", percent_encoded(text))
    )
    return block + _READS if code == Code.UNIMPLEMENTED else block


def percent_encoded(text: str) -> bytes:
    """A text as grpc-message has it: UTF-8, with the printable ASCII as it is, but for the sign itself."""
    return _ESCAPED.sub(lambda byte: b"%%%02X" % byte[0][0], text.encode(errors="replace"))
