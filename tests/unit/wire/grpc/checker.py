"""Who watches the client from the server's side: whatever it sends has to be HTTP/2, within the windows and limits that
it was given.

Knows nothing of the client but its bytes.
"""

from __future__ import annotations

import hpack

from tests.unit.wire.grpc import talk

NEW, OPEN, CLOSED = "new", "open", "closed"


class ClientChecker:
    """`told` what the server sends and `heard` what the client does, in that order. Settings hold from the client's ACK
    on.
    """

    def __init__(self) -> None:
        self.state: dict[int, str] = {}
        self.window = 65_535
        self.windows: dict[int, int] = {}
        self.initial, self.frame_max, self.streams_max = 65_535, 16_384, 2**32
        self.unacknowledged: list[dict[int, int]] = []
        self.pings: list[bytes] = []
        self.answered: set[int] = set()
        self.requests: dict[int, bytes] = {}
        self.complete: set[int] = set()
        self._decoder = hpack.Decoder()
        self._block: list[talk.Sent] = []
        self.said_goodbye = False

    def told(self, received: bytes) -> None:
        """received: whole frames of the server's, in order."""
        for one in talk.frames_in(received):
            if one.kind == talk.SETTINGS and not one.flags & talk.ACK:
                entries = [one.payload[at : at + 6] for at in range(0, len(one.payload) - 5, 6)]
                self.unacknowledged.append({int.from_bytes(entry[:2]): int.from_bytes(entry[2:]) for entry in entries})
            elif one.kind == talk.PING and not one.flags & talk.ACK:
                self.pings.append(one.payload)
            elif one.kind == talk.WINDOW_UPDATE and one.stream == 0:
                self.window += int.from_bytes(one.payload)
            elif one.kind == talk.WINDOW_UPDATE:
                self.windows[one.stream] = self.windows.get(one.stream, self.initial) + int.from_bytes(one.payload)
            elif one.kind == talk.RST_STREAM or (one.kind in (talk.DATA, talk.HEADERS) and one.flags & talk.END_STREAM):
                self.answered.add(one.stream)

    def heard(self, sent: bytes) -> None:
        for one in talk.frames_in(sent):
            assert not self.said_goodbye, "a frame after GOAWAY"
            assert len(one.payload) <= self.frame_max
            assert not self._block or one.kind == talk.CONTINUATION
            {
                talk.DATA: self._data,
                talk.HEADERS: self._headers,
                talk.RST_STREAM: self._reset,
                talk.SETTINGS: self._settings,
                talk.PING: self._ping,
                talk.GOAWAY: self._goaway,
                talk.WINDOW_UPDATE: self._window_update,
                talk.CONTINUATION: self._continuation,
            }[one.kind](one)

    def _headers(self, one: talk.Sent) -> None:
        assert one.stream % 2 == 1
        assert one.stream > max(self.state, default=0), "stream ids grow"
        assert not one.flags & talk.END_STREAM
        self.state[one.stream] = OPEN
        self.windows[one.stream] = self.initial
        self.requests[one.stream] = b""
        alive = [stream for stream, state in self.state.items() if state == OPEN and stream not in self.answered]
        assert len(alive) <= self.streams_max
        self._add(one)

    def _continuation(self, one: talk.Sent) -> None:
        assert self._block
        assert self._block[0].stream == one.stream
        self._add(one)

    def _add(self, one: talk.Sent) -> None:
        self._block.append(one)
        if one.flags & talk.END_HEADERS:
            names = [name for name, _ in talk.fields_in(self._block, self._decoder)]
            assert names[:4] == [":method", ":scheme", ":path", ":authority"]
            assert {"content-type", "te", "grpc-timeout"} <= set(names)
            self._block = []

    def _data(self, one: talk.Sent) -> None:
        assert self.state.get(one.stream) == OPEN
        assert one.stream not in self.complete
        self.window -= len(one.payload)
        self.windows[one.stream] -= len(one.payload)
        assert self.window >= 0
        assert self.windows[one.stream] >= 0 or not one.payload
        self.requests[one.stream] += one.payload
        if one.flags & talk.END_STREAM:
            self.complete.add(one.stream)

    def _reset(self, one: talk.Sent) -> None:
        assert self.state.get(one.stream) == OPEN, "RST_STREAM for a stream that is not open"
        assert len(one.payload) == 4
        self.state[one.stream] = CLOSED

    def _settings(self, one: talk.Sent) -> None:
        assert one.flags == talk.ACK
        assert not one.payload
        said = self.unacknowledged.pop(0)
        initial = said.get(talk.INITIAL_WINDOW_SIZE, self.initial)
        self.windows = {stream: window + initial - self.initial for stream, window in self.windows.items()}
        self.initial = initial
        self.frame_max = said.get(talk.MAX_FRAME_SIZE, self.frame_max)
        self.streams_max = said.get(talk.MAX_CONCURRENT_STREAMS, self.streams_max)
        if talk.HEADER_TABLE_SIZE in said:
            self._decoder.max_allowed_table_size = said[talk.HEADER_TABLE_SIZE]

    def _ping(self, one: talk.Sent) -> None:
        assert one.flags == talk.ACK
        assert one.payload == self.pings.pop(0)

    def _goaway(self, one: talk.Sent) -> None:
        assert one.payload[:4] == bytes(4)
        self.said_goodbye = True

    def _window_update(self, one: talk.Sent) -> None:
        assert 0 < int.from_bytes(one.payload) < 2**31
        assert one.stream == 0 or self.state[one.stream] == OPEN
