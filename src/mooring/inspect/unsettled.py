"""Contents of snapshots of which nobody knows whether the driver has made something: the mark of a creation, and no
handle. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, VolumeGroupSnapshotContent
from mooring.api.meta import ObjectMeta
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotContent
from mooring.api.snapshot_names import BEING_CREATED, GROUP_BEING_CREATED, is_marked
from mooring.base.clock import parse_rfc3339

LEFT_S: Final = 600.0
"""A content that has been in deletion for this long does not find out by itself."""


class Unsettled(msgspec.Struct, frozen=True):
    """object: kind and name of the content. volumes: the handles of those that it is of. mark: the annotation.

    is_left: its snapshot was deleted, and it stays for this alone. created_wall_s: None for unknown.
    """

    object: str
    volumes: tuple[str, ...]
    mark: str
    is_left: bool
    created_wall_s: float | None

    def __str__(self) -> str:
        asked = f"a request for a snapshot of {', '.join(self.volumes)} got no answer"
        if not self.is_left:
            return f"{asked}: the snapshotter repeats it"
        return (
            f"{asked}; if the storage has no such snapshot, or once you have deleted it there, take the annotation "
            f"{self.mark} off"
        )


def unsettled_of(
    contents: Iterable[VolumeSnapshotContent],
    groups: Iterable[VolumeGroupSnapshotContent],
    driver_name: str,
    wall_s: float,
) -> Iterator[Unsettled]:
    for one in contents:
        handle, volume = one.status.snapshot_handle if one.status else None, one.spec.source.volume_handle
        if one.spec.driver == driver_name and is_marked(one, BEING_CREATED) and volume and not handle:
            yield _unsettled(VOLUME_SNAPSHOT_CONTENTS.name, one.metadata, (volume,), BEING_CREATED, wall_s)
    for group in groups:
        handle, volumes = (
            group.status.volume_group_snapshot_handle if group.status else None,
            group.spec.source.volume_handles,
        )
        if group.spec.driver == driver_name and is_marked(group, GROUP_BEING_CREATED) and volumes and not handle:
            yield _unsettled(GROUP_SNAPSHOT_CONTENTS.name, group.metadata, volumes, GROUP_BEING_CREATED, wall_s)


def _unsettled(kind: str, meta: ObjectMeta, volumes: tuple[str, ...], mark: str, wall_s: float) -> Unsettled:
    deleted, created = meta.deletion_timestamp, meta.creation_timestamp
    is_left = deleted is not None and wall_s - parse_rfc3339(deleted) > LEFT_S
    return Unsettled(f"{kind}/{meta.name}", volumes, mark, is_left, None if created is None else parse_rfc3339(created))
