"""The objects, fields and indexes that one driver's snapshotter reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mooring.api.group_snapshot import VolumeGroupSnapshotClass, VolumeGroupSnapshotContent
from mooring.api.meta import Key, is_deleting
from mooring.api.snapshot import VolumeSnapshotClass, VolumeSnapshotContent
from mooring.api.snapshot_kinds import (
    SINGLES,
    Class,
    Content,
    Row,
    class_name_of,
    handle_of,
    imported_handle,
    is_content_ready,
    ref_of,
    row_of,
)
from mooring.api.snapshot_names import BEING_DELETED, DELETE_POLICY, is_group_content, is_marked
from mooring.base.clock import parse_rfc3339
from mooring.control.slim import WHOLE, Part, always, slim
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.kube.cache.reader import Reader
from mooring.sidecars.snapshotter.creation import Memory
from mooring.sidecars.snapshotter.options import SnapshotterOptions

YOUTH_S: Final = 60.0
"""Less than the time in which somebody labels a content for another node by hand."""

BY_CLASS: Final = "snapshotter/class"
BY_HANDLE: Final = "snapshotter/handle"
BY_MEMBER: Final = "snapshotter/member"


class View(msgspec.Struct, frozen=True):
    """The caches and the memory, live. contents, group_contents: of this driver alone; the latter empty unless groups
    are taken care of.
    """

    driver: DriverCapabilities
    contents: Reader[VolumeSnapshotContent]
    classes: Reader[VolumeSnapshotClass]
    memory: Memory
    options: SnapshotterOptions
    group_contents: Reader[VolumeGroupSnapshotContent]
    group_classes: Reader[VolumeGroupSnapshotClass]

    def contents_of(self, row: Row) -> Reader[Any]:
        return self.contents if row is SINGLES else self.group_contents

    def class_of(self, content: Content) -> Class | None:
        name = class_name_of(content)
        classes: Reader[Any] = self.classes if row_of(content) is SINGLES else self.group_classes
        return classes.get(Key("", name)) if name else None

    def waits_for_group(self, content: VolumeSnapshotContent) -> bool:
        """True for a member of a group that is not ready, or that the cache does not show yet."""
        handle = content.status.volume_group_snapshot_handle if content.status else None
        found = tuple(self.group_contents.by(BY_HANDLE, handle or ""))
        return self.options.groups and (not found or not all(map(is_content_ready, found)))

    def other_of(self, content: Content, handle: str) -> str:
        """The name of another content that keeps what this handle is of; of a single snapshot, also of a group's. ""
        for none.
        """
        return min((one.metadata.name for one in self._alike(content, handle) if keeps(one)), default="")

    def single_of(self, content: Content) -> str:
        """The name of a single content that keeps a snapshot of this group; "" for none, and for what is no group."""
        found = (one for one in self._singles(content) if keeps(one) and not _goes_with(content, one))
        return min((one.metadata.name for one in found), default="")

    def others_of(self, content: Content) -> Sequence[Content]:
        """All other contents that name its snapshot, its group or a snapshot of it, whether they keep it or not."""
        return (*self._alike(content, handle_of(content)), *self._singles(content))

    def _alike(self, content: Content, handle: str) -> Sequence[Content]:
        found = self.contents_of(row_of(content)).by(BY_HANDLE, handle)
        groups = self.group_contents.by(BY_MEMBER, handle) if row_of(content) is SINGLES else ()
        return (*(one for one in found if one.metadata.uid != content.metadata.uid), *groups)

    def _singles(self, content: Content) -> Iterator[VolumeSnapshotContent]:
        return (one for handle in members_of(content) for one in self.contents.by(BY_HANDLE, handle))


def _goes_with(group: Content, single: VolumeSnapshotContent) -> bool:
    """True for the content of a member, whatever its own policy; not for one that a former group has left behind.

    A member is never marked before its group is gone: to wait for its content would be for ever.
    """
    handle = single.status.volume_group_snapshot_handle if single.status is not None else None
    was_kept = single.spec.deletion_policy != DELETE_POLICY and is_marked(single, BEING_DELETED)
    return (is_group_content(single) or handle == handle_of(group)) and not was_kept


# -- what a content says, of whichever kind


def members_of(content: Content) -> tuple[str, ...]:
    """The handles of a group's snapshots, as far as they are known."""
    if not isinstance(content, VolumeGroupSnapshotContent):
        return ()
    if content.spec.source.group_snapshot_handles is not None:
        return content.spec.source.group_snapshot_handles.volume_snapshot_handles
    return tuple(
        info.snapshot_handle for info in (content.status.volume_snapshot_info_list if content.status else None) or ()
    )


def is_born(content: Content, wall_s: float) -> bool:
    """True for a content that was just made, so that nobody has looked at it yet. One that another node had comes with
    its past.
    """
    created = content.metadata.creation_timestamp
    return created is not None and wall_s - parse_rfc3339(created) < YOUTH_S and content.status is None


def is_open(content: Content) -> bool:
    """True while the driver may have made a snapshot whose handle nobody knows."""
    return is_marked(content, row_of(content).being_created) and not handle_of(content)


def is_given_up(content: Content) -> bool:
    """True for a content that is being deleted because its snapshot is."""
    return is_deleting(content) and is_marked(content, row_of(content).being_deleted)


def given_up_s(content: Content, wall_s: float) -> float | None:
    """Since when a content that is given up is in deletion; None for another one."""
    deleted = content.metadata.deletion_timestamp
    return wall_s - parse_rfc3339(deleted) if deleted is not None and is_given_up(content) else None


def is_going(content: Content) -> bool:
    """True when the driver's side is to act on the deletion.

    A content that was deleted by hand, while its snapshot lives, waits for the end of that.
    """
    unbound = imported_handle(content) is not None and not ref_of(content).uid
    if is_deleting(content) and unbound:
        return True
    return is_given_up(content) and not is_open(content)


def keeps(content: Content) -> bool:
    """True for a content that stands for its snapshot: by its policy, or until it goes.

    The mark of a deletion alone says nothing: it stays on what was kept, also when that is bound once more.
    """
    return content.spec.deletion_policy != DELETE_POLICY or not is_going(content)


# -- indexes, and the kept parts of objects


def handles_of(content: Content) -> Iterable[str]:
    """The handles that it names, in its status and as its source."""
    return set(filter(None, (handle_of(content), imported_handle(content))))


CONTENT_INDEXES: Final[Mapping[str, Callable[[Any], Iterable[str]]]] = {
    BY_CLASS: lambda content: filter(None, () if is_content_ready(content) else (class_name_of(content),)),
    BY_HANDLE: lambda content: handles_of(content),
    BY_MEMBER: lambda content: sorted(set(filter(None, members_of(content)))),
}

keeps_class = always(slim("driver", "parameters", metadata=slim()))


@functools.cache
def keeps_content(driver_name: str) -> Callable[[Any], Part | None]:
    """Contents of other drivers are left out; of ours all counts, since any change but a few brings it again."""
    return lambda content: WHOLE if content.spec.driver == driver_name else None
