"""What is to be written on a connection: requests as far as the server's windows go, and the answers to its frames."""

from __future__ import annotations

from typing import Final

from mooring.csi.wire.frames import DATA, END_STREAM, HEAD, BrokenConnection, ErrorCode, header_frames
from mooring.csi.wire.settings import WINDOW_DEFAULT, WINDOW_MAX, ServerSettings
from mooring.csi.wire.stream import Stream

REPLIES_MAX: Final = 10_000
"""Of PING and SETTINGS that were not written yet: a server that floods us with them, or does not read."""


class Sending:
    """The outgoing half. Holds what `take` returns next, and the streams that wait for a window."""

    def __init__(self) -> None:
        self.settings = ServerSettings()
        self._window = WINDOW_DEFAULT
        self._out: list[bytes | memoryview] = []
        self._replies = 0
        self._blocked: dict[int, Stream] = {}

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
        """An answer to a frame of the server's. Raises BrokenConnection when too many wait."""
        self._replies += 1
        if self._replies > REPLIES_MAX:
            raise BrokenConnection(ErrorCode.ENHANCE_YOUR_CALM, f"the server sent more than {REPLIES_MAX} PING or SETTINGS at once")
        self._out.append(frames)

    def request(self, stream: Stream, block: bytes) -> None:
        """Sends a call's headers, and of its message what the windows let through."""
        self._out.append(header_frames(stream.id, block, self.settings.frame_bytes_max))
        if not self._send(stream):
            self._blocked[stream.id] = stream

    def forget(self, stream_id: int) -> None:
        """The rest of this request is not sent any more."""
        self._blocked.pop(stream_id, None)

    def window_opened(self, increment: int) -> None:
        """The server takes more on the whole connection. Raises BrokenConnection when that is more than HTTP/2 allows."""
        if not increment:
            raise BrokenConnection(ErrorCode.PROTOCOL_ERROR, "the server's WINDOW_UPDATE adds nothing")
        self._window += increment
        if self._window > WINDOW_MAX:
            raise BrokenConnection(ErrorCode.FLOW_CONTROL_ERROR, "the server made the connection's window larger than HTTP/2 allows")
        self._go_on()

    def stream_window_opened(self, stream: Stream, increment: int) -> bool:
        """The server takes more on one stream. False when that is nothing, or more than HTTP/2 allows."""
        stream.window += increment
        if not increment or stream.window > WINDOW_MAX:
            return False
        self._go_on()
        return True

    def settings_came(self, settings: ServerSettings, streams: dict[int, Stream]) -> None:
        """The server's settings; a new window holds for open streams, too. Raises BrokenConnection where that makes one too large."""
        more = settings.window - self.settings.window
        self.settings = settings
        if not more:
            return
        for stream in streams.values():
            stream.window += more
            if stream.window > WINDOW_MAX:
                raise BrokenConnection(ErrorCode.FLOW_CONTROL_ERROR, "the server made a stream's window larger than HTTP/2 allows")
        self._go_on()

    def _go_on(self) -> None:
        for stream in list(self._blocked.values()):
            if self._window <= 0:
                break
            if self._send(stream):
                del self._blocked[stream.id]

    def _send(self, stream: Stream) -> bool:
        """True when all of the request is on its way."""
        unsent, frame_max = stream.unsent, self.settings.frame_bytes_max
        size = len(unsent)
        if size <= self._window and size <= stream.window and size <= frame_max:
            self._out.append(HEAD.pack(size >> 8, size & 0xFF, DATA, END_STREAM, stream.id) + unsent)
            self._window -= size
            stream.window -= size
            stream.unsent = b""
            return True
        return self._send_in_pieces(stream)

    def _send_in_pieces(self, stream: Stream) -> bool:
        view, frame_max = memoryview(stream.unsent), self.settings.frame_bytes_max
        sendable = max(0, min(self._window, stream.window, len(view)))
        for at in range(0, sendable, frame_max):
            piece = view[at : min(at + frame_max, sendable)]
            last = at + len(piece) == len(view)
            self._out.append(HEAD.pack(len(piece) >> 8, len(piece) & 0xFF, DATA, END_STREAM if last else 0, stream.id))
            self._out.append(piece)
        self._window -= sendable
        stream.window -= sendable
        stream.unsent = view[sendable:]
        return not stream.unsent
