"""The status of a snapshot, from that of its content. Pure."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any, Final

import msgspec

from mooring.api.quantity import Quantity, parse_quantity
from mooring.api.snapshot import SnapshotError, VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotContentStatus, VolumeSnapshotStatus
from mooring.base.clock import rfc3339

_NOTHING: Final = VolumeSnapshotContentStatus()


def copied(snapshot: VolumeSnapshot, content: VolumeSnapshotContent, group_name: str = "") -> VolumeSnapshotStatus:
    """The status that the snapshot is to have. Its first value stays: the bound name, the creation time, the group, a size above zero.

    Differs from snapshot-controller: errors are compared by what they say, and one without a message is borne.
    """
    old = snapshot.status or VolumeSnapshotStatus()
    new = content.status or _NOTHING
    ready = new.ready_to_use if new.ready_to_use is not None else bool(old.ready_to_use)
    return _with(
        old,
        bound_volume_snapshot_content_name=old.bound_volume_snapshot_content_name or content.metadata.name,
        ready_to_use=ready,
        creation_time=old.creation_time or _time(new.creation_time),
        restore_size=_size(old.restore_size, new.restore_size),
        error=None if ready and not old.ready_to_use else _error(new.error),
        volume_group_snapshot_name=old.volume_group_snapshot_name or group_name or None,
    )


def _with(status: VolumeSnapshotStatus, **changes: Any) -> VolumeSnapshotStatus:
    return msgspec.structs.replace(status, **changes)


def _error(error: SnapshotError | None) -> SnapshotError | None:
    return error if error is not None and (error.message or error.time) else None


def _time(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else rfc3339(nanoseconds // 10**9)


def _size(old: str | int | None, new: int | None) -> str | int | None:
    if new is None or (old is not None and (_bytes(old) != 0 or new <= 0)):
        return old
    return str(Quantity(Decimal(new), "binary"))


def _bytes(size: str | int) -> Decimal:
    try:
        return parse_quantity(str(size)).value
    except ValueError:
        return Decimal(1)  # unreadable is not zero: it stays


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """What is new in a status, for events and metrics."""

    created: bool
    ready: bool


def progress(old: VolumeSnapshotStatus | None, new: VolumeSnapshotStatus) -> Progress:
    before = old or VolumeSnapshotStatus()
    return Progress(
        created=new.creation_time is not None and before.creation_time is None,
        ready=new.ready_to_use is True and before.ready_to_use is not True,
    )


def as_json(status: VolumeSnapshotStatus | None) -> dict[str, Any] | None:
    """None where there is no status."""
    found: dict[str, Any] | None = None if status is None else msgspec.to_builtins(status)
    return found
