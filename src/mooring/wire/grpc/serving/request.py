"""One call on its connection, as a server has it: what has come of the request, and what of the answer waits for a
window.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.frames import ErrorCode
from mooring.wire.grpc.outgoing import Outgoing
from mooring.wire.grpc.serving.call_headers import CallHeaders, timeout_s
from mooring.wire.grpc.status import decoded

IDLE_FRAMES_MAX: Final = 1_000
"""DATA frames of one request that say nothing."""

_PREFIX_BYTES: Final = 5


class Refusal(NamedTuple):
    """An answer to a request that comes to nobody."""

    code: Code
    text: str
    http_status: int = 200


Wrong: TypeAlias = Refusal | ErrorCode
"""The end of a request that is no good: as gRPC's answer, or, for what is no HTTP/2, as RST_STREAM."""


class Request(Outgoing):
    """A stream that a client has begun.

    ended: the client has said all. length: what it will have said by then, as it claims. asked: the call has begun.
    deadline: by the connection's clock, as began; None: for ever. received: bytes of flow control that the client has
    not got back yet.
    """

    __slots__ = (
        "_bytes_max",
        "asked",
        "began",
        "body",
        "deadline",
        "ended",
        "idle_frames",
        "length",
        "path",
        "received",
    )

    def __init__(self, stream_id: int, began: float, bytes_max: int) -> None:
        super().__init__(stream_id, b"")
        self.began, self._bytes_max = began, bytes_max
        self.path = ""
        self.body = bytearray()
        self.deadline: float | None = None
        self.length: bytes | None = None
        self.ended = self.asked = False
        self.received = self.idle_frames = 0

    @property
    def is_carried_out(self) -> bool:
        """True from the call's begin until its answer."""
        return self.asked and not self.trailers

    def headers_came(self, headers: CallHeaders, ended: bool) -> Wrong | None:
        """Takes in what a request begins with."""
        self.ended = ended
        if headers.wrong or not headers.method or not headers.path:
            return ErrorCode.PROTOCOL_ERROR
        if headers.method != b"POST":
            return Refusal(
                Code.INTERNAL, f"the method {decoded(headers.method[:100])!r} of HTTP is not gRPC's: POST", 405
            )
        if not headers.is_grpc:
            kind = decoded((headers.content_type or b"")[:200])
            return Refusal(Code.INVALID_ARGUMENT, f"invalid gRPC request content-type {kind!r}", 415)
        if headers.timeout is not None:
            seconds = timeout_s(headers.timeout)
            if seconds is None:
                return Refusal(Code.INTERNAL, f"malformed grpc-timeout: {decoded(headers.timeout[:100])!r}", 400)
            self.deadline = self.began + seconds
        if headers.encoding not in (b"", b"identity"):
            return Refusal(
                Code.UNIMPLEMENTED,
                f"grpc: Decompressor is not installed for grpc-encoding {decoded(headers.encoding[:100])!r}",
            )
        self.path, self.length = headers.path.decode("latin-1"), headers.length
        return self._unlike_its_length()

    def trailers_came(self, headers: CallHeaders, ended: bool) -> Wrong | None:
        """Takes in a second block, which HTTP/2 allows at the end; it says nothing to gRPC."""
        if self.ended:
            return ErrorCode.STREAM_CLOSED
        self.ended = ended
        is_good = ended and not headers.wrong and headers.method is None
        return self._unlike_its_length() if is_good else ErrorCode.PROTOCOL_ERROR

    def data_came(self, data: bytes, ended: bool) -> Wrong | None:
        """Takes in a piece of the message."""
        if self.ended:
            return ErrorCode.STREAM_CLOSED
        self.ended = ended
        self.body += data
        if (wrong := self._unlike_its_length()) is not None:
            return wrong
        if not data and not ended:
            self.idle_frames += 1
            return ErrorCode.ENHANCE_YOUR_CALM if self.idle_frames > IDLE_FRAMES_MAX else None
        if len(self.body) < _PREFIX_BYTES:
            return None
        length = int.from_bytes(self.body[1:_PREFIX_BYTES])
        if length > self._bytes_max:
            return Refusal(
                Code.RESOURCE_EXHAUSTED, f"grpc: received message larger than max ({length} vs. {self._bytes_max})"
            )
        if len(self.body) > _PREFIX_BYTES + length:
            return Refusal(Code.INTERNAL, "cardinality violation: received more than one request for a unary method")
        return None

    def _unlike_its_length(self) -> ErrorCode | None:
        """The fault of a request that has ended, with other than the bytes that its content-length claims."""
        is_other = self.ended and self.length is not None and self.length != b"%d" % len(self.body)
        return ErrorCode.PROTOCOL_ERROR if is_other else None

    def message(self) -> bytes | Refusal:
        """The message of a request that has ended."""
        body = self.body
        if not body:
            return Refusal(Code.INTERNAL, "cardinality violation: received no request for a unary method")
        if len(body) < _PREFIX_BYTES + int.from_bytes(body[1:_PREFIX_BYTES]):
            return Refusal(Code.INTERNAL, "unexpected EOF: the request ends within its message")
        if body[0] == 1:
            return Refusal(Code.INTERNAL, "grpc: compressed flag set with identity or empty encoding")
        if body[0]:
            return Refusal(Code.INTERNAL, f"grpc: received unexpected payload format {body[0]}")
        return bytes(memoryview(body)[_PREFIX_BYTES:])
