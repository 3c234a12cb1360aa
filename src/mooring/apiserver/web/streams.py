"""Watches on connections: woken together, each event encoded once, and no task for any of them.

When a kind has changed, its streams are gone through once, some hundred in each turn of the loop, and each is written what it has not
seen. A stream whose client does not read is left out until it does; the server cuts it when that takes too long.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from mooring.apiserver.watch import Cursor, Place, WatchHub
from mooring.apiserver.watch_buffer import Batch
from mooring.apiserver.web.lines import Lines
from mooring.apiserver.web.messages import WatchReply
from mooring.apiserver.web.metrics import Measured
from mooring.apiserver.web.rendered import RenderedLines
from mooring.apiserver.web.rendering import WHOLE

_PER_TURN: Final = 256
_WRITE_BYTES: Final = 64 * 1024
"""Sent at once to one who has fallen behind, about."""


class Outlet(Protocol):
    """Where a stream's lines go."""

    def write(self, data: bytes) -> None: ...

    @property
    def is_writable(self) -> bool:
        """False while too much waits to be sent."""
        ...

    def end(self) -> None:
        """The watch is over."""
        ...


class Stream:
    """One watch on one connection. is_chunked: the lines go in HTTP's chunks."""

    __slots__ = ("_cursor", "_is_chunked", "_lines", "_outlet", "_reply", "is_woken", "place", "timer")

    def __init__(self, reply: WatchReply, cursor: Cursor, outlet: Outlet, lines: Lines | RenderedLines, *, is_chunked: bool) -> None:
        self._reply, self._cursor, self._outlet, self._lines, self._is_chunked = reply, cursor, outlet, lines, is_chunked
        self.timer: asyncio.TimerHandle | None = None
        self.place: Place = reply.resource.storage
        self.is_woken = False

    @property
    def wake_at(self) -> float:
        """When a bookmark or the end is due."""
        return self._cursor.wake_at

    def tell(self, measured: Measured) -> bool:
        """Writes all that there is to tell, as far as the client reads. False once the watch is over."""
        while self._outlet.is_writable:
            parts, size, count = [], 0, 0
            while size < _WRITE_BYTES and (batch := self._cursor.take()) is not None:
                parts.append(self._encoded(batch))
                size, count = size + len(parts[-1]), count + len(batch.notices)
            if not parts:
                return not self._cursor.is_over
            self._outlet.write(parts[0] if len(parts) == 1 else b"".join(parts))
            measured.told(self._reply.resource.path, count)
        return True

    def end(self) -> None:
        self._outlet.end()

    def _encoded(self, batch: Batch) -> bytes:
        found = batch.encoded.get(self._is_chunked) if self._reply.rendering is WHOLE else None
        if found is None:
            data = b"".join([self._lines.line(self._reply.resource, notice) for notice in batch.notices])
            found = b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data
            if self._reply.rendering is WHOLE:
                batch.encoded[self._is_chunked] = found
        return found


class Streams:
    """All streams of a server, by what wakes them."""

    def __init__(self, hub: WatchHub, measured: Measured) -> None:
        self._hub, self._measured, self._lines = hub, measured, Lines()
        self._at: dict[Place, dict[Stream, None]] = {}
        self._woken: deque[Stream] = deque()
        hub.on_wake(self._wake)

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    def prepare(self, reply: WatchReply, outlet: Outlet, *, is_chunked: bool) -> Stream:
        """A stream that has told nothing yet. Raises what `start_of` raises."""
        cursor = self._hub.cursor(reply.resource, reply.scope, reply.options)
        lines = self._lines if reply.rendering is WHOLE else RenderedLines(reply.rendering, self._hub.clock)
        return Stream(reply, cursor, outlet, lines, is_chunked=is_chunked)

    def begin(self, stream: Stream) -> None:
        """From now on the stream is told of changes; of what was before at once."""
        self._at.setdefault(stream.place, {})[stream] = None
        self._due(stream)

    def remove(self, stream: Stream) -> None:
        """Forgets it. Harmless twice."""
        if stream.timer is not None:
            stream.timer.cancel()
        at = self._at.get(stream.place, {})
        at.pop(stream, None)
        if not at:
            self._at.pop(stream.place, None)

    def serve(self, stream: Stream) -> None:
        """Tells one stream what is new: also when its client reads again."""
        if stream in self._at.get(stream.place, ()) and not stream.tell(self._measured):
            self.remove(stream)
            stream.end()

    def end_all(self) -> None:
        """Ends them, as far as their clients read."""
        for at in list(self._at.values()):
            for stream in list(at):
                self.serve(stream)

    def _due(self, stream: Stream) -> None:
        self.serve(stream)
        if stream in self._at.get(stream.place, ()):
            stream.timer = asyncio.get_running_loop().call_at(stream.wake_at, self._due, stream)

    def _wake(self, place: Place | None) -> None:
        were_there_any = bool(self._woken)
        for at in list(self._at.values()) if place is None else [self._at.get(place, {})]:
            for stream in at:
                if not stream.is_woken:
                    stream.is_woken = True
                    self._woken.append(stream)
        if self._woken and not were_there_any:
            asyncio.get_running_loop().call_soon(self._serve_woken)

    def _serve_woken(self) -> None:
        for _ in range(min(_PER_TURN, len(self._woken))):
            stream = self._woken.popleft()
            stream.is_woken = False
            self.serve(stream)
        if self._woken:
            asyncio.get_running_loop().call_soon(self._serve_woken)
