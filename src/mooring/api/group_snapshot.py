"""groupsnapshot.storage.k8s.io/v1: snapshots of several volumes at one moment."""

from __future__ import annotations

from typing import Final

from mooring.api.core import ObjectReference
from mooring.api.meta import ApiStruct, Kind, LabelSelector, ObjectMeta
from mooring.api.snapshot import SnapshotError

GROUP: Final = "groupsnapshot.storage.k8s.io"


class VolumeGroupSnapshotSource(ApiStruct, frozen=True):
    """selector: of claims, by their labels."""

    selector: LabelSelector | None = None
    volume_group_snapshot_content_name: str | None = None


class VolumeGroupSnapshotSpec(ApiStruct, frozen=True):
    source: VolumeGroupSnapshotSource = VolumeGroupSnapshotSource()
    volume_group_snapshot_class_name: str | None = None


class VolumeGroupSnapshotStatus(ApiStruct, frozen=True):
    bound_volume_group_snapshot_content_name: str | None = None
    creation_time: str | None = None
    ready_to_use: bool | None = None
    error: SnapshotError | None = None


class VolumeGroupSnapshot(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeGroupSnapshotSpec = VolumeGroupSnapshotSpec()
    status: VolumeGroupSnapshotStatus | None = None


class GroupSnapshotHandles(ApiStruct, frozen=True):
    volume_group_snapshot_handle: str = ""
    volume_snapshot_handles: tuple[str, ...] = ()


class VolumeGroupSnapshotContentSource(ApiStruct, frozen=True):
    volume_handles: tuple[str, ...] | None = None
    group_snapshot_handles: GroupSnapshotHandles | None = None


class VolumeGroupSnapshotContentSpec(ApiStruct, frozen=True):
    volume_group_snapshot_ref: ObjectReference = ObjectReference()
    deletion_policy: str = ""
    driver: str = ""
    volume_group_snapshot_class_name: str | None = None
    source: VolumeGroupSnapshotContentSource = VolumeGroupSnapshotContentSource()


class VolumeSnapshotInfo(ApiStruct, frozen=True):
    """One snapshot of a group. creation_time: nanoseconds since 1970. restore_size: bytes."""

    volume_handle: str = ""
    snapshot_handle: str = ""
    creation_time: int | None = None
    ready_to_use: bool | None = None
    restore_size: int | None = None


class VolumeGroupSnapshotContentStatus(ApiStruct, frozen=True):
    volume_group_snapshot_handle: str | None = None
    creation_time: str | None = None
    ready_to_use: bool | None = None
    error: SnapshotError | None = None
    volume_snapshot_info_list: tuple[VolumeSnapshotInfo, ...] | None = None


class VolumeGroupSnapshotContent(ApiStruct, frozen=True):
    metadata: ObjectMeta
    spec: VolumeGroupSnapshotContentSpec = VolumeGroupSnapshotContentSpec()
    status: VolumeGroupSnapshotContentStatus | None = None


class VolumeGroupSnapshotClass(ApiStruct, frozen=True):
    metadata: ObjectMeta
    driver: str = ""
    deletion_policy: str = ""
    parameters: dict[str, str] | None = None


GROUP_SNAPSHOTS: Final = Kind(GROUP, "v1", "VolumeGroupSnapshot", "volumegroupsnapshots", True, VolumeGroupSnapshot)
GROUP_SNAPSHOT_CONTENTS: Final = Kind(
    GROUP, "v1", "VolumeGroupSnapshotContent", "volumegroupsnapshotcontents", False, VolumeGroupSnapshotContent
)
GROUP_SNAPSHOT_CLASSES: Final = Kind(
    GROUP, "v1", "VolumeGroupSnapshotClass", "volumegroupsnapshotclasses", False, VolumeGroupSnapshotClass
)
