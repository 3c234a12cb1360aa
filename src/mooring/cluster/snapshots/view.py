"""The objects, fields and indexes that the snapshot controller reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import (
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
    VolumeGroupSnapshotContentStatus,
)
from mooring.api.meta import Key, Object, finalizers_of, is_deleting
from mooring.api.snapshot import GROUP as SNAPSHOT_GROUP
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent, VolumeSnapshotContentStatus
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BEING_DELETED,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    DEFAULT_CLASS,
    GROUP_BEING_DELETED,
    GROUP_CONTENT_FINALIZER,
    GROUP_DEFAULT_CLASS,
    GROUP_HANDLE,
    SNAPSHOT_KIND,
    content_name,
    group_content_name,
    is_group_content,
    is_member,
    member_content_name,
)
from mooring.control.slim import always, only, slim
from mooring.kube.cache.reader import Reader

BY_CLAIM: Final = "snapshots/claim"
BY_SOURCE: Final = "snapshots/source"
BY_CONTENT: Final = "snapshots/content"
BY_CLASS: Final = "snapshots/class"
BY_RESTORE: Final = "snapshots/restore"
BY_GROUP_HANDLE: Final = "snapshots/group-handle"
BY_REF: Final = "snapshots/group-ref"
BY_OWNER: Final = "snapshots/owner"
BY_GROUP: Final = "snapshots/group"
BY_MEMBERSHIP: Final = "snapshots/membership"
BY_NAMESPACE: Final = "snapshots/namespace"
BY_HANDLE: Final = "snapshots/handle"
BY_SOURCE_VOLUME: Final = "snapshots/source-volume"
BY_GROUP_CONTENT: Final = "snapshots/group-content"


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """The caches, live. nodes: empty unless the work is distributed. groups, group_contents, group_classes: empty unless groups are."""

    snapshots: Reader[VolumeSnapshot]
    contents: Reader[VolumeSnapshotContent]
    classes: Reader[VolumeSnapshotClass]
    claims: Reader[PersistentVolumeClaim]
    volumes: Reader[PersistentVolume]
    nodes: Reader[Node]
    groups: Reader[VolumeGroupSnapshot]
    group_contents: Reader[VolumeGroupSnapshotContent]
    group_classes: Reader[VolumeGroupSnapshotClass]
    keeps_mode: bool = True
    distributed: bool = False
    has_groups: bool = False

    def content(self, name: str | None) -> VolumeSnapshotContent | None:
        return self.contents.get(Key("", name)) if name else None

    def class_named(self, name: str) -> VolumeSnapshotClass | None:
        return self.classes.get(Key("", name))

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", name))

    def group_content(self, name: str | None) -> VolumeGroupSnapshotContent | None:
        return self.group_contents.get(Key("", name)) if name else None

    def members_of(self, group_uid: str) -> tuple[VolumeSnapshot, ...]:
        """The snapshots that this group snapshot owns."""
        return self.snapshots.by(BY_OWNER, group_uid)

    def unready_of(self, claim: Key) -> tuple[VolumeSnapshot, ...]:
        """The snapshots of this claim that are not ready, and whose end has not begun."""
        return self.snapshots.by(BY_CLAIM, str(claim))

    def snapshots_of(self, claim: Key) -> tuple[VolumeSnapshot, ...]:
        """Those of this claim, in whatever state."""
        return self.snapshots.by(BY_SOURCE, str(claim))

    def is_restored_from(self, snapshot: Key) -> bool:
        """True while a claim waits for a volume that is filled from it."""
        return bool(self.claims.by(BY_RESTORE, str(snapshot)))


def is_ready(snapshot: VolumeSnapshot) -> bool:
    status = snapshot.status
    return status is not None and status.ready_to_use is True and bool(status.bound_volume_snapshot_content_name)


def is_dynamic(snapshot: VolumeSnapshot) -> bool:
    """Also for the member of a group whose volume has no claim: there the name of the claim is ""."""
    return not snapshot.spec.source.volume_snapshot_content_name


def claim_of(snapshot: VolumeSnapshot) -> Key | None:
    """The claim that a dynamic snapshot is of."""
    name = snapshot.spec.source.persistent_volume_claim_name
    return Key(snapshot.metadata.namespace, name) if name else None


def wanted_content(snapshot: VolumeSnapshot) -> str:
    """The name of the content that is or will be the snapshot's."""
    if is_member(snapshot):
        return member_content_name(snapshot.metadata.name)
    if is_dynamic(snapshot):
        return content_name(snapshot)
    return snapshot.spec.source.volume_snapshot_content_name or ""


def snapshot_of(content: VolumeSnapshotContent) -> Key:
    ref = content.spec.volume_snapshot_ref
    return Key(ref.namespace, ref.name)


def holds_claim(claim: PersistentVolumeClaim) -> bool:
    return CLAIM_FINALIZER in finalizers_of(claim)


# -- indexes


def _claim_in_need(snapshot: VolumeSnapshot) -> Iterable[str]:
    """A member that is being deleted stays as long as its group, whose content says by itself whether it is in the making."""
    key = claim_of(snapshot)
    ends = is_deleting(snapshot) and (AS_SOURCE_FINALIZER not in finalizers_of(snapshot) or is_member(snapshot))
    return (str(key),) if key is not None and not is_ready(snapshot) and not ends else ()


def handle_key(driver: str, volume_handle: str) -> str:
    """Names a volume in indexes: handles are a driver's own."""
    return f"{driver}^{volume_handle}"


def source_volumes(content: VolumeSnapshotContent) -> Iterable[str]:
    """The volume of which the driver may be making this snapshot. Members are made by their groups."""
    status, handle = content.status or VolumeSnapshotContentStatus(), content.spec.source.volume_handle
    bound = bool(content.spec.volume_snapshot_ref.uid)
    making = _is_making(content, CONTENT_FINALIZER, is_ready=status.ready_to_use is True, is_made=bool(status.snapshot_handle))
    return (handle_key(content.spec.driver, handle),) if handle and bound and making and not is_group_content(content) else ()


def source_volumes_of_group(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    """The volumes of which the driver may be making these snapshots."""
    status, handles = content.status or VolumeGroupSnapshotContentStatus(), content.spec.source.volume_handles or ()
    is_made = bool(status.volume_group_snapshot_handle)
    making = _is_making(content, GROUP_CONTENT_FINALIZER, is_ready=status.ready_to_use is True, is_made=is_made)
    return [handle_key(content.spec.driver, handle) for handle in handles] if making else ()


def _is_making(content: Object, finalizer: str, *, is_ready: bool, is_made: bool) -> bool:
    """A content that is being deleted is made no more once its driver has answered, or has let it go."""
    return not is_ready and (not is_deleting(content) or (not is_made and finalizer in finalizers_of(content)))


def _contents(snapshot: VolumeSnapshot) -> Iterable[str]:
    bound = snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None
    return filter(None, (bound, wanted_content(snapshot)))


def _class_in_need(snapshot: VolumeSnapshot) -> Iterable[str]:
    """ "" where one has to be chosen."""
    return () if is_ready(snapshot) else (snapshot.spec.volume_snapshot_class_name or "",)


def _restored(claim: PersistentVolumeClaim) -> Iterable[str]:
    source = claim.spec.data_source
    if source is None or claim.status.phase != "Pending" or (source.kind, source.api_group) != (SNAPSHOT_KIND, SNAPSHOT_GROUP):
        return ()
    return (str(Key(claim.metadata.namespace, source.name)),)


def _group_ref(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    ref = content.spec.volume_group_snapshot_ref
    return (str(Key(ref.namespace, ref.name)),)


def _group_handle(content: VolumeGroupSnapshotContent) -> Iterable[str]:
    handle = content.status.volume_group_snapshot_handle if content.status else None
    return (handle,) if handle else ()


def _group(snapshot: VolumeSnapshot) -> Iterable[str]:
    name = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    return (str(Key(snapshot.metadata.namespace, name)),) if name else ()


def _membership(content: VolumeSnapshotContent) -> Iterable[str]:
    handle = content.status.volume_group_snapshot_handle if content.status else None
    return (handle,) if handle else ()


def _handle(volume: PersistentVolume) -> Iterable[str]:
    source = volume.spec.csi
    return (handle_key(source.driver, source.volume_handle),) if source is not None else ()


def _group_contents(group: VolumeGroupSnapshot) -> Iterable[str]:
    bound = group.status.bound_volume_group_snapshot_content_name if group.status else None
    return filter(None, (bound, wanted_group_content(group)))


def wanted_group_content(group: VolumeGroupSnapshot) -> str:
    """The name of the content that is or will be the group's."""
    return group.spec.source.volume_group_snapshot_content_name or group_content_name(group.metadata.uid)


SNAPSHOT_INDEXES: Final[Mapping[str, Callable[[VolumeSnapshot], Iterable[str]]]] = {
    BY_CLAIM: _claim_in_need,
    BY_SOURCE: lambda snapshot: [str(key) for key in (claim_of(snapshot),) if key is not None],
    BY_CONTENT: _contents,
    BY_CLASS: _class_in_need,
    BY_OWNER: lambda snapshot: [owner.uid for owner in snapshot.metadata.owner_references or ()],
    BY_GROUP: _group,
}
CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeSnapshotContent], Iterable[str]]]] = {
    BY_MEMBERSHIP: _membership,
    BY_SOURCE_VOLUME: source_volumes,
}
CLAIM_INDEXES: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {BY_RESTORE: _restored}
NAMESPACE_INDEX: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {
    BY_NAMESPACE: lambda claim: (claim.metadata.namespace,)
}
VOLUME_INDEXES: Final[Mapping[str, Callable[[PersistentVolume], Iterable[str]]]] = {BY_HANDLE: _handle}
GROUP_INDEXES: Final[Mapping[str, Callable[[VolumeGroupSnapshot], Iterable[str]]]] = {
    BY_GROUP_CONTENT: _group_contents,
    BY_NAMESPACE: lambda group: (group.metadata.namespace,),
}
GROUP_CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeGroupSnapshotContent], Iterable[str]]]] = {
    BY_GROUP_HANDLE: _group_handle,
    BY_REF: _group_ref,
    BY_SOURCE_VOLUME: source_volumes_of_group,
}


# -- the kept parts of objects

SNAPSHOT: Final = slim("spec", "status", metadata=slim("deletion_timestamp", "finalizers", "owner_references"))
CONTENT: Final = slim(
    "spec",
    "status",
    metadata=slim("deletion_timestamp", "finalizers", annotations=only(BEING_CREATED, BEING_DELETED, GROUP_HANDLE)),
)
CLASS: Final = slim("driver", "deletion_policy", "parameters", metadata=slim(annotations=only(DEFAULT_CLASS)))
CLAIM: Final = slim(metadata=slim("deletion_timestamp", "finalizers"), spec=slim("volume_name", "data_source"), status=slim("phase"))
VOLUME: Final = slim(metadata=slim(), spec=slim("claim_ref", "volume_mode", csi=slim("driver", "volume_handle")))
PLACED_VOLUME: Final = VOLUME | slim(spec=slim("node_affinity"))
NODE: Final = slim(metadata=slim("labels"))

LABELLED_CLAIM: Final = CLAIM | slim(metadata=slim("labels"))
GROUP: Final = slim("spec", "status", metadata=slim("deletion_timestamp", "finalizers"))
GROUP_CONTENT: Final = slim("spec", "status", metadata=slim("deletion_timestamp", "finalizers", annotations=only(GROUP_BEING_DELETED)))
GROUP_CLASS: Final = slim("driver", "deletion_policy", "parameters", metadata=slim(annotations=only(GROUP_DEFAULT_CLASS)))

keeps_snapshot, keeps_content, keeps_class, keeps_claim = always(SNAPSHOT), always(CONTENT), always(CLASS), always(CLAIM)
