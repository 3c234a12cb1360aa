"""The objects, fields and indexes of group snapshots that one driver's snapshotter reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.group_snapshot import VolumeGroupSnapshotClass, VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.control.slim import WHOLE, Part, always, slim
from mooring.controllers.snapshotter.memory import Memory
from mooring.controllers.snapshotter.options import SnapshotterOptions
from mooring.controllers.snapshotting.names import DELETE_POLICY, GROUP_BEING_CREATED, GROUP_BEING_DELETED, is_marked
from mooring.kube.cache.reader import Reader

BY_CLASS: Final = "snapshotter/group-class"
BY_HANDLE: Final = "snapshotter/group-handle"
BY_MEMBER: Final = "snapshotter/group-member"
BY_VOLUME: Final = "snapshotter/group-volume"


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches and the memory, live. contents, singles: group contents and single ones of this driver alone."""

    driver_name: str
    contents: Reader[VolumeGroupSnapshotContent]
    classes: Reader[VolumeGroupSnapshotClass]
    memory: Memory
    options: SnapshotterOptions
    singles: Reader[VolumeSnapshotContent]

    def content(self, name: str) -> VolumeGroupSnapshotContent | None:
        return self.contents.get(Key("", name))

    def class_of(self, content: VolumeGroupSnapshotContent) -> VolumeGroupSnapshotClass | None:
        name = content.spec.volume_group_snapshot_class_name
        return self.classes.get(Key("", name)) if name else None

    def is_of_another(self, content: VolumeGroupSnapshotContent, volume_handle: str) -> bool:
        """True for exactly the handle of a volume that is in another group."""
        return any(other.metadata.uid != content.metadata.uid for other in self.contents.by(BY_VOLUME, volume_handle))


def handle_of(content: VolumeGroupSnapshotContent) -> str:
    """The driver's name for the group, "" while it is not known."""
    return (content.status.volume_group_snapshot_handle if content.status else None) or ""


def is_ready(content: VolumeGroupSnapshotContent) -> bool:
    return content.status is not None and content.status.ready_to_use is True


def is_open(content: VolumeGroupSnapshotContent) -> bool:
    """True while the driver may have made a group whose handle nobody knows."""
    return is_marked(content, GROUP_BEING_CREATED) and not handle_of(content)


def is_given_up(content: VolumeGroupSnapshotContent) -> bool:
    """True for a content that is being deleted because its group snapshot is."""
    return is_deleting(content) and is_marked(content, GROUP_BEING_DELETED)


def is_going(content: VolumeGroupSnapshotContent) -> bool:
    """True when the driver's side is to act on the deletion. One that was deleted by hand waits for its group snapshot."""
    unbound = content.spec.source.group_snapshot_handles is not None and not content.spec.volume_group_snapshot_ref.uid
    if is_deleting(content) and unbound:
        return True
    return is_given_up(content) and not is_open(content)


def keeps_group(content: VolumeGroupSnapshotContent) -> bool:
    """True for a content that stands for its group, as a single one stands for its snapshot."""
    return content.spec.deletion_policy != DELETE_POLICY or not is_going(content)


def _class_in_need(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    name = content.spec.volume_group_snapshot_class_name
    return (name,) if name and not is_ready(content) else ()


def _handles(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    imported = content.spec.source.group_snapshot_handles
    return filter(None, {handle_of(content), imported.volume_group_snapshot_handle if imported is not None else ""})


def member_handles(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    """Of its snapshots, as far as they are known."""
    imported, status = content.spec.source.group_snapshot_handles, content.status
    told = ((status.volume_snapshot_info_list if status is not None else None) or ()) if imported is None else ()
    found = imported.volume_snapshot_handles if imported is not None else tuple(info.snapshot_handle for info in told)
    return sorted(set(filter(None, found)))


CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeGroupSnapshotContent], Iterable[str]]]] = {
    BY_CLASS: _class_in_need,
    BY_HANDLE: _handles,
    BY_MEMBER: lambda content: member_handles(content),
    BY_VOLUME: lambda content: content.spec.source.volume_handles or (),
}

keeps_class = always(slim("driver", "parameters", metadata=slim()))


@functools.cache
def keeps_content(driver_name: str) -> Callable[[VolumeGroupSnapshotContent], Part | None]:
    """Contents of other drivers are left out."""
    return lambda content: WHOLE if content.spec.driver == driver_name else None
