"""The objects, fields and indexes that one driver's snapshotter reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot import VolumeSnapshotClass, VolumeSnapshotContent
from mooring.base.clock import parse_rfc3339
from mooring.control.slim import WHOLE, Part, always, slim
from mooring.controllers.snapshotter.groups import view as groups
from mooring.controllers.snapshotter.memory import Memory
from mooring.controllers.snapshotter.options import SnapshotterOptions
from mooring.controllers.snapshotting.names import BEING_CREATED, BEING_DELETED, DELETE_POLICY, is_marked
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader

YOUTH_S: Final = 60.0
"""Less than the time in which somebody labels a content for another node by hand."""

BY_CLASS: Final = "snapshotter/class"
BY_HANDLE: Final = "snapshotter/handle"
BY_SOURCE: Final = "snapshotter/source"


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches and the memory, live. contents, group_contents: of this driver alone; the latter empty unless groups are taken care of."""

    driver: DriverCapabilities
    contents: Reader[VolumeSnapshotContent]
    classes: Reader[VolumeSnapshotClass]
    memory: Memory
    options: SnapshotterOptions
    group_contents: Reader[VolumeGroupSnapshotContent]

    def content(self, name: str) -> VolumeSnapshotContent | None:
        return self.contents.get(Key("", name))

    def class_of(self, content: VolumeSnapshotContent) -> VolumeSnapshotClass | None:
        name = content.spec.volume_snapshot_class_name
        return self.classes.get(Key("", name)) if name else None

    def waits_for_group(self, content: VolumeSnapshotContent) -> bool:
        """True for a member of a group that is not ready, or that the cache does not show yet."""
        handle = content.status.volume_group_snapshot_handle if content.status else None
        found = tuple(self.group_contents.by(groups.BY_HANDLE, handle or ""))
        return self.options.groups and (not found or not all(map(groups.is_ready, found)))

    def is_named(self, handle: str) -> bool:
        """True where a content stands for this snapshot."""
        return any(True for _ in self.contents.by(BY_HANDLE, handle))

    def is_source(self, volume_handle: str) -> bool:
        """True where a content is of exactly this volume."""
        return any(True for _ in self.contents.by(BY_SOURCE, volume_handle))

    def other_volume_of(self, content: VolumeSnapshotContent, handle: str) -> str:
        """The volume of which another content has this snapshot, "" where none has it of another volume than this one."""
        handles = (one.spec.source.volume_handle for one in self.contents.by(BY_HANDLE, handle))
        return min((other for other in handles if other and other != content.spec.source.volume_handle), default="")

    def other_of(self, content: VolumeSnapshotContent, handle: str) -> str:
        """The name of another content, or of a group's, that keeps this snapshot; "" for none."""
        others = [one for one in self.contents.by(BY_HANDLE, handle) if one.metadata.uid != content.metadata.uid and keeps_snapshot(one)]
        in_groups = [one for one in self.group_contents.by(groups.BY_MEMBER, handle) if groups.keeps_group(one)]
        return min((*(one.metadata.name for one in others), *(one.metadata.name for one in in_groups)), default="")


def handle_of(content: VolumeSnapshotContent) -> str:
    """The driver's name for the snapshot, "" while it is not known."""
    return (content.status.snapshot_handle if content.status else None) or ""


def is_ready(content: VolumeSnapshotContent) -> bool:
    return content.status is not None and content.status.ready_to_use is True


def is_born(content: VolumeSnapshotContent, wall_s: float) -> bool:
    """True for a content that was just made, so that nobody has looked at it yet. One that another node had comes with its past."""
    created = content.metadata.creation_timestamp
    return created is not None and wall_s - parse_rfc3339(created) < YOUTH_S and content.status is None


def is_open(content: VolumeSnapshotContent) -> bool:
    """True while the driver may have made a snapshot whose handle nobody knows."""
    return is_marked(content, BEING_CREATED) and not handle_of(content)


def is_given_up(content: VolumeSnapshotContent) -> bool:
    """True for a content that is being deleted because its snapshot is."""
    return is_deleting(content) and is_marked(content, BEING_DELETED)


def is_going(content: VolumeSnapshotContent) -> bool:
    """True when the driver's side is to act on the deletion.

    A content that was deleted by hand, while its snapshot lives, waits for the end of that.
    """
    unbound = bool(content.spec.source.snapshot_handle) and not content.spec.volume_snapshot_ref.uid
    if is_deleting(content) and unbound:
        return True
    return is_given_up(content) and not is_open(content)


def keeps_snapshot(content: VolumeSnapshotContent) -> bool:
    """True for a content that stands for its snapshot: by its policy, or until it goes.

    The mark of a deletion alone says nothing: it stays on what was kept, also when that is bound once more.
    """
    return content.spec.deletion_policy != DELETE_POLICY or not is_going(content)


# -- indexes, and the kept parts of objects


def _class_in_need(content: VolumeSnapshotContent) -> Iterable[str]:
    name = content.spec.volume_snapshot_class_name
    return (name,) if name and not is_ready(content) else ()


def handles_of(content: VolumeSnapshotContent) -> Iterable[str]:
    """The handles that it names, in its status and as its source."""
    return {handle for handle in (handle_of(content), content.spec.source.snapshot_handle) if handle}


def _source(content: VolumeSnapshotContent) -> Iterable[str]:
    return filter(None, (content.spec.source.volume_handle,))


CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeSnapshotContent], Iterable[str]]]] = {
    BY_CLASS: _class_in_need,
    BY_HANDLE: handles_of,
    BY_SOURCE: _source,
}

keeps_class = always(slim("driver", "parameters", metadata=slim()))


@functools.cache
def keeps_content(driver_name: str) -> Callable[[VolumeSnapshotContent], Part | None]:
    """Contents of other drivers are left out; of ours all counts, since any change but a few brings it again."""
    return lambda content: WHOLE if content.spec.driver == driver_name else None
