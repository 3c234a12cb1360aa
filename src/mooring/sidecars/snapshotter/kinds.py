"""Contents of single snapshots and of group snapshots: two rows of one table. Whatever differs by name alone stands here."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from mooring.api import snapshot_names as names
from mooring.api.group_snapshot import (
    GROUP_SNAPSHOT_CLASSES,
    GROUP_SNAPSHOT_CONTENTS,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from mooring.api.meta import Kind
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.api.snapshot_names import SnapshotSecret

Content: TypeAlias = VolumeSnapshotContent | VolumeGroupSnapshotContent
Class: TypeAlias = VolumeSnapshotClass | VolumeGroupSnapshotClass

LINGER_S: Final = 0.25
"""How long a single content stays after its snapshot. Upstream's snapshot-controller deletes a content at each look until it has seen that
it is gone, and tells of an error when it was gone before."""


class Row(msgspec.Struct, frozen=True):
    """kind, classes: of the contents, and of their classes. queue: its name. noun, noun_of_content: in texts. prefix: of extra parameters.

    being_created, being_deleted, secret_name, secret_namespace: annotations. question_secret: that the class may name.
    create_rpc: in the log. made_of: the fields of the status that tell of the snapshot.
    creation_failed, check_failed, deletion_failed, kept, without_secret: reasons of events. foreign_at_once: whether a class of another
    driver is told at once, as a failed creation. linger_s: how long a content stays after its snapshot.
    """

    kind: Kind[Any]
    classes: Kind[Any]
    queue: str
    noun: str
    noun_of_content: str
    prefix: str
    finalizer: str
    being_created: str
    being_deleted: str
    secret_name: str
    secret_namespace: str
    question_secret: SnapshotSecret
    create_rpc: str
    made_of: tuple[str, ...]
    creation_failed: str
    check_failed: str
    deletion_failed: str
    kept: str
    without_secret: str
    foreign_at_once: bool
    linger_s: float

    @property
    def creation_text(self) -> str:
        return f"Failed to create {self.noun}: "

    @property
    def check_text(self) -> str:
        return f"Failed to check and update {self.noun} content: "


SINGLES: Final = Row(
    kind=VOLUME_SNAPSHOT_CONTENTS,
    classes=VOLUME_SNAPSHOT_CLASSES,
    queue="csi-snapshotter-content",
    noun="snapshot",
    noun_of_content="content",
    prefix="volumesnapshot",
    finalizer=names.CONTENT_FINALIZER,
    being_created=names.BEING_CREATED,
    being_deleted=names.BEING_DELETED,
    secret_name=names.SECRET_NAME,
    secret_namespace=names.SECRET_NAMESPACE,
    question_secret=SnapshotSecret.LIST,
    create_rpc="CreateSnapshot",
    made_of=("snapshotHandle", "readyToUse", "creationTime", "restoreSize"),
    creation_failed="SnapshotCreationFailed",
    check_failed="SnapshotContentCheckandUpdateFailed",
    deletion_failed="SnapshotDeleteError",
    kept="SnapshotKept",
    without_secret="SnapshotDeletedWithoutSecret",
    foreign_at_once=False,
    linger_s=LINGER_S,
)
GROUPS: Final = Row(
    kind=GROUP_SNAPSHOT_CONTENTS,
    classes=GROUP_SNAPSHOT_CLASSES,
    queue="csi-snapshotter-groupsnapshotcontent",
    noun="group snapshot",
    noun_of_content="group snapshot content",
    prefix="volumegroupsnapshot",
    finalizer=names.GROUP_CONTENT_FINALIZER,
    being_created=names.GROUP_BEING_CREATED,
    being_deleted=names.GROUP_BEING_DELETED,
    secret_name=names.GROUP_SECRET_NAME,
    secret_namespace=names.GROUP_SECRET_NAMESPACE,
    question_secret=SnapshotSecret.GROUP_GET,
    create_rpc="CreateVolumeGroupSnapshot",
    made_of=("volumeGroupSnapshotHandle", "readyToUse", "creationTime", "volumeSnapshotInfoList"),
    creation_failed="GroupSnapshotCreationFailed",
    check_failed="GroupSnapshotContentCheckandUpdateFailed",
    deletion_failed="GroupSnapshotDeleteError",
    kept="GroupSnapshotKept",
    without_secret="GroupSnapshotDeletedWithoutSecret",
    foreign_at_once=True,
    linger_s=0.0,
)
