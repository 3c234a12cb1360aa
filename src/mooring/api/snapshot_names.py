"""The names by which snapshot-controller and csi-snapshotter know each other: finalizers, annotations, labels, names of objects.

They talk through contents alone: annotations one way, the status the other.
"""

from __future__ import annotations

import hashlib
from typing import Final

from mooring.api.meta import Object
from mooring.api.snapshot import VolumeSnapshot, VolumeSnapshotContent

_SINGLE: Final = "snapshot.storage.kubernetes.io/"
_GROUP: Final = "groupsnapshot.storage.kubernetes.io/"

CLAIM_FINALIZER: Final = f"{_SINGLE}pvc-as-source-protection"
AS_SOURCE_FINALIZER: Final = f"{_SINGLE}volumesnapshot-as-source-protection"
BOUND_FINALIZER: Final = f"{_SINGLE}volumesnapshot-bound-protection"
IN_GROUP_FINALIZER: Final = f"{_SINGLE}volumesnapshot-in-group-protection"
CONTENT_FINALIZER: Final = f"{_SINGLE}volumesnapshotcontent-bound-protection"
GROUP_FINALIZER: Final = f"{_GROUP}volumegroupsnapshot-bound-protection"
GROUP_CONTENT_FINALIZER: Final = f"{_GROUP}volumegroupsnapshotcontent-bound-protection"

DEFAULT_CLASS: Final = f"{_SINGLE}is-default-class"
SECRET_NAME: Final = f"{_SINGLE}deletion-secret-name"
SECRET_NAMESPACE: Final = f"{_SINGLE}deletion-secret-namespace"
BEING_CREATED: Final = f"{_SINGLE}volumesnapshot-being-created"
BEING_DELETED: Final = f"{_SINGLE}volumesnapshot-being-deleted"
MANAGED_BY: Final = f"{_SINGLE}managed-by"
GROUP_HANDLE: Final = "groupsnapshot.storage.k8s.io/volumeGroupSnapshotHandle"
GROUP_DEFAULT_CLASS: Final = f"{_GROUP}is-default-class"
GROUP_SECRET_NAME: Final = f"{_GROUP}deletion-secret-name"
GROUP_SECRET_NAMESPACE: Final = f"{_GROUP}deletion-secret-namespace"
GROUP_BEING_CREATED: Final = f"{_GROUP}volumegroupsnapshot-being-created"
GROUP_BEING_DELETED: Final = f"{_GROUP}volumegroupsnapshot-being-deleted"
TOUCHED: Final = "mooring.dev/touched-at-version"
YES: Final = "yes"
_MEMBER: Final = "snapshot-"

SNAPSHOT_KIND: Final = "VolumeSnapshot"
GROUP_SNAPSHOT_KIND: Final = "VolumeGroupSnapshot"
DELETE_POLICY: Final = "Delete"


def content_name(snapshot: VolumeSnapshot) -> str:
    """Of the content that is made for a dynamic snapshot."""
    return f"snapcontent-{snapshot.metadata.uid}"


def member_name(group_uid: str, volume_handle: str) -> str:
    """Of the snapshot that a group has of this volume."""
    return f"{_MEMBER}{hashlib.sha256((group_uid + volume_handle).encode()).hexdigest()}"


def member_content_name(snapshot_name: str) -> str:
    """Of the content of a member of a group, "" for a name that no member has."""
    return f"snapcontent-{snapshot_name.removeprefix(_MEMBER)}" if snapshot_name.startswith(_MEMBER) else ""


def group_content_name(group_uid: str) -> str:
    return f"groupsnapcontent-{group_uid}"


def is_marked(obj: Object, mark: str) -> bool:
    """True when the annotation is there, whatever its value."""
    return mark in (obj.metadata.annotations or {})


def is_group_content(content: VolumeSnapshotContent) -> bool:
    """True for the content of a group's member: the driver is never asked to make it alone."""
    return is_marked(content, GROUP_HANDLE)


def is_member(snapshot: VolumeSnapshot) -> bool:
    """True for a snapshot that was made as part of a group."""
    owners = snapshot.metadata.owner_references or ()
    named = snapshot.status is not None and bool(snapshot.status.volume_group_snapshot_name)
    held = IN_GROUP_FINALIZER in (snapshot.metadata.finalizers or ())
    return named or held or any(owner.kind == GROUP_SNAPSHOT_KIND for owner in owners)
