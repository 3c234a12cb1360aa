"""The objects, fields and indexes that the snapshot controller reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.core import Node, PersistentVolume, PersistentVolumeClaim
from mooring.api.group_snapshot import (
    VolumeGroupSnapshot,
    VolumeGroupSnapshotClass,
    VolumeGroupSnapshotContent,
)
from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import GROUP as SNAPSHOT_GROUP
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.api.snapshot_kinds import (
    GROUPS,
    SINGLES,
    Class,
    Content,
    Row,
    Snapshot,
    class_name_of,
    is_content_ready,
    ref_of,
    row_of,
    volumes_of,
)
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BEING_DELETED,
    CLAIM_FINALIZER,
    DEFAULT_CLASS,
    GROUP_BEING_DELETED,
    GROUP_DEFAULT_CLASS,
    GROUP_HANDLE,
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
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
BY_NAMESPACE: Final = "snapshots/namespace"
BY_HANDLE: Final = "snapshots/handle"
BY_SOURCE_VOLUME: Final = "snapshots/source-volume"


class View(msgspec.Struct, frozen=True):
    """The caches, live. nodes: empty unless the work is distributed. groups, group_contents, group_classes: empty
    unless groups are.
    """

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

    def of(self, row: Row) -> Reader[Any]:
        """The snapshots of this kind."""
        return self.snapshots if row is SINGLES else self.groups

    def content(self, row: Row, name: str) -> Any:
        """The content of this name; None where there is none, or no name."""
        contents: Reader[Any] = self.contents if row is SINGLES else self.group_contents
        return contents.get(Key("", name)) if name else None

    def classes_of(self, row: Row) -> Reader[Any]:
        return self.classes if row is SINGLES else self.group_classes

    def class_named(self, row: Row, name: str) -> Class | None:
        found: Class | None = self.classes_of(row).get(Key("", name)) if name else None
        return found

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(Key("", name))

    def volume_of(self, driver: str, handle: str) -> PersistentVolume | None:
        return next(iter(self.volumes.by(BY_HANDLE, handle_key(driver, handle))), None)

    def members_of(self, snapshot: Snapshot) -> tuple[VolumeSnapshot, ...]:
        """The snapshots that this group snapshot owns."""
        return self.snapshots.by(BY_OWNER, snapshot.metadata.uid) if row_of(snapshot) is GROUPS else ()

    def unready_of(self, claim: Key) -> tuple[VolumeSnapshot, ...]:
        """The snapshots of this claim that are not ready, and whose end has not begun."""
        return self.snapshots.by(BY_CLAIM, str(claim))

    def snapshots_of(self, claim: Key) -> tuple[VolumeSnapshot, ...]:
        """The snapshots of this claim, in whatever state."""
        return self.snapshots.by(BY_SOURCE, str(claim))

    def is_restored_from(self, snapshot: Key) -> bool:
        """True while a claim waits for a volume that is filled from the snapshot."""
        return bool(self.claims.by(BY_RESTORE, str(snapshot)))


# -- what a snapshot says, of whichever kind


def bound_name(snapshot: Snapshot) -> str:
    """The name of the content that the snapshot's status names, "" for none."""
    if isinstance(snapshot, VolumeGroupSnapshot):
        return (snapshot.status.bound_volume_group_snapshot_content_name if snapshot.status else None) or ""
    return (snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None) or ""


def imported_name(snapshot: Snapshot) -> str:
    """The name of the content that the snapshot imports, "" for a dynamic one."""
    if isinstance(snapshot, VolumeGroupSnapshot):
        return snapshot.spec.source.volume_group_snapshot_content_name or ""
    return snapshot.spec.source.volume_snapshot_content_name or ""


def is_ready(snapshot: Snapshot) -> bool:
    return snapshot.status is not None and snapshot.status.ready_to_use is True and bool(bound_name(snapshot))


def is_dynamic(snapshot: Snapshot) -> bool:
    """True for a snapshot that imports no content, also for a group's member whose volume has no claim ("")."""
    return not imported_name(snapshot)


def is_part_of_group(snapshot: Snapshot) -> bool:
    """True for a single snapshot that a group has made. An import goes its own way, whoever owns it."""
    return isinstance(snapshot, VolumeSnapshot) and is_dynamic(snapshot) and is_member(snapshot)


def was_made(snapshot: Snapshot) -> bool:
    return snapshot.status is not None and snapshot.status.creation_time is not None


def claim_of(snapshot: VolumeSnapshot) -> Key | None:
    """The claim that a dynamic snapshot is of."""
    name = snapshot.spec.source.persistent_volume_claim_name
    return Key(snapshot.metadata.namespace, name) if name else None


def wanted_content(snapshot: Snapshot) -> str:
    """The name of the content that is or will be the snapshot's."""
    if isinstance(snapshot, VolumeGroupSnapshot):
        return imported_name(snapshot) or group_content_name(snapshot.metadata.uid)
    if is_part_of_group(snapshot):
        return member_content_name(snapshot.metadata.name)
    return imported_name(snapshot) or content_name(snapshot)


def content_key(snapshot: Snapshot) -> Key:
    """The key of the content that the snapshot is bound to, or is to be bound to, whether or not that exists."""
    return Key("", bound_name(snapshot) or wanted_content(snapshot))


# -- what a content says, of whichever kind


def snapshot_of(content: Content) -> Key:
    ref = ref_of(content)
    return Key(ref.namespace, ref.name)


def is_of(content: Content, snapshot: Snapshot) -> bool:
    return snapshot_of(content) == key_of(snapshot) and ref_of(content).uid == snapshot.metadata.uid


def is_imported(content: Content) -> bool:
    if isinstance(content, VolumeGroupSnapshotContent):
        return content.spec.source.group_snapshot_handles is not None
    return not content.spec.source.volume_handle


def group_handle_of(content: Content) -> str:
    """The handle of the group that the content is, or is of; "" where none is known."""
    return (content.status.volume_group_snapshot_handle if content.status else None) or ""


def lacks_finalizer(content: Content) -> bool:
    """True where our finalizer has to be added: none can be added to a content that is being deleted."""
    return row_of(content).content_finalizer not in finalizers_of(content) and not is_deleting(content)


def holds_claim(claim: PersistentVolumeClaim) -> bool:
    return CLAIM_FINALIZER in finalizers_of(claim)


def handle_key(driver: str, volume_handle: str) -> str:
    """Names a volume in indexes: handles are a driver's own."""
    return f"{driver}^{volume_handle}"


# -- indexes


def _claim_in_need(snapshot: VolumeSnapshot) -> Iterable[str]:
    """The claim of a snapshot that may be in the making. A member that is being deleted needs none: its group's content
    says by itself whether it is in the making.
    """
    key = claim_of(snapshot)
    ends = is_deleting(snapshot) and (AS_SOURCE_FINALIZER not in finalizers_of(snapshot) or is_member(snapshot))
    return (str(key),) if key is not None and not is_ready(snapshot) and not ends else ()


def source_volumes(content: Content) -> Iterable[str]:
    """The volumes of which the driver may be making snapshots. Members are made by their groups. A content that is
    being deleted is made no more once its driver has answered, or has let it go.
    """
    if not ref_of(content).uid or (isinstance(content, VolumeSnapshotContent) and is_group_content(content)):
        return ()
    is_ready = is_content_ready(content)
    if is_ready or (
        is_deleting(content) and (_is_made(content) or row_of(content).content_finalizer not in finalizers_of(content))
    ):
        return ()
    return [handle_key(content.spec.driver, handle) for handle in volumes_of(content)]


def _is_made(content: Content) -> bool:
    if isinstance(content, VolumeGroupSnapshotContent):
        return bool(group_handle_of(content))
    return bool(content.status and content.status.snapshot_handle)


def _contents(snapshot: Snapshot) -> Iterable[str]:
    return filter(None, (bound_name(snapshot), wanted_content(snapshot)))


def _class_in_need(snapshot: Snapshot) -> Iterable[str]:
    """The class that a snapshot needs, "" where one has to be chosen."""
    return () if is_ready(snapshot) else (class_name_of(snapshot),)


def _restored(claim: PersistentVolumeClaim) -> Iterable[str]:
    source = claim.spec.data_source
    if (
        source is None
        or claim.status.phase != "Pending"
        or (source.kind, source.api_group) != (SNAPSHOT_KIND, SNAPSHOT_GROUP)
    ):
        return ()
    return (str(Key(claim.metadata.namespace, source.name)),)


def _group_handle(content: Content) -> Iterable[str]:
    return filter(None, (group_handle_of(content),))


def _group(snapshot: VolumeSnapshot) -> Iterable[str]:
    name = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    return (str(Key(snapshot.metadata.namespace, name)),) if name else ()


def _handle(volume: PersistentVolume) -> Iterable[str]:
    source = volume.spec.csi
    return (handle_key(source.driver, source.volume_handle),) if source is not None else ()


SNAPSHOT_INDEXES: Final[Mapping[str, Callable[[VolumeSnapshot], Iterable[str]]]] = {
    BY_CLAIM: _claim_in_need,
    BY_SOURCE: lambda snapshot: [str(key) for key in (claim_of(snapshot),) if key is not None],
    BY_CONTENT: _contents,
    BY_CLASS: _class_in_need,
    BY_OWNER: lambda snapshot: [owner.uid for owner in snapshot.metadata.owner_references or ()],
    BY_GROUP: _group,
}
CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeSnapshotContent], Iterable[str]]]] = {
    BY_GROUP_HANDLE: _group_handle,
    BY_SOURCE_VOLUME: source_volumes,
}
CLAIM_INDEXES: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {BY_RESTORE: _restored}
NAMESPACE_INDEX: Final[Mapping[str, Callable[[PersistentVolumeClaim], Iterable[str]]]] = {
    BY_NAMESPACE: lambda claim: (claim.metadata.namespace,)
}
VOLUME_INDEXES: Final[Mapping[str, Callable[[PersistentVolume], Iterable[str]]]] = {BY_HANDLE: _handle}
GROUP_INDEXES: Final[Mapping[str, Callable[[VolumeGroupSnapshot], Iterable[str]]]] = {
    BY_CONTENT: _contents,
    BY_CLASS: _class_in_need,
    BY_NAMESPACE: lambda group: (group.metadata.namespace,),
}
GROUP_CONTENT_INDEXES: Final[Mapping[str, Callable[[VolumeGroupSnapshotContent], Iterable[str]]]] = {
    BY_GROUP_HANDLE: _group_handle,
    BY_REF: lambda content: (str(snapshot_of(content)),),
    BY_SOURCE_VOLUME: source_volumes,
}


# -- the kept parts of objects

SNAPSHOT: Final = slim("spec", "status", metadata=slim("deletion_timestamp", "finalizers", "owner_references"))
CONTENT: Final = slim(
    "spec",
    "status",
    metadata=slim("deletion_timestamp", "finalizers", annotations=only(BEING_CREATED, BEING_DELETED, GROUP_HANDLE)),
)
CLASS: Final = slim("driver", "deletion_policy", "parameters", metadata=slim(annotations=only(DEFAULT_CLASS)))
CLAIM: Final = slim(
    metadata=slim("deletion_timestamp", "finalizers"), spec=slim("volume_name", "data_source"), status=slim("phase")
)
VOLUME: Final = slim(metadata=slim(), spec=slim("claim_ref", "volume_mode", csi=slim("driver", "volume_handle")))
PLACED_VOLUME: Final = VOLUME | slim(spec=slim("node_affinity"))
NODE: Final = slim(metadata=slim("labels"))

LABELLED_CLAIM: Final = CLAIM | slim(metadata=slim("labels"))
GROUP: Final = slim("spec", "status", metadata=slim("deletion_timestamp", "finalizers"))
GROUP_CONTENT: Final = slim(
    "spec",
    "status",
    metadata=slim(
        "deletion_timestamp",
        "finalizers",
        annotations=only(GROUP_BEING_DELETED, GROUP_SECRET_NAME, GROUP_SECRET_NAMESPACE),
    ),
)
GROUP_CLASS: Final = slim(
    "driver", "deletion_policy", "parameters", metadata=slim(annotations=only(GROUP_DEFAULT_CLASS))
)

keeps_snapshot, keeps_content, keeps_class, keeps_claim = (
    always(SNAPSHOT),
    always(CONTENT),
    always(CLASS),
    always(CLAIM),
)
