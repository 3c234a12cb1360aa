"""Watches on connections: woken together, each event encoded once, no task per watch.

When a kind has changed, each of its streams is written its news once, some hundred streams per turn of the loop. A stream whose client
does not read is skipped until it does; the server closes it when that takes too long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Any, Final, Protocol

from mooring.apiserver import effort
from mooring.apiserver.effort import Effort
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored
from mooring.apiserver.watch import Cursor, Place, WatchHub
from mooring.apiserver.watch_buffer import Batch, WatchItem
from mooring.apiserver.web.messages import WatchReply
from mooring.apiserver.web.metrics import ServerMetrics
from mooring.apiserver.web.rendering import WHOLE, Rendering
from mooring.base.clock import Clock
from mooring.kube.cluster import EventType

_KEPT: Final = 512
_KEPT_BYTES: Final = 4 * 1024 * 1024


class _Lines:
    """Watch lines; the latest are kept encoded for other watches."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Stored, EventType], bytes] = OrderedDict()
        self._bytes = 0

    def line(self, resource: Resource, item: WatchItem) -> bytes:
        """One event as a line of JSON."""
        if item.stored is None:
            return _line(item, WHOLE.bookmark(resource, _bookmark_meta(item), first=False))
        key = (item.stored, item.type)  # (the same object for all who see it alike)
        line = self._kept.get(key)
        if line is None:
            line = _line(item, item.stored.body)
            self._kept[key] = line
            self._bytes += len(line)
            while len(self._kept) > _KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return line


def _line(item: WatchItem, obj: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (item.type.value.encode(), obj)


def _bookmark_meta(item: WatchItem) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(item.version)}
    if item.initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return meta


class _RenderedLines:
    """One watch's lines: it knows which is the first, since only that one explains the columns. Nothing is kept: ages go on."""

    def __init__(self, rendering: Rendering, clock: Clock) -> None:
        self._rendering, self._clock = rendering, clock
        self._is_first = True

    def line(self, resource: Resource, item: WatchItem) -> bytes:
        """One event as a line of JSON."""
        first, self._is_first = self._is_first, False
        if item.stored is None:
            return _line(item, self._rendering.bookmark(resource, _bookmark_meta(item), first=first))
        return _line(item, self._rendering.event(resource, item.stored, self._clock.wall_s(), first=first))


_PER_TURN: Final = 256
_WRITE_BYTES: Final = 64 * 1024
"""Sent at once to one who has fallen behind, about."""
_STEPS: Final = 200_000
"""Of work on the cells of tables for one watch in one turn."""


class Outlet(Protocol):
    """Where a stream's lines go."""

    def write(self, data: bytes) -> None: ...

    @property
    def is_writable(self) -> bool:
        """False while too much waits to be sent."""

    def end(self) -> None:
        """The watch is over."""


class Stream:
    """One watch on one connection. is_chunked: the lines go in HTTP's chunks."""

    __slots__ = ("_cursor", "_is_chunked", "_lines", "_outlet", "_reply", "is_woken", "place", "timer")

    def __init__(self, reply: WatchReply, cursor: Cursor, outlet: Outlet, lines: _Lines | _RenderedLines, *, is_chunked: bool) -> None:
        self._reply, self._cursor, self._outlet, self._lines, self._is_chunked = reply, cursor, outlet, lines, is_chunked
        self.timer: asyncio.TimerHandle | None = None
        self.place: Place = reply.resource.storage
        self.is_woken = False

    @property
    def wake_at(self) -> float:
        """When a bookmark or the end is due."""
        return self._cursor.wake_at

    def tell(self, metrics: ServerMetrics) -> bool:
        """Writes all that there is to tell, as far as the client reads. False once the watch is over."""
        with effort.of_request(Effort(_STEPS)):
            return self._tell(metrics)

    def _tell(self, metrics: ServerMetrics) -> bool:
        while self._outlet.is_writable:
            parts, size, count = [], 0, 0
            while size < _WRITE_BYTES and (batch := self._cursor.take()) is not None:
                parts.append(self._encoded(batch))
                size, count = size + len(parts[-1]), count + len(batch.items)
            if not parts:
                return not self._cursor.is_over
            self._outlet.write(parts[0] if len(parts) == 1 else b"".join(parts))
            metrics.count_events(self._reply.resource.path, count)
        return True

    def end(self) -> None:
        self._outlet.end()

    def _encoded(self, batch: Batch) -> bytes:
        found = batch.encoded.get(self._is_chunked) if self._reply.rendering is WHOLE else None
        if found is None:
            data = b"".join([self._lines.line(self._reply.resource, item) for item in batch.items])
            found = b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data
            if self._reply.rendering is WHOLE:
                batch.encoded[self._is_chunked] = found
        return found


class Streams:
    """All streams of a server, by what wakes them."""

    def __init__(self, hub: WatchHub, metrics: ServerMetrics) -> None:
        self._hub, self._metrics, self._lines = hub, metrics, _Lines()
        self._at: dict[Place, dict[Stream, None]] = {}
        self._woken: deque[Stream] = deque()
        hub.on_wake(self._wake)

    def __len__(self) -> int:
        return sum(map(len, self._at.values()))

    def prepare(self, reply: WatchReply, outlet: Outlet, *, is_chunked: bool) -> Stream:
        """A stream that has told nothing yet. Raises what `watch_start_of` raises."""
        cursor = self._hub.cursor(reply.resource, reply.scope, reply.options)
        lines = self._lines if reply.rendering is WHOLE else _RenderedLines(reply.rendering, self._hub.clock)
        return Stream(reply, cursor, outlet, lines, is_chunked=is_chunked)

    def begin(self, stream: Stream) -> None:
        """From now on the stream is told of changes; of what was before at once."""
        self._at.setdefault(stream.place, {})[stream] = None
        self._due(stream)

    def remove(self, stream: Stream) -> None:
        if stream.timer is not None:
            stream.timer.cancel()
        at = self._at.get(stream.place, {})
        at.pop(stream, None)
        if not at:
            self._at.pop(stream.place, None)

    def serve(self, stream: Stream) -> None:
        """Writes the news of one stream, also when its client reads again."""
        if stream in self._at.get(stream.place, ()) and not stream.tell(self._metrics):
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
