"""HTTP/2's frames as bytes: their heads, their kinds, their padding, and the frames that we write (RFC 9113, sections 4
to 6).
"""

from __future__ import annotations

import enum
import struct
from typing import Final

from mooring.base.errors import MooringError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

HEAD: Final = struct.Struct(">HBBBI")
"""The header of a frame: the length's upper 16 bits and lower 8, kind, flags, stream id with a reserved bit."""

HEAD_BYTES: Final = 9
STREAM_ID_MAX: Final = 2**31 - 1
FRAME_BYTES_DEFAULT: Final = 16_384
"""The longest payload that either side takes without having said so. We never say otherwise."""

READ_BYTES: Final = 16 * 1024
"""At once of one peer: small frames take us some microseconds each, and others are to have their turn."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
WITH_PRIORITY: Final = 0x20


class ErrorCode(enum.IntEnum):
    """Why a stream or a connection ended (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


def error_name(code: int) -> str:
    """`CANCEL`; `0x63` for a number of no list."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"{code:#x}"


class BrokenConnection(MooringError):
    """The peer sent what no HTTP/2 connection survives: a connection error. code: what our GOAWAY says. str(): what was
    wrong.
    """

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """One frame. payload: at most as long as the peer takes."""
    return HEAD.pack(len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream_id) + payload


def header_frames(stream_id: int, block: bytes, frame_bytes_max: int, first_flags: int = 0) -> bytes:
    """HEADERS, and CONTINUATION for what is longer than one frame. first_flags: END_STREAM for trailers."""
    if len(block) <= frame_bytes_max:
        return HEAD.pack(len(block) >> 8, len(block) & 0xFF, HEADERS, first_flags | END_HEADERS, stream_id) + block
    parts = [block[at : at + frame_bytes_max] for at in range(0, len(block), frame_bytes_max)]
    kinds = [HEADERS] + [CONTINUATION] * (len(parts) - 1)
    flags = [first_flags, *[0] * (len(parts) - 2), END_HEADERS]
    return b"".join(frame(kind, flag, stream_id, part) for kind, flag, part in zip(kinds, flags, parts, strict=True))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Ends one stream."""
    return frame(RST_STREAM, 0, stream_id, struct.pack(">I", code))


def goaway(code: ErrorCode, text: str, last_id: int = 0) -> bytes:
    """Ends the connection. text: cut to 1,000 bytes. last_id: of the streams that the peer began and we have looked
    at.
    """
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_id, code) + text.encode(errors="replace")[:1000])


def window_update(stream_id: int, increment: int) -> bytes:
    """Lets the peer send so many bytes more. increment: 1 to 2**31 - 1."""
    assert 0 < increment <= STREAM_ID_MAX
    return frame(WINDOW_UPDATE, 0, stream_id, struct.pack(">I", increment))


def unpadded(flags: int, payload: bytes) -> bytes:
    """The payload of DATA or HEADERS without its padding. Raises BrokenConnection where there is more padding than
    payload.
    """
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "a frame has more padding than payload")
    return payload[1 : len(payload) - payload[0]]


def without_priority(flags: int, payload: bytes) -> bytes:
    """The header block of HEADERS, whose five bytes of priority mean nothing any more."""
    if not flags & WITH_PRIORITY:
        return payload
    if len(payload) < 5:
        raise BrokenConnection(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame is too short for its priority")
    return payload[5:]
