"""The lines of a watch whose client wants to see rows of a table, or metadata alone."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.resource import Resource
from mooring.apiserver.watch_buffer import Notice
from mooring.apiserver.web.rendering import Rendering
from mooring.base.clock import Clock


class RenderedLines:
    """One watch's lines: it knows which is the first, since only that one explains the columns. Nothing is kept: ages go on."""

    def __init__(self, rendering: Rendering, clock: Clock) -> None:
        self._rendering, self._clock = rendering, clock
        self._is_first = True

    def line(self, resource: Resource, notice: Notice) -> bytes:
        """One event as a line of JSON."""
        first, self._is_first = self._is_first, False
        return b'{"type":"%s","object":%s}\n' % (notice.type.value.encode(), self._object(resource, notice, first))

    def _object(self, resource: Resource, notice: Notice, first: bool) -> bytes:
        if notice.stored is not None:
            return self._rendering.event(resource, notice.stored, self._clock.wall_s(), first=first)
        meta: dict[str, Any] = {"resourceVersion": str(notice.version)}
        if notice.initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        return self._rendering.bookmark(resource, meta, first=first)
