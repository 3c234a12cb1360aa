"""The host-path driver's state as the text of its file, and back. What this code did not write is refused, with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from mooring.driver.state import Snapshot, State, Volume, is_snapshot_id, is_volume_id

FORMAT: Final = 2
"""1 had no snapshots, and of volumes only the first five fields. It is still read."""


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: Literal[1, 2]
    state: State


class _Head(msgspec.Struct, frozen=True):
    format: int


def encoded(state: State) -> bytes:
    """The state as it stands in the file: JSON, indented, for people."""
    return msgspec.json.format(msgspec.json.encode(_Document(FORMAT, state))) + b"\n"


def decoded(text: bytes) -> State:
    """The state of a file. Raises ValueError, saying what is wrong, for anything that this code did not write."""
    try:
        head = msgspec.json.decode(text, type=_Head)
        if head.format not in (1, FORMAT):
            raise ValueError(f"it has format {head.format}, and this version reads formats 1 and {FORMAT}")
        state = msgspec.json.decode(text, type=_Document).state
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    _check(state)
    return state


def _check(state: State) -> None:
    for key, volume in state.volumes.items():
        if key != volume.id or not is_volume_id(key):
            raise ValueError(f"{key!r} is no volume id of this driver")
        if volume.capacity_bytes < 0:
            raise ValueError(f"volume {key!r} has a negative size")
        if len({one.node_id for one in volume.published}) < len(volume.published):
            raise ValueError(f"volume {key!r} is published twice on one node")
    for key, snapshot in state.snapshots.items():
        if key != snapshot.id or not is_snapshot_id(key):
            raise ValueError(f"{key!r} is no snapshot id of this driver")
        if snapshot.size_bytes < 0:
            raise ValueError(f"snapshot {key!r} has a negative size")
    _check_names("volumes", state.volumes.values())
    _check_names("snapshots", state.snapshots.values())
    for one in state.deleting:
        if not (is_volume_id(one) or is_snapshot_id(one)) or state.owner(one) is not None:
            raise ValueError(f"{one!r} is nothing that could be on its way out")


def _check_names(what: str, records: Iterable[Volume | Snapshot]) -> None:
    names = [one.name for one in records]
    if len(set(names)) < len(names):
        raise ValueError(f"two {what} have one name")
