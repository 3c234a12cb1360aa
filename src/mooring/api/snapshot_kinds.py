"""Single snapshots and group snapshots as two rows of one table, and what their contents say, for both programs.

Names that differ by a word are made of it: `VolumeSnapshot…` of `VolumeGroupSnapshot…`, the reasons of Events of
`Snapshot` and `GroupSnapshot`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from mooring.api import snapshot_names as names
from mooring.api.core import ObjectReference
from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CLASSES,
    GROUP_SNAPSHOT_CONTENTS,
    GROUP_SNAPSHOTS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from mooring.api.meta import Kind
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.api.snapshot_names import SnapshotSecret

Snapshot: TypeAlias = VolumeSnapshot | VolumeGroupSnapshot
Content: TypeAlias = VolumeSnapshotContent | VolumeGroupSnapshotContent
Class: TypeAlias = VolumeSnapshotClass | VolumeGroupSnapshotClass


class Row(msgspec.Struct, frozen=True):
    """One of the two sorts of snapshots: single ones, and groups."""

    snapshots: Kind[Any]
    contents: Kind[Any]
    classes: Kind[Any]
    #: The word for it in texts for users.
    noun: str
    #: The word for it in the reasons of Events and the names of metrics.
    title: str
    #: The beginning of the content's fields for its class and its snapshot; in small letters of names everywhere.
    field: str
    #: The beginning of finalizers and annotations.
    domain: str
    #: Stays on a snapshot from its beginning until its end has begun.
    source_finalizer: str
    #: The Secret of a class for making and deleting.
    secret: SnapshotSecret
    #: The Secret of a class for questions.
    question_secret: SnapshotSecret

    @property
    def prefix(self) -> str:
        """The word for a snapshot in tokens of templates and in extra parameters."""
        return self.field.lower()

    @property
    def class_field(self) -> str:
        return f"{self.field}ClassName"

    @property
    def ref_field(self) -> str:
        return f"{self.field}Ref"

    @property
    def bound_finalizer(self) -> str:
        """Stays on a snapshot as long as its content goes with it."""
        return f"{self.domain}{self.prefix}-bound-protection"

    @property
    def finalizers(self) -> tuple[str, ...]:
        """All of ours on a snapshot, from the first that goes."""
        return tuple(dict.fromkeys((self.source_finalizer, self.bound_finalizer, names.IN_GROUP_FINALIZER)))

    @property
    def content_finalizer(self) -> str:
        return f"{self.domain}{self.prefix}content-bound-protection"

    @property
    def being_created(self) -> str:
        """The annotation of a content that its driver may have been asked to make the snapshot."""
        return f"{self.domain}{self.prefix}-being-created"

    @property
    def being_deleted(self) -> str:
        """The annotation of a content whose snapshot is to go."""
        return f"{self.domain}{self.prefix}-being-deleted"

    @property
    def default_class(self) -> str:
        return f"{self.domain}is-default-class"

    @property
    def secret_name(self) -> str:
        return f"{self.domain}deletion-secret-name"

    @property
    def secret_namespace(self) -> str:
        return f"{self.domain}deletion-secret-namespace"


SINGLES: Final = Row(
    snapshots=VOLUME_SNAPSHOTS,
    contents=VOLUME_SNAPSHOT_CONTENTS,
    classes=VOLUME_SNAPSHOT_CLASSES,
    noun="snapshot",
    title="Snapshot",
    field="volumeSnapshot",
    domain="snapshot.storage.kubernetes.io/",
    source_finalizer=names.AS_SOURCE_FINALIZER,
    secret=SnapshotSecret.SNAPSHOTTER,
    question_secret=SnapshotSecret.LIST,
)
GROUPS: Final = Row(
    snapshots=GROUP_SNAPSHOTS,
    contents=GROUP_SNAPSHOT_CONTENTS,
    classes=GROUP_SNAPSHOT_CLASSES,
    noun="group snapshot",
    title="GroupSnapshot",
    field="volumeGroupSnapshot",
    domain="groupsnapshot.storage.kubernetes.io/",
    source_finalizer=names.GROUP_FINALIZER,
    secret=SnapshotSecret.GROUP,
    question_secret=SnapshotSecret.GROUP_GET,
)

_OF_GROUPS: Final = (VolumeGroupSnapshot, VolumeGroupSnapshotContent, VolumeGroupSnapshotClass)


def row_of(obj: Snapshot | Content | Class) -> Row:
    return GROUPS if isinstance(obj, _OF_GROUPS) else SINGLES


def class_name_of(obj: Snapshot | Content) -> str:
    """ "" for none."""
    if isinstance(obj, VolumeGroupSnapshot | VolumeGroupSnapshotContent):
        return obj.spec.volume_group_snapshot_class_name or ""
    return obj.spec.volume_snapshot_class_name or ""


def ref_of(content: Content) -> ObjectReference:
    """The content's reference to its snapshot."""
    if isinstance(content, VolumeGroupSnapshotContent):
        return content.spec.volume_group_snapshot_ref
    return content.spec.volume_snapshot_ref


def volumes_of(content: Content) -> tuple[str, ...]:
    """The handles of the volumes that it is to be made of."""
    if isinstance(content, VolumeGroupSnapshotContent):
        return content.spec.source.volume_handles or ()
    return tuple(filter(None, (content.spec.source.volume_handle,)))


def handle_of(content: Content) -> str:
    """The driver's name for the snapshot, or the group; "" while it is not known."""
    if isinstance(content, VolumeGroupSnapshotContent):
        return (content.status.volume_group_snapshot_handle if content.status else None) or ""
    return (content.status.snapshot_handle if content.status else None) or ""


def imported_handle(content: Content) -> str | None:
    """The handle that an import was made with, None for no import."""
    if isinstance(content, VolumeGroupSnapshotContent):
        handles = content.spec.source.group_snapshot_handles
        return None if handles is None else handles.volume_group_snapshot_handle
    return content.spec.source.snapshot_handle or None


def is_content_ready(content: Content) -> bool:
    """True once the driver has called its snapshot, or its group, ready."""
    return content.status is not None and content.status.ready_to_use is True
