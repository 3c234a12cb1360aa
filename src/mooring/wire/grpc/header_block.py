"""A header block that comes in several frames: HEADERS, and CONTINUATION after it."""

from __future__ import annotations

from typing import Final

from mooring.wire.grpc.frames import BrokenConnection, ErrorCode

FRAMES_MAX: Final = 1_000
"""For one block. A server that fills its frames needs 512 for 8 MiB."""


class HeaderBlock:
    """A block of which more is to come. ended: its HEADERS frame had END_STREAM. bytes_max: of the block as it is sent."""

    __slots__ = ("_bytes_max", "_frames", "bytes", "ended", "stream_id")

    def __init__(self, stream_id: int, first: bytes, ended: bool, bytes_max: int) -> None:
        self.stream_id, self.bytes, self.ended = stream_id, bytearray(first), ended
        self._bytes_max, self._frames = bytes_max, 1

    def add(self, part: bytes) -> None:
        """Raises BrokenConnection when it gets too long, or comes in too many pieces."""
        self._frames += 1
        self.bytes += part
        if len(self.bytes) > self._bytes_max or self._frames > FRAMES_MAX:
            what = f"{len(self.bytes)} bytes in {self._frames} frames"
            raise BrokenConnection(ErrorCode.ENHANCE_YOUR_CALM, f"a header block of {what}, and no end")
