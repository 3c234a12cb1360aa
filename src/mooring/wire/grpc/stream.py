"""One call on its connection: what of the request waits for a window, what of the answer has come, and what its end
means.

The rules are gRPC's for unary calls, as grpc-go's client keeps them. Where a stream ends without a status of the
driver's own, the request may have been carried out, and the verdict says so.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mooring.wire.grpc.answer_headers import AnswerHeaders
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.frames import ErrorCode
from mooring.wire.grpc.outgoing import Outgoing
from mooring.wire.grpc.status import code_of_http, decoded, text_of_http

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""For one answer. gRPC's default of 4 MiB is reached by ListVolumes without paging at some 20,000 volumes."""

IDLE_FRAMES_MAX: Final = 1_000
"""Frames of one answer that say nothing: empty DATA, and headers of an answer that is still to come."""

_PREFIX_BYTES: Final = 5
_NUMBER: Final = re.compile(rb"[0-9]{1,9}\Z")


class CallEnd(NamedTuple):
    """How a call ended: the fields of `Answered`. reset: what the server has to be told, None when it knows."""

    code: int
    text: str = ""
    payload: bytes | None = None
    answered: bool = False
    reset: ErrorCode | None = None


class Stream(Outgoing):
    """A call whose headers were sent.

    received: bytes of flow control that the server has not got back yet.
    """

    __slots__ = ("body", "headers", "idle_frames", "received")

    def __init__(self, stream_id: int, unsent: bytes | memoryview) -> None:
        super().__init__(stream_id, unsent)
        self.received = 0
        self.headers: AnswerHeaders | None = None
        self.body: bytes | bytearray = b""
        self.idle_frames = 0

    def headers_came(self, headers: AnswerHeaders, ended: bool) -> CallEnd | None:
        """Takes in headers or trailers. ended: no more is to come. Returns the call's end, None before it."""
        if headers.wrong:
            return _refused(f"the driver's answer is no HTTP/2: {headers.wrong}")
        if self.headers is not None:
            return (
                self._verdict(headers) if ended else _refused("a HEADERS frame cannot appear in the middle of a stream")
            )
        if not headers.is_grpc:
            return self._not_grpc(headers, ended)
        if ended:
            return self._verdict(headers)
        self.headers = headers
        return None

    def data_came(self, data: bytes, ended: bool) -> CallEnd | None:
        """Takes in a piece of the message. Returns the call's end, None before it."""
        if self.headers is None:
            return _refused("the driver's answer has DATA before its HEADERS")
        if not self.body:
            self.body = data
        else:
            if not isinstance(self.body, bytearray):
                self.body = bytearray(self.body)
            self.body += data
        if not data and not ended:
            return self._idle()
        if len(self.body) >= _PREFIX_BYTES and (beyond := self._beyond()) is not None:
            return beyond
        if ended:
            return _refused("server closed the stream without sending trailers")
        return None

    def _beyond(self) -> CallEnd | None:
        """The end of an answer that is longer than one message, or than any may be."""
        length = int.from_bytes(self.body[1:_PREFIX_BYTES])
        if length > MESSAGE_BYTES_MAX:
            text = f"grpc: received message larger than max ({length} vs. {MESSAGE_BYTES_MAX})"
            return CallEnd(Code.RESOURCE_EXHAUSTED, text, answered=True, reset=ErrorCode.CANCEL)
        if len(self.body) > _PREFIX_BYTES + length:
            return _refused("the driver answered with more than one message", ErrorCode.CANCEL)
        return None

    def _idle(self) -> CallEnd | None:
        self.idle_frames += 1
        if self.idle_frames > IDLE_FRAMES_MAX:
            return _refused(
                f"the driver's answer has more than {IDLE_FRAMES_MAX} frames that say nothing",
                ErrorCode.ENHANCE_YOUR_CALM,
            )
        return None

    def _not_grpc(self, headers: AnswerHeaders, ended: bool) -> CallEnd | None:
        """HTTP's own answers. Those of its 100s have another one behind them; after those of its 400s alone nothing can
        have happened.
        """
        if headers.http_status is None or not re.fullmatch(rb"[1-9][0-9][0-9]", headers.http_status):
            return _refused("malformed header: missing HTTP status")
        status = int(headers.http_status)
        if status < 200:
            return (
                _refused(f"an answer of HTTP status {status} is only the first of two, and has no second")
                if ended
                else self._idle()
            )
        text, reset = text_of_http(status, headers.content_type), None if ended else ErrorCode.PROTOCOL_ERROR
        return CallEnd(code_of_http(status), text, answered=not 400 <= status < 500, reset=reset)

    def _verdict(self, trailers: AnswerHeaders) -> CallEnd:
        raw = trailers.grpc_status
        if raw is None:
            return CallEnd(Code.UNKNOWN, decoded(trailers.grpc_message), answered=True)
        if not _NUMBER.match(raw):
            return CallEnd(Code.UNKNOWN, f"malformed grpc-status: {decoded(raw[:100])!r}", answered=True)
        if raw != b"0" and (code := int(raw)):
            return CallEnd(code, decoded(trailers.grpc_message))
        return self._message()

    def _message(self) -> CallEnd:
        """The end of a call that went well, if there is just one message."""
        body = self.body
        if not body:
            return _unreadable("the driver answered OK without a message")
        if len(body) < _PREFIX_BYTES or len(body) < _PREFIX_BYTES + int.from_bytes(body[1:_PREFIX_BYTES]):
            return _unreadable("unexpected EOF: the driver's answer ends within its message")
        if body[0] == 1:
            encoding = self.headers.encoding if self.headers else b""
            return _unreadable(
                f"the driver's answer is compressed ({decoded(encoding[:100]) or 'nobody knows how'}), which "
                "nobody asked for"
            )
        if body[0]:
            return _unreadable(f"grpc: received unexpected payload format {body[0]}")
        return CallEnd(
            Code.OK, "", body[_PREFIX_BYTES:] if isinstance(body, bytes) else bytes(memoryview(body)[_PREFIX_BYTES:])
        )


def _unreadable(text: str) -> CallEnd:
    return CallEnd(Code.INTERNAL, text, answered=True)


def _refused(text: str, reset: ErrorCode = ErrorCode.PROTOCOL_ERROR) -> CallEnd:
    """The end of an answer that is against the rules: the request may have been carried out."""
    return CallEnd(Code.INTERNAL, text, answered=True, reset=reset)
