"""A node's topology, as a driver's class has it: an attribute, a property or a method."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

from mooring.csi.proto import csi_pb2 as csi

_TOPOLOGY = csi.PluginCapability.Service.VOLUME_ACCESSIBILITY_CONSTRAINTS


def segments_of(given: Any) -> Any:
    """The value of `node_segments`, whatever that is. given: the attribute of a driver; a method is called."""
    return given() if callable(given) else given


def fault_of(given: Any, capabilities: Collection[int]) -> str:
    """Why the segments are no topology, "" where they are. capabilities: of the plugin; without topology there, none will do."""
    if inspect.iscoroutinefunction(given):
        return "is `async def`: make it a plain one, or override node_get_info"
    found = segments_of(given)
    if not isinstance(found, Mapping) or not all(isinstance(word, str) for pair in found.items() for word in pair):
        return f"gives {found!r}: give texts by their keys, as in {{'example.com/zone': 'a'}}"
    if absent := [key for key, value in found.items() if not key or not value]:
        return f"has no value for {absent[0]!r}: make it a property where it depends on node_id, which may come after __init__"
    if not found and _TOPOLOGY in capabilities:
        return "is empty, and plugin_flags announce VOLUME_ACCESSIBILITY_CONSTRAINTS: say where the node is, or drop the flag"
    return ""
