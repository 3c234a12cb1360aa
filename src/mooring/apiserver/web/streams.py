"""Watches on connections: woken together, each event encoded once, no task per watch.

When a kind has changed, the server writes the new events to each of its streams once. Streams that are left when a
turn's share of the loop is used up wait for the next turn, in their order. The server skips a stream whose client does
not read, and closes it when that takes too long.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from typing import Final, Protocol

from mooring.apiserver.watch import Cursor, Place, WatchHub
from mooring.apiserver.web.messages import WatchReply
from mooring.apiserver.web.metrics import ServerMetrics
from mooring.apiserver.web.rendering import WHOLE
from mooring.apiserver.web.watch_lines import Encodings, RenderedLines, WatchLines, WholeLines
from mooring.base.clock import processor_s
from mooring.base.turns import SHARE_S

_WRITE_BYTES: Final = 64 * 1024
"""Sent at once to one who has fallen behind, about."""
_BATCHES: Final = 4
"""Taken in one step: each may take some milliseconds."""
_AGAIN_S: Final = 1.0
"""The shortest time until a stream is looked at that nothing has woken."""


class LineSink(Protocol):
    """Where a stream's lines go."""

    def write(self, data: bytes) -> None: ...

    @property
    def takes_lines(self) -> bool:
        """False while something waits to be sent, or too much."""

    def end(self) -> None:
        """The watch is over."""


class StreamProgress(enum.Enum):
    """How far one step of a stream has come."""

    ALL = "all events for now are sent, or the client reads no more"
    SOME = "more events wait"
    THE_END = "the watch is over"


class WatchStream:
    """One watch on one connection. is_chunked: the lines go in HTTP's chunks."""

    __slots__ = ("_cursor", "_held", "_is_chunked", "_lines", "_reply", "_sink", "is_woken", "place", "timer")

    def __init__(
        self, reply: WatchReply, cursor: Cursor, sink: LineSink, lines: WatchLines, *, is_chunked: bool
    ) -> None:
        self._reply, self._cursor, self._sink, self._lines, self._is_chunked = reply, cursor, sink, lines, is_chunked
        self.timer: asyncio.TimerHandle | None = None
        self.place: Place = reply.resource.storage
        self.is_woken = False
        self._held = b""

    @property
    def wake_at(self) -> float:
        """When a bookmark or the end is due."""
        return self._cursor.wake_at

    def write(self, metrics: ServerMetrics) -> StreamProgress:
        """One step: writes the events, as far as the client reads."""
        return self._step(metrics) if self._sink.takes_lines else StreamProgress.ALL

    def _step(self, metrics: ServerMetrics) -> StreamProgress:
        parts, size, batches = [self._held] if self._held else [], len(self._held), 0
        self._held, is_all = b"", False
        while size < _WRITE_BYTES and batches < _BATCHES and not is_all:
            batch, batches = self._cursor.take(), batches + 1
            is_all = batch is None
            if batch is not None and batch.items:
                parts.append(self._lines.encoded(self._reply.resource, batch, is_chunked=self._is_chunked))
                size += len(parts[-1])
                metrics.count_events(self._reply.resource.path, len(batch.items))
        if len(parts) > 1 and len(parts[-1]) > _WRITE_BYTES:
            self._held, is_all = parts.pop(), False  # (a large one goes by itself: others share its bytes)
        if parts:
            self._sink.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if not is_all:
            return StreamProgress.SOME
        return StreamProgress.THE_END if self._cursor.is_over and self._sink.takes_lines else StreamProgress.ALL

    def end(self) -> None:
        self._sink.end()


class Streams:
    """All streams of a server, by what wakes them."""

    def __init__(self, hub: WatchHub, metrics: ServerMetrics) -> None:
        self._hub, self._metrics, self._kept = hub, metrics, Encodings()
        self._at: dict[Place, dict[WatchStream, None]] = {}
        self._woken: deque[WatchStream] = deque()
        self._is_due = False
        hub.on_wake(self._wake)

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    def prepare(self, reply: WatchReply, sink: LineSink, *, is_chunked: bool) -> WatchStream:
        """A stream that has sent nothing yet. Raises the errors of `watch_start_of`."""
        cursor = self._hub.cursor(reply.resource, reply.scope, reply.options)
        kept = self._kept
        lines = WholeLines(kept) if reply.rendering is WHOLE else RenderedLines(reply.rendering, self._hub.clock, kept)
        return WatchStream(reply, cursor, sink, lines, is_chunked=is_chunked)

    def begin(self, stream: WatchStream) -> None:
        """From now on the stream gets changes, and at once those from before."""
        self._at.setdefault(stream.place, {})[stream] = None
        self._due(stream)

    def remove(self, stream: WatchStream) -> None:
        if stream.timer is not None:
            stream.timer.cancel()
        at = self._at.get(stream.place, {})
        at.pop(stream, None)
        if not at:
            self._at.pop(stream.place, None)

    def serve(self, stream: WatchStream) -> None:
        """Writes the news of one stream, also when its client reads again: what is more than a step, in its turn."""
        if stream not in self._at.get(stream.place, ()):
            return
        progress = stream.write(self._metrics)
        if progress is StreamProgress.SOME:
            self._woke(stream)
        elif progress is StreamProgress.THE_END:
            self.remove(stream)
            stream.end()

    def end_all(self) -> None:
        """Ends them, as far as their clients read."""
        for at in list(self._at.values()):
            for stream in list(at):
                self.serve(stream)

    def _due(self, stream: WatchStream) -> None:
        self.serve(stream)
        if stream in self._at.get(stream.place, ()):
            loop = asyncio.get_running_loop()
            stream.timer = loop.call_at(max(stream.wake_at, loop.time() + _AGAIN_S), self._due, stream)

    def _wake(self, place: Place | None) -> None:
        for at in list(self._at.values()) if place is None else [self._at.get(place, {})]:
            for stream in at:
                self._woke(stream)

    def _woke(self, stream: WatchStream) -> None:
        if not stream.is_woken:
            stream.is_woken = True
            self._woken.append(stream)
            if not self._is_due:
                self._is_due = True
                asyncio.get_running_loop().call_soon(self._serve_woken)

    def _serve_woken(self) -> None:
        """As far as this turn's share goes."""
        until = processor_s() + SHARE_S
        try:
            while self._woken and processor_s() < until:
                stream = self._woken.popleft()
                stream.is_woken = False
                self.serve(stream)
        finally:
            self._is_due = bool(self._woken)
            if self._is_due:
                asyncio.get_running_loop().call_soon(self._serve_woken)
