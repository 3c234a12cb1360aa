"""Single snapshots and group snapshots: two rows of one table. Whatever differs by name alone stands here.

The reasons of Events and their texts are snapshot-controller's. Those of writes that the API server refuses stand in `telling.py`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from mooring.api import snapshot_names as names
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

STATUS_DELAY_S: Final = 0.5
"""How long the bound name of a single snapshot waits to be written together with what the driver says."""


class EventReasons(msgspec.Struct, frozen=True):
    """The reasons of Events about snapshots of one kind."""

    class_missing: str
    no_default_class: str
    bad_source: str
    creation_failed: str
    object_failed: str
    content_missing: str
    content_mismatch: str
    content_misbound: str
    misbound: str
    bind_failed: str
    finalizer_failed: str
    creating: str
    created: str
    ready: str


class OperationNames(msgspec.Struct, frozen=True):
    """The names in metrics."""

    create: str
    create_and_ready: str
    delete: str


class Row(msgspec.Struct, frozen=True):
    """kind, contents, classes: of the snapshots, of their contents, of their classes. queue: its name. noun, title, failed, bind_text: in
    texts. prefix: of the tokens in templates.

    source_finalizer: on a snapshot from its beginning until its end has begun. bound_finalizer: as long as its content goes with it.
    finalizers: all of ours, from the first that goes. content_finalizer, being_deleted, default_class, secret_name, secret_namespace: names
    on contents and classes. secret: that a class may name.
    class_field, bound_field, ref_field: of snapshots and contents.

    protected_early: a snapshot that can't be made yet is protected, too. looked_up: the class that the cache lacks is asked for; our
    ClusterRole gives no right to get the others. status_delay_s: how long the bound name waits for the driver's first word.
    """

    kind: Kind[Any]
    contents: Kind[Any]
    classes: Kind[Any]
    queue: str
    noun: str
    title: str
    failed: str
    bind_text: str
    prefix: str
    source_finalizer: str
    bound_finalizer: str
    finalizers: tuple[str, ...]
    content_finalizer: str
    being_deleted: str
    default_class: str
    secret_name: str
    secret_namespace: str
    secret: SnapshotSecret
    class_field: str
    bound_field: str
    ref_field: str
    protected_early: bool
    looked_up: bool
    status_delay_s: float
    reasons: EventReasons
    operations: OperationNames


SINGLES: Final = Row(
    kind=VOLUME_SNAPSHOTS,
    contents=VOLUME_SNAPSHOT_CONTENTS,
    classes=VOLUME_SNAPSHOT_CLASSES,
    queue="snapshot-controller-snapshot",
    noun="snapshot",
    title="Snapshot",
    failed="Failed",
    bind_text="Snapshot failed to bind VolumeSnapshotContent, ",
    prefix="volumesnapshot",
    source_finalizer=names.AS_SOURCE_FINALIZER,
    bound_finalizer=names.BOUND_FINALIZER,
    finalizers=(names.AS_SOURCE_FINALIZER, names.BOUND_FINALIZER, names.IN_GROUP_FINALIZER),
    content_finalizer=names.CONTENT_FINALIZER,
    being_deleted=names.BEING_DELETED,
    default_class=names.DEFAULT_CLASS,
    secret_name=names.SECRET_NAME,
    secret_namespace=names.SECRET_NAMESPACE,
    secret=SnapshotSecret.SNAPSHOTTER,
    class_field="volumeSnapshotClassName",
    bound_field="bound_volume_snapshot_content_name",
    ref_field="volumeSnapshotRef",
    protected_early=True,
    looked_up=True,
    status_delay_s=STATUS_DELAY_S,
    reasons=EventReasons(
        class_missing="GetSnapshotClassFailed",
        no_default_class="SetDefaultSnapshotClassFailed",
        bad_source="SnapshotValidationError",
        creation_failed="SnapshotContentCreationFailed",
        object_failed="CreateSnapshotContentFailed",
        content_missing="SnapshotContentMissing",
        content_mismatch="SnapshotContentMismatch",
        content_misbound="SnapshotContentMisbound",
        misbound="SnapshotMisbound",
        bind_failed="SnapshotBindFailed",
        finalizer_failed="SnapshotFinalizerError",
        creating="CreatingSnapshot",
        created="SnapshotCreated",
        ready="SnapshotReady",
    ),
    operations=OperationNames("CreateSnapshot", "CreateSnapshotAndReady", "DeleteSnapshot"),
)
GROUPS: Final = Row(
    kind=GROUP_SNAPSHOTS,
    contents=GROUP_SNAPSHOT_CONTENTS,
    classes=GROUP_SNAPSHOT_CLASSES,
    queue="snapshot-controller-group-snapshot",
    noun="group snapshot",
    title="GroupSnapshot",
    failed="failed",
    bind_text="",
    prefix="volumegroupsnapshot",
    source_finalizer=names.GROUP_FINALIZER,
    bound_finalizer=names.GROUP_FINALIZER,
    finalizers=(names.GROUP_FINALIZER,),
    content_finalizer=names.GROUP_CONTENT_FINALIZER,
    being_deleted=names.GROUP_BEING_DELETED,
    default_class=names.GROUP_DEFAULT_CLASS,
    secret_name=names.GROUP_SECRET_NAME,
    secret_namespace=names.GROUP_SECRET_NAMESPACE,
    secret=SnapshotSecret.GROUP,
    class_field="volumeGroupSnapshotClassName",
    bound_field="bound_volume_group_snapshot_content_name",
    ref_field="volumeGroupSnapshotRef",
    protected_early=False,
    looked_up=False,
    status_delay_s=0.0,
    reasons=EventReasons(
        class_missing="GetGroupSnapshotClassFailed",
        no_default_class="SetDefaultGroupSnapshotClassFailed",
        bad_source="GroupSnapshotValidationError",
        creation_failed="GroupSnapshotContentCreationFailed",
        object_failed="CreateGroupSnapshotContentFailed",
        content_missing="GroupSnapshotContentMissing",
        content_mismatch="GroupSnapshotContentMismatch",
        content_misbound="GroupSnapshotContentMisbound",
        misbound="GroupSnapshotMisbound",
        bind_failed="GroupSnapshotBindFailed",
        finalizer_failed="GroupSnapshotFinalizerError",
        creating="CreatingGroupSnapshot",
        created="GroupSnapshotCreated",
        ready="GroupSnapshotReady",
    ),
    operations=OperationNames("CreateGroupSnapshot", "CreateGroupSnapshotAndReady", "DeleteGroupSnapshot"),
)
