"""Bytes into frames: whatever is wrong with a frame by itself is found here, whatever streams there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from mooring.wire.grpc import frames
from mooring.wire.grpc.frames import BrokenConnection, ErrorCode
from mooring.wire.grpc.header_decoder import HeaderDecoder

_FRAMES_MAX: Final = 1_000
"""For one block. A server that fills its frames needs 512 for 8 MiB."""

F = TypeVar("F")


class _HeaderBlock:
    """A block of which more is to come. ended: its HEADERS frame had END_STREAM. bytes_max: of the block as it is
    sent.
    """

    __slots__ = ("_bytes_max", "_frames", "bytes", "ended", "stream_id")

    def __init__(self, stream_id: int, first: bytes, ended: bool, bytes_max: int) -> None:
        self.stream_id, self.bytes, self.ended = stream_id, bytearray(first), ended
        self._bytes_max, self._frames = bytes_max, 1

    def add(self, part: bytes) -> None:
        """Raises BrokenConnection when it gets too long, or comes in too many pieces."""
        self._frames += 1
        self.bytes += part
        if len(self.bytes) > self._bytes_max or self._frames > _FRAMES_MAX:
            what = f"{len(self.bytes)} bytes in {self._frames} frames"
            raise BrokenConnection(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of {what}, and no end")


class FrameReader(Generic[F]):
    """The incoming half of a connection. Each frame goes to the function that is named after it, in order; PRIORITY and
    others to none.

    decoder: of header blocks. headers: (stream id, what a block says, ended), once for it, however many frames it had.
    data: (stream id, data without padding, bytes that count for the windows, ended). reset: (stream id, error code).
    settings: (payload). ping: (payload). goaway: (last stream id, error code, debug data). window: (stream id or 0,
    increment). ACKs are checked, and told to nobody.
    """

    def __init__(
        self,
        *,
        header_bytes_max: int,
        decoder: HeaderDecoder[F],
        headers: Callable[[int, F, bool], None],
        data: Callable[[int, bytes, int, bool], None],
        reset: Callable[[int, int], None],
        settings: Callable[[bytes], None],
        ping: Callable[[bytes], None],
        goaway: Callable[[int, int, bytes], None],
        window: Callable[[int, int], None],
    ) -> None:
        self._tell_headers, self._tell_data, self._tell_reset = headers, data, reset
        self._tell_settings, self._tell_ping, self._tell_goaway, self._tell_window = settings, ping, goaway, window
        self._header_bytes_max = header_bytes_max
        self._decoder = decoder
        self._begun = False
        self._rest = b""
        self._block: _HeaderBlock | None = None

    def read(self, data: bytes | bytearray | memoryview) -> None:
        """Takes in what was read; keeps less than one frame. Raises BrokenConnection: never call it again then."""
        buffer = self._rest + data if self._rest else bytes(data)
        at, end = 0, len(buffer)
        while end - at >= frames.HEAD_BYTES:
            high, low, kind, flags, stream_id = frames.HEAD.unpack_from(buffer, at)
            size = high << 8 | low
            if size > frames.FRAME_BYTES_DEFAULT:
                raise BrokenConnection(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes, or no frame at all")
            start = at + frames.HEAD_BYTES
            if start + size > end:
                break
            at = start + size
            self._frame(kind, flags, stream_id & frames.STREAM_ID_MAX, buffer[start:at])
        self._rest = buffer[at:]

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block.stream_id):
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "a header block breaks off")
        if not self._begun:
            self._begin(kind, flags)
        if kind < len(_READERS):
            _READERS[kind](self, flags, stream_id, payload)

    def _begin(self, kind: int, flags: int) -> None:
        if kind != frames.SETTINGS or flags & frames.ACK:
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "its first frame is not SETTINGS")
        self._begun = True

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_a_stream("DATA", stream_id)
        data = frames.unpadded(flags, payload) if flags & frames.PADDED else payload
        self._tell_data(stream_id, data, len(payload), bool(flags & frames.END_STREAM))

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_a_stream("HEADERS", stream_id)
        if flags & (frames.PADDED | frames.WITH_PRIORITY):
            payload = frames.without_priority(flags, frames.unpadded(flags, payload))
        ended = bool(flags & frames.END_STREAM)
        if flags & frames.END_HEADERS:
            self._tell_headers(stream_id, self._decoder.decode(payload), ended)
        else:
            self._block = _HeaderBlock(stream_id, payload, ended, self._header_bytes_max)

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is None:
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "a CONTINUATION frame of nothing")
        self._block.add(payload)
        if flags & frames.END_HEADERS:
            block, self._block = self._block, None
            self._tell_headers(stream_id, self._decoder.decode(bytes(block.bytes)), block.ended)

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_a_stream("PRIORITY", stream_id)
        _long("PRIORITY", payload, 5)

    def _rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_a_stream("RST_STREAM", stream_id)
        _long("RST_STREAM", payload, 4)
        self._tell_reset(stream_id, int.from_bytes(payload))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_the_connection("SETTINGS", stream_id)
        if flags & frames.ACK:
            _long("SETTINGS ACK", payload, 0)
        else:
            self._tell_settings(payload)

    def _push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "a PUSH_PROMISE frame, which nobody may send here")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_the_connection("PING", stream_id)
        _long("PING", payload, 8)
        if not flags & frames.ACK:
            self._tell_ping(payload)

    def _goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        _of_the_connection("GOAWAY", stream_id)
        if len(payload) < 8:
            raise BrokenConnection(ErrorCode.FRAME_SIZE_ERROR, f"a GOAWAY frame of {len(payload)} bytes")
        self._tell_goaway(int.from_bytes(payload[:4]) & frames.STREAM_ID_MAX, int.from_bytes(payload[4:8]), payload[8:])

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        _long("WINDOW_UPDATE", payload, 4)
        self._tell_window(stream_id, int.from_bytes(payload) & frames.STREAM_ID_MAX)


def _of_a_stream(name: str, stream_id: int) -> None:
    if not stream_id:
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, f"a {name} frame for no stream")


def _of_the_connection(name: str, stream_id: int) -> None:
    if stream_id:
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, f"a {name} frame for stream {stream_id}")


def _long(name: str, payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise BrokenConnection(ErrorCode.FRAME_SIZE_ERROR, f"a {name} frame of {len(payload)} bytes, not {size}")


_READERS: Final[tuple[Callable[[FrameReader[Any], int, int, bytes], None], ...]] = (
    FrameReader._data,
    FrameReader._headers,
    FrameReader._priority,
    FrameReader._rst_stream,
    FrameReader._settings,
    FrameReader._push_promise,
    FrameReader._ping,
    FrameReader._goaway,
    FrameReader._window_update,
    FrameReader._continuation,
)
"""By the frame's kind. HTTP/2 says of others: ignore them."""
