"""snapshot.storage.k8s.io/v1: snapshots, their contents and their classes."""

from __future__ import annotations

from typing import ClassVar, Final

from mooring.api.core import ObjectReference
from mooring.api.meta import ApiStruct, Kind, ObjectMeta

GROUP: Final = "snapshot.storage.k8s.io"


class SnapshotError(ApiStruct, frozen=True):
    """The error of a status. Both fields may be missing: others write it, too."""

    time: str | None = None
    message: str | None = None


class VolumeSnapshotSource(ApiStruct, frozen=True):
    persistent_volume_claim_name: str | None = None
    volume_snapshot_content_name: str | None = None


class VolumeSnapshotSpec(ApiStruct, frozen=True):
    source: VolumeSnapshotSource = VolumeSnapshotSource()
    volume_snapshot_class_name: str | None = None


class VolumeSnapshotStatus(ApiStruct, frozen=True):
    """restore_size: a quantity; a custom kind's quantities may be bare numbers."""

    is_unique: ClassVar[bool] = True

    bound_volume_snapshot_content_name: str | None = None
    creation_time: str | None = None
    ready_to_use: bool | None = None
    restore_size: str | int | None = None
    error: SnapshotError | None = None
    volume_group_snapshot_name: str | None = None


class VolumeSnapshot(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeSnapshotSpec = VolumeSnapshotSpec()
    status: VolumeSnapshotStatus | None = None


class VolumeSnapshotContentSource(ApiStruct, frozen=True):
    """volume_handle: a snapshot is to be made of this volume. snapshot_handle: it was there before."""

    is_unique: ClassVar[bool] = True

    volume_handle: str | None = None
    snapshot_handle: str | None = None


class VolumeSnapshotContentSpec(ApiStruct, frozen=True):
    is_unique: ClassVar[bool] = True

    volume_snapshot_ref: ObjectReference = ObjectReference()
    deletion_policy: str = ""
    driver: str = ""
    volume_snapshot_class_name: str | None = None
    source: VolumeSnapshotContentSource = VolumeSnapshotContentSource()
    source_volume_mode: str | None = None


class VolumeSnapshotContentStatus(ApiStruct, frozen=True):
    """creation_time: nanoseconds since 1970. restore_size: bytes."""

    is_unique: ClassVar[bool] = True

    snapshot_handle: str | None = None
    creation_time: int | None = None
    restore_size: int | None = None
    ready_to_use: bool | None = None
    error: SnapshotError | None = None
    volume_group_snapshot_handle: str | None = None


class VolumeSnapshotContent(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeSnapshotContentSpec = VolumeSnapshotContentSpec()
    status: VolumeSnapshotContentStatus | None = None


class VolumeSnapshotClass(ApiStruct, frozen=True):
    metadata: ObjectMeta
    driver: str = ""
    deletion_policy: str = ""
    parameters: dict[str, str] | None = None


VOLUME_SNAPSHOTS: Final = Kind(GROUP, "v1", "VolumeSnapshot", "volumesnapshots", True, VolumeSnapshot)
VOLUME_SNAPSHOT_CONTENTS: Final = Kind(
    GROUP, "v1", "VolumeSnapshotContent", "volumesnapshotcontents", False, VolumeSnapshotContent
)
VOLUME_SNAPSHOT_CLASSES: Final = Kind(
    GROUP, "v1", "VolumeSnapshotClass", "volumesnapshotclasses", False, VolumeSnapshotClass
)
