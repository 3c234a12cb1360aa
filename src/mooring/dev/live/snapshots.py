"""The rows of snapshots that are not ready yet, or on their way out; a ready one waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.meta import is_deleting, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.base.clock import Instant
from mooring.dev.live.board import Objects, VolumeRow
from mooring.dev.live.memory import Reasons

CONTROLLER, SNAPSHOTTER = "snapshot-controller", "snapshotter"
"""The parts of the plane whose reasons are shown, by their names in the story."""
_QUEUE: Final = "snapshot-controller-snapshot"
_CONTENTS: Final = "csi-snapshotter-content"


def snapshot_rows(objects: Objects, reasons: Reasons, now: Instant) -> Iterator[VolumeRow]:
    """By name, in the columns of volumes: the snapshot stands for the claim, its content for the volume."""
    for one in sorted(objects.snapshots, key=key_of):
        stage = "Deleting" if is_deleting(one) else "" if _is_ready(one) else "Creating"
        if stage:
            content = (one.status.bound_volume_snapshot_content_name if one.status else None) or ""
            yield VolumeRow(f"snapshot {key_of(one).name}", content, "", stage, _text(one, content, reasons, now), waits=True)


def _text(one: VolumeSnapshot, content: str, reasons: Reasons, now: Instant) -> str:
    error = one.status.error if one.status is not None else None
    if error is not None and error.message:
        return error.message
    return reasons.text(SNAPSHOTTER, _CONTENTS, content, now) or reasons.text(CONTROLLER, _QUEUE, key_of(one), now)


def _is_ready(one: VolumeSnapshot) -> bool:
    return one.status is not None and one.status.ready_to_use is True
