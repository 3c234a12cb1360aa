"""The calls of one connection: those that are under way, each on its stream, and those that the server has no room for
yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from mooring.wire.grpc.answer_headers import AnswerHeaders
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.events import Answered, Event
from mooring.wire.grpc.frames import BrokenConnection, ErrorCode, rst_stream, window_update
from mooring.wire.grpc.request_headers import RequestHeaders
from mooring.wire.grpc.sending import Sending
from mooring.wire.grpc.settings import PeerSettings
from mooring.wire.grpc.status import code_of_reset, text_of_reset
from mooring.wire.grpc.stream import MESSAGE_BYTES_MAX, CallEnd, Stream

HELD_BYTES_MAX: Final = 4 * MESSAGE_BYTES_MAX
"""For answers of one connection that are not complete yet."""

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""The number of bytes that the server may send on one stream, and on the connection, before we confirm that we have
read some.
"""

Refusal: TypeAlias = Callable[[], str]
"""The reason that a call may not be sent any more, "" while it may."""


class _Waiting(NamedTuple):
    """A call that the server has no room for. prefixed: the message, with its prefix."""

    path: str
    prefixed: bytes
    deadline: float
    refusal: Refusal | None


class ClientCalls:
    """The calls of a connection, each on its stream. Each call ends in one Answered, put into `events`, or by `cancel`.

    events: shared with the connection, whose own come between. now: a monotonic clock, in seconds.
    """

    def __init__(
        self, sending: Sending, headers: RequestHeaders, events: list[Event], now: Callable[[], float]
    ) -> None:
        self._sending, self._headers, self._events, self._now = sending, headers, events, now
        self._streams: dict[int, Stream] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._received = 0
        self._held = 0
        self.next_id = 1

    def __len__(self) -> int:
        return len(self._streams) + len(self._waiting)

    def begin(self, path: str, message: bytes, timeout_s: float, refusal: Refusal | None) -> int:
        """Sends a call, or lets it wait for MAX_CONCURRENT_STREAMS; its stream id. refusal: asked when it has
        waited.
        """
        stream_id = self.next_id
        self.next_id += 2
        prefixed = b"\x00%b%b" % (len(message).to_bytes(4), message)
        if len(self._streams) >= self._sending.settings.streams_max:  # always so while others wait
            self._waiting[stream_id] = _Waiting(path, prefixed, self._now() + timeout_s, refusal)
        else:
            self._send(stream_id, path, prefixed, timeout_s)
        return stream_id

    def cancel(self, stream_id: int) -> None:
        """Ends a call without Answered; the server hears of it. Does nothing when it is over."""
        if self._waiting.pop(stream_id, None) is None and stream_id in self._streams:
            self._sending.put(rst_stream(stream_id, ErrorCode.CANCEL))
            self._close(stream_id)

    def end_above(self, last_id: int, text: str) -> None:
        """The server looks at no stream after this one: whatever began later is Unavailable, and surely has not
        happened.
        """
        unseen = [*(one for one in self._streams if one > last_id), *self._waiting]
        self._waiting.clear()
        for stream_id in unseen:
            self._events.append(Answered(stream_id, Code.UNAVAILABLE, text, unsent=True))
            if stream_id in self._streams:
                self._close(stream_id)

    def end_all(self, code: Code, text: str) -> None:
        """The connection is over. Calls that were sent may have happened."""
        self._events += [Answered(stream_id, code, text) for stream_id in self._streams]
        self._events += [Answered(stream_id, code, text, unsent=True) for stream_id in self._waiting]
        self._streams.clear()
        self._waiting.clear()

    # -- what the server sends

    def settings_came(self, settings: PeerSettings) -> None:
        """Other windows, and maybe room for calls that wait."""
        self._sending.settings_came(settings)
        self._send_waiting()

    def headers_came(self, stream_id: int, headers: AnswerHeaders, ended: bool) -> None:
        """Headers or trailers of an answer."""
        stream = self._stream(stream_id, "HEADERS")
        if stream is not None and (verdict := stream.headers_came(headers, ended)) is not None:
            self._answer(stream, verdict)

    def data_came(self, stream_id: int, data: bytes, size: int, ended: bool) -> None:
        """A piece of an answer. size: what it takes of the windows, with its padding."""
        stream = self._stream(stream_id, "DATA")
        self._count(size)
        if stream is None:
            return
        self._held -= len(stream.body)
        verdict = stream.data_came(data, ended)
        self._held += len(stream.body)
        if verdict is None:
            verdict = self._count_on(stream, size)
        if verdict is not None:
            self._answer(stream, verdict)

    def reset_came(self, stream_id: int, error_code: int) -> None:
        """The server ended a stream. Only of REFUSED_STREAM HTTP/2 says that nothing was done."""
        stream = self._stream(stream_id, "RST_STREAM")
        if stream is not None:
            unsent = error_code == ErrorCode.REFUSED_STREAM
            self._events.append(
                Answered(
                    stream_id, code_of_reset(error_code), text_of_reset(error_code), answered=not unsent, unsent=unsent
                )
            )
            self._close(stream_id)

    def window_came(self, stream_id: int, increment: int) -> None:
        """The server takes more, of one stream or (0) of all."""
        if not stream_id:
            self._sending.window_opened(increment)
            return
        stream = self._stream(stream_id, "WINDOW_UPDATE")
        if stream is not None and not self._sending.stream_window_opened(stream, increment):
            reset = ErrorCode.FLOW_CONTROL_ERROR if increment else ErrorCode.PROTOCOL_ERROR
            text = f"the driver's WINDOW_UPDATE adds {increment}, which HTTP/2 does not allow"
            self._answer(stream, CallEnd(Code.INTERNAL, text, answered=True, reset=reset))

    def taken_in(self) -> None:
        """All that came together has been read."""
        if self._sending.is_opened:
            self._sending.go_on(self._streams)

    # -- streams

    def _stream(self, stream_id: int, name: str) -> Stream | None:
        """The stream of a frame; None for one that is over: frames may have been on their way. Raises BrokenConnection
        for no stream.
        """
        found = self._streams.get(stream_id)
        if found is None and (stream_id % 2 == 0 or stream_id >= self.next_id or stream_id in self._waiting):
            raise BrokenConnection(
                ErrorCode.PROTOCOL_ERROR, f"a {name} frame for stream {stream_id}, which nobody began"
            )
        return found

    def _send(self, stream_id: int, path: str, prefixed: bytes, timeout_s: float) -> None:
        stream = self._streams[stream_id] = Stream(stream_id, prefixed)
        self._sending.begin(stream, self._headers.block(path, timeout_s))

    def _send_waiting(self) -> None:
        """The server has room for more: those that have waited longest are sent, with the time that is left to them."""
        while self._waiting and len(self._streams) < self._sending.settings.streams_max:
            stream_id, (path, prefixed, deadline, refusal) = next(iter(self._waiting.items()))
            del self._waiting[stream_id]
            if (left_s := deadline - self._now()) <= 0:
                self._events.append(
                    Answered(stream_id, Code.DEADLINE_EXCEEDED, "context deadline exceeded", unsent=True)
                )
            elif refusal is not None and (why := refusal()):
                self._events.append(Answered(stream_id, Code.CANCELED, why, unsent=True))
            else:
                self._send(stream_id, path, prefixed, left_s)

    def _answer(self, stream: Stream, verdict: CallEnd) -> None:
        """A call is over. A server that has not taken in all of its request hears that no more will come."""
        code, text, payload, answered, reset = verdict
        if reset is not None or stream.unsent:
            self._sending.put(rst_stream(stream.id, ErrorCode.NO_ERROR if reset is None else reset))
        self._events.append(Answered(stream.id, code, text, payload, answered))
        self._close(stream.id)

    def _close(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id)
        self._held -= len(stream.body)
        if stream.unsent:
            self._sending.forget(stream_id)
        if self._waiting:
            self._send_waiting()

    # -- our windows: given back when half of one is used, at once, so that only what is held needs a bound

    def _count(self, size: int) -> None:
        """The connection's window, whatever becomes of the stream."""
        self._received += size
        if self._received > WINDOW_BYTES // 2:
            self._sending.put(window_update(0, self._received))
            self._received = 0

    def _count_on(self, stream: Stream, size: int) -> CallEnd | None:
        """A stream's window. Returns the end of a call whose answer is too much beside the others."""
        stream.received += size
        if self._held > HELD_BYTES_MAX:
            text = f"more than {HELD_BYTES_MAX} bytes of answers at once"
            return CallEnd(Code.RESOURCE_EXHAUSTED, text, answered=True, reset=ErrorCode.CANCEL)
        if stream.received > WINDOW_BYTES // 2:
            self._sending.put(window_update(stream.id, stream.received))
            stream.received = 0
        return None
