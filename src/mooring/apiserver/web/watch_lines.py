"""Batches of watch events as bytes: encoded once for all watches that see them alike, and kept within bounds."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any, Final, Protocol

from mooring.apiserver import effort
from mooring.apiserver.effort import Effort
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored
from mooring.apiserver.watch_buffer import Batch, WatchItem
from mooring.apiserver.web.rendering import WHOLE, Rendering
from mooring.base.clock import Clock
from mooring.kube.cluster import EventType

_KEPT: Final = 512
_LINES_BYTES: Final = 4 * 1024 * 1024
_BATCHES_BYTES: Final = 16 * 1024 * 1024
_STEPS: Final = 200_000
"""For work on the cells of tables for one batch."""


class WatchLines(Protocol):
    """The lines of one watch."""

    def encoded(self, resource: Resource, batch: Batch, *, is_chunked: bool) -> bytes:
        """The batch as lines of JSON. is_chunked: in a chunk of HTTP."""


class Encodings:
    """The server keeps for its watches: the latest lines, each for all batches, and the latest batches, each for all
    its watches.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[Stored, EventType, bool], bytes] = OrderedDict()
        self._batches: deque[tuple[Batch, object]] = deque()
        self._lines_bytes = self._batches_bytes = 0

    def line(self, stored: Stored, kind: EventType, *, is_chunked: bool) -> bytes:
        """The same object is the same line for all who see it alike. is_chunked: as a chunk of its own."""
        key = (stored, kind, is_chunked)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _line(kind, stored.body, is_chunked=is_chunked)
            self._lines_bytes += len(line)
            while len(self._lines) > _KEPT or self._lines_bytes > _LINES_BYTES:
                self._lines_bytes -= len(self._lines.popitem(last=False)[1])
        return line

    def keep(self, batch: Batch, form: object, data: bytes) -> None:
        """Remembers what a batch is in a form, for other watches that take it."""
        if not batch.is_shared:
            return
        batch.encoded[form] = data
        self._batches.append((batch, form))
        self._batches_bytes += len(data)
        while len(self._batches) > _KEPT or self._batches_bytes > _BATCHES_BYTES:
            oldest, form = self._batches.popleft()
            self._batches_bytes -= len(oldest.encoded.pop(form))


class WholeLines:
    """Objects as they are."""

    def __init__(self, kept: Encodings) -> None:
        self._kept = kept

    def encoded(self, resource: Resource, batch: Batch, *, is_chunked: bool) -> bytes:
        found = batch.encoded.get(is_chunked)
        if found is None:
            found = self._made(resource, batch, is_chunked=is_chunked)
            self._kept.keep(batch, is_chunked, found)
        return found

    def _made(self, resource: Resource, batch: Batch, *, is_chunked: bool) -> bytes:
        """One line, a large one for all that, is shared as it is."""
        if len(batch.items) == 1:
            return self._line(resource, batch.items[0], is_chunked=is_chunked)
        lines = b"".join([self._line(resource, item, is_chunked=False) for item in batch.items])
        return b"%x\r\n%b\r\n" % (len(lines), lines) if is_chunked else lines

    def _line(self, resource: Resource, item: WatchItem, *, is_chunked: bool) -> bytes:
        if item.stored is not None:
            return self._kept.line(item.stored, item.type, is_chunked=is_chunked)
        return _line(item.type, WHOLE.bookmark(resource, _bookmark_meta(item), first=False), is_chunked=is_chunked)


class RenderedLines:
    """The rendered lines of one watch. Only its first line explains the columns. Kept lines are of this second, since
    ages go on.
    """

    def __init__(self, rendering: Rendering, clock: Clock, kept: Encodings) -> None:
        self._rendering, self._clock, self._kept = rendering, clock, kept
        self._is_first = True

    def encoded(self, resource: Resource, batch: Batch, *, is_chunked: bool) -> bytes:
        form = (is_chunked, self._rendering, resource.custom, self._is_first, int(self._clock.wall_s()))
        found = batch.encoded.get(form)
        if found is None:
            with effort.of_request(Effort(_STEPS)):
                lines = b"".join([self._line(resource, item) for item in batch.items])
            found = b"%x\r\n%b\r\n" % (len(lines), lines) if is_chunked else lines
            self._kept.keep(batch, form, found)
        self._is_first = False
        return found

    def _line(self, resource: Resource, item: WatchItem) -> bytes:
        first, self._is_first = self._is_first, False
        if item.stored is None:
            obj = self._rendering.bookmark(resource, _bookmark_meta(item), first=first)
        else:
            obj = self._rendering.event(resource, item.stored, self._clock.wall_s(), first=first)
        return _line(item.type, obj, is_chunked=False)


def _line(kind: EventType, obj: bytes, *, is_chunked: bool) -> bytes:
    name = kind.value.encode()
    if not is_chunked:
        return b'{"type":"%b","object":%b}\n' % (name, obj)
    return b'%x\r\n{"type":"%b","object":%b}\n\r\n' % (len(name) + len(obj) + _AROUND, name, obj)


_AROUND: Final = len('{"type":"","object":}\n')


def _bookmark_meta(item: WatchItem) -> dict[str, Any]:
    meta: dict[str, Any] = {"resourceVersion": str(item.version)}
    if item.initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return meta
