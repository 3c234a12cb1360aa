"""The lines of a watch, each encoded once for all who read it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import msgspec

from mooring.apiserver.codecs.schema import decode
from mooring.apiserver.resource import Resource
from mooring.apiserver.table import Stored
from mooring.apiserver.watch_buffer import Notice
from mooring.kube.cluster import EventType

_KEPT: Final = 512
_KEPT_BYTES: Final = 4 * 1024 * 1024


class Lines:
    """Watch lines, the latest kept: who comes second finds them encoded."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Stored, EventType], bytes] = OrderedDict()
        self._bytes = 0

    def line(self, resource: Resource, notice: Notice) -> bytes:
        """One event as a line of JSON."""
        if notice.stored is None:
            return bookmark(resource, notice)
        key = (notice.stored, notice.type)  # (the same object for all who see it alike)
        line = self._kept.get(key)
        if line is None:
            line = b'{"type":"%s","object":%s}\n' % (notice.type.value.encode(), notice.stored.body)
            self._kept[key] = line
            self._bytes += len(line)
            while len(self._kept) > _KEPT or self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._kept.popitem(last=False)[1])
        return line


def bookmark(resource: Resource, notice: Notice) -> bytes:
    """The line that says how far the watch has come."""
    meta: dict[str, Any] = {"resourceVersion": str(notice.version)}
    if notice.initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    empty = decode(resource.message, {}, []) if resource.custom is None else {}
    obj = {"kind": resource.kind, "apiVersion": resource.api_version, **empty, "metadata": meta}
    return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"
