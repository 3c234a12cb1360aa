"""SETTINGS, ours and the peer's (RFC 9113, section 6.5)."""

from __future__ import annotations

import dataclasses
import struct
from typing import Final

from mooring.wire.grpc.frames import FRAME_BYTES_DEFAULT, SETTINGS, BrokenConnection, ErrorCode, frame

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)
WINDOW_DEFAULT: Final = 65_535
WINDOW_MAX: Final = 2**31 - 1
_ENTRY: Final = struct.Struct(">HI")


@dataclasses.dataclass(frozen=True, slots=True)
class PeerSettings:
    """The peer's settings so far. streams_max: calls at once, of a server.

    window: of each stream, in bytes, for what we send.
    """

    streams_max: int = 2**32 - 1
    window: int = WINDOW_DEFAULT
    frame_bytes_max: int = FRAME_BYTES_DEFAULT
    header_table_bytes: int = 4096


def our_settings(*, window: int, header_bytes_max: int, streams_max: int | None = None) -> bytes:
    """The frame that we begin with: no pushed answers, this window for each stream, and this much of headers at most.

    streams_max: a server's, calls at once.
    """
    entries = [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, window), (MAX_HEADER_LIST_SIZE, header_bytes_max)]
    if streams_max is not None:
        entries.append((MAX_CONCURRENT_STREAMS, streams_max))
    return frame(SETTINGS, 0, 0, b"".join(_ENTRY.pack(*entry) for entry in entries))


def changed(settings: PeerSettings, payload: bytes, push_max: int = 0) -> PeerSettings:
    """The settings after one more SETTINGS frame; unknown ones are ignored. Raises BrokenConnection for a value that
    none may have.

    push_max: of ENABLE_PUSH, 1 for a client's.
    """
    if len(payload) % _ENTRY.size:
        raise BrokenConnection(
            ErrorCode.FRAME_SIZE_ERROR, f"a SETTINGS frame of {len(payload)} bytes, no multiple of 6"
        )
    said = dict(_ENTRY.iter_unpack(payload))
    window, frame_bytes = (
        said.get(INITIAL_WINDOW_SIZE, settings.window),
        said.get(MAX_FRAME_SIZE, settings.frame_bytes_max),
    )
    if said.get(ENABLE_PUSH, 0) > push_max:
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, f"a SETTINGS frame sets ENABLE_PUSH to {said[ENABLE_PUSH]}")
    if window > WINDOW_MAX:
        raise BrokenConnection(ErrorCode.FLOW_CONTROL_ERROR, f"a SETTINGS frame sets INITIAL_WINDOW_SIZE to {window}")
    if not FRAME_BYTES_DEFAULT <= frame_bytes < 2**24:
        raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, f"a SETTINGS frame sets MAX_FRAME_SIZE to {frame_bytes}")
    return PeerSettings(
        streams_max=said.get(MAX_CONCURRENT_STREAMS, settings.streams_max),
        window=window,
        frame_bytes_max=frame_bytes,
        header_table_bytes=said.get(HEADER_TABLE_SIZE, settings.header_table_bytes),
    )
