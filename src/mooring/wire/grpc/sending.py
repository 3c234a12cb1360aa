"""The sending side of a connection: messages as far as the peer's windows go, and the answers to its frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mooring.wire.grpc.frames import DATA, END_STREAM, HEAD, BrokenConnection, ErrorCode, header_frames
from mooring.wire.grpc.outgoing import Outgoing
from mooring.wire.grpc.settings import WINDOW_DEFAULT, WINDOW_MAX, PeerSettings

REPLIES_MAX: Final = 10_000
"""For PING and SETTINGS that were not written yet: a peer that floods us with them, or does not read."""


class Sending:
    """The outgoing half. Holds what `take` returns next, and the streams that wait for a window.

    is_opened: a window is wider than it was, and `go_on` may have more to send.
    """

    def __init__(self) -> None:
        self.settings = PeerSettings()
        self._window = WINDOW_DEFAULT
        self._out: list[bytes | memoryview] = []
        self._replies = 0
        self._blocked: dict[int, Outgoing] = {}
        self._has_other_windows = self.is_opened = False

    def __bool__(self) -> bool:
        return bool(self._out)

    def take(self) -> bytes:
        """All that may be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        self._replies = 0
        return data

    def put(self, frames: bytes) -> None:
        """Frames that no window holds back."""
        self._out.append(frames)

    def reply(self, frames: bytes) -> None:
        """An answer to a frame of the peer's. Raises BrokenConnection when too many wait."""
        self._replies += 1
        if self._replies > REPLIES_MAX:
            raise BrokenConnection(ErrorCode.ENHANCE_YOUR_CALM, f"more than {REPLIES_MAX} PING or SETTINGS at once")
        self._out.append(frames)

    def begin(self, stream: Outgoing, block: bytes) -> None:
        """Sends a stream's headers, and of its message what the windows let through."""
        self._out.append(header_frames(stream.id, block, self.settings.frame_bytes_max))
        if not self._send(stream):
            self._blocked[stream.id] = stream

    def forget(self, stream_id: int) -> None:
        """The rest of this message is not sent any more."""
        self._blocked.pop(stream_id, None)

    def window_opened(self, increment: int) -> None:
        """The peer takes more on the whole connection. Raises BrokenConnection when that is more than HTTP/2 allows."""
        if not increment:
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "a WINDOW_UPDATE frame adds nothing")
        self._window += increment
        if self._window > WINDOW_MAX:
            raise BrokenConnection(
                ErrorCode.FLOW_CONTROL_ERROR, "a WINDOW_UPDATE frame makes the window larger than HTTP/2 allows"
            )
        self.is_opened = True

    def stream_window_opened(self, stream: Outgoing, increment: int) -> bool:
        """The peer takes more on one stream. False when that is nothing, or more than HTTP/2 allows."""
        stream.credit += increment
        if not increment or self._window_of(stream) > WINDOW_MAX:
            return False
        self.is_opened = True
        return True

    def settings_came(self, settings: PeerSettings) -> None:
        """The peer's settings; a new window holds for open streams, too."""
        if settings.window != self.settings.window:
            self.is_opened = self._has_other_windows = True
        self.settings = settings

    def go_on(self, streams: Mapping[int, Outgoing]) -> list[int]:
        """Sends what the windows let through by now: once for all frames that came together, however many there are of
        a few bytes.

        Returns the ids of the streams of which all is on its way since.

        streams: all that are open. Raises BrokenConnection where the peer's settings have made a window too large.
        """
        if self._has_other_windows and any(self._window_of(stream) > WINDOW_MAX for stream in streams.values()):
            raise BrokenConnection(
                ErrorCode.FLOW_CONTROL_ERROR, "a SETTINGS frame makes a stream's window larger than HTTP/2 allows"
            )
        self.is_opened = self._has_other_windows = False
        sent = []
        for stream in list(self._blocked.values()):
            if self._window <= 0:
                break
            if self._send(stream):
                del self._blocked[stream.id]
                sent.append(stream.id)
        return sent

    def _window_of(self, stream: Outgoing) -> int:
        return self.settings.window + stream.credit

    def _send(self, stream: Outgoing) -> bool:
        """True when all of the stream is on its way."""
        unsent, frame_max = stream.unsent, self.settings.frame_bytes_max
        size = len(unsent)
        if size <= self._window and size <= self._window_of(stream) and size <= frame_max:
            flags = 0 if stream.trailers else END_STREAM
            self._out.append(HEAD.pack(size >> 8, size & 0xFF, DATA, flags, stream.id) + unsent + stream.trailers)
            self._window -= size
            stream.credit -= size
            stream.unsent = b""
            return True
        return self._send_in_pieces(stream)

    def _send_in_pieces(self, stream: Outgoing) -> bool:
        view, frame_max = memoryview(stream.unsent), self.settings.frame_bytes_max
        sendable = max(0, min(self._window, self._window_of(stream), len(view)))
        for at in range(0, sendable, frame_max):
            piece = view[at : min(at + frame_max, sendable)]
            last = at + len(piece) == len(view)
            flags = END_STREAM if last and not stream.trailers else 0
            self._out += (HEAD.pack(len(piece) >> 8, len(piece) & 0xFF, DATA, flags, stream.id), piece)
        self._window -= sendable
        stream.credit -= sendable
        stream.unsent = view[sendable:]
        if stream.unsent:
            return False
        self._out.append(stream.trailers)
        return True
