"""What a call works on: two calls that change the same thing at the same time get in each other's way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from mooring.csi.driver import Rpc


class Subject(NamedTuple):
    """kind: `volume`, `volume name`. name: its id, or the name that it is to have."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}"


_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "create_volume": ("volume name", "name"),
    "delete_volume": ("volume", "volume_id"),
    "controller_publish_volume": ("volume", "volume_id"),
    "controller_unpublish_volume": ("volume", "volume_id"),
    "controller_expand_volume": ("volume", "volume_id"),
    "controller_modify_volume": ("volume", "volume_id"),
    "create_snapshot": ("snapshot name", "name"),
    "delete_snapshot": ("snapshot", "snapshot_id"),
    "create_volume_group_snapshot": ("group snapshot name", "name"),
    "delete_volume_group_snapshot": ("group snapshot", "group_snapshot_id"),
    "node_stage_volume": ("volume", "volume_id"),
    "node_unstage_volume": ("volume", "volume_id"),
    "node_publish_volume": ("volume", "volume_id"),
    "node_unpublish_volume": ("volume", "volume_id"),
    "node_expand_volume": ("volume", "volume_id"),
}

_READS: Final[Mapping[str, tuple[str, str]]] = {
    "validate_volume_capabilities": ("volume", "volume_id"),
    "controller_get_volume": ("volume", "volume_id"),
    "node_get_volume_stats": ("volume", "volume_id"),
    "get_snapshot": ("snapshot", "snapshot_id"),
    "get_volume_group_snapshot": ("group snapshot", "group_snapshot_id"),
}


def changed_by(rpc: Rpc[Any, Any], request: Message) -> Subject | None:
    """What the call changes; None for a call that changes nothing."""
    return _subject(_FIELDS, rpc, request)


def named_by(rpc: Rpc[Any, Any], request: Message) -> Subject | None:
    """What the call is about; None for a call about the driver, a node or all there is."""
    return _subject(_FIELDS, rpc, request) or _subject(_READS, rpc, request)


def _subject(table: Mapping[str, tuple[str, str]], rpc: Rpc[Any, Any], request: Message) -> Subject | None:
    if rpc.attribute not in table:
        return None
    kind, field = table[rpc.attribute]
    return Subject(kind, getattr(request, field))
