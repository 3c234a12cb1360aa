"""The snapshots of a group, one for each of its volumes, each with a content: which are missing, and how they look.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from mooring.api.core import reference_to
from mooring.api.group_snapshot import (
    GROUP_SNAPSHOTS,
    VolumeGroupSnapshot,
    VolumeGroupSnapshotContent,
    VolumeSnapshotInfo,
)
from mooring.api.meta import Key
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VOLUME_SNAPSHOTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_kinds import SINGLES, Content, Snapshot, is_content_ready
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BOUND_FINALIZER,
    CONTENT_FINALIZER,
    DELETE_POLICY,
    GROUP_HANDLE,
    GROUP_SECRET_NAME,
    GROUP_SECRET_NAMESPACE,
    GROUP_SNAPSHOT_KIND,
    IN_GROUP_FINALIZER,
    SECRET_NAME,
    SECRET_NAMESPACE,
    member_content_name,
    member_name,
)
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots.decision import Action
from mooring.cluster.snapshots.objects import as_json, object_of
from mooring.cluster.snapshots.view import BY_GROUP_HANDLE, View, group_handle_of


def missing_members(
    view: View, group: Snapshot, content: Content, kept: Collection[str | None] = ()
) -> tuple[Action, ...]:
    """Make the missing snapshots of the group's volumes, as far as they can be written by now. kept: the handles of
    those that are not to be made.
    """
    assert isinstance(group, VolumeGroupSnapshot)
    assert isinstance(content, VolumeGroupSnapshotContent)
    if content.status is None or not group_handle_of(content):
        return ()
    actions: list[Action] = []
    asked = content.spec.source.volume_handles
    for info in content.status.volume_snapshot_info_list or ():
        if (
            asked is not None and info.volume_handle not in asked
        ):  # its volume could not be told: it is noted to be deleted
            continue
        snapshot = view.snapshots.get(_member_key(group, info))
        if snapshot is None and info.snapshot_handle in kept:
            continue
        if snapshot is None:
            actions.append(d.CreateMember(_member(view, group, content, info)))
            continue
        made: VolumeSnapshotContent | None = view.content(SINGLES, member_content_name(snapshot.metadata.name))
        if made is None:
            actions.append(d.CreateMemberContent(_member_content(view, snapshot, content, info)))
            continue
        said, wanted = as_json(made.status) or {}, _member_status(content, info)
        if said.get("readyToUse") is not True and {**said, **wanted} != said:
            actions.append(d.SaveMemberStatus(made, {**said, **wanted}))
    return tuple(actions)


def lost_members(view: View, group: Snapshot, content: Content) -> tuple[Action, ...]:
    """Make missing snapshots of a ready group again. After a set-back of the API server the cache of groups may show it
    before the others do, which then still had what is gone. A snapshot that was torn from its content stays away as
    long as the content is there.
    """
    kept = {
        one.status.snapshot_handle
        for one in view.contents.by(BY_GROUP_HANDLE, group_handle_of(content))
        if one.status is not None
    }
    return missing_members(view, group, content, kept)


def joining(view: View, snapshot: Snapshot) -> tuple[Action, ...]:
    """Make the group own a single snapshot whose status names it: from then on it is a member."""
    if not isinstance(snapshot, VolumeSnapshot):
        return ()
    name = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    owners = snapshot.metadata.owner_references or ()
    group = view.groups.get(Key(snapshot.metadata.namespace, name)) if name else None
    if group is None or any(owner.uid == group.metadata.uid for owner in owners):
        return ()
    return (d.JoinGroup(snapshot, _owner(group)),)


def has_busy_group(view: View, snapshot: Snapshot) -> bool:
    """True while the group may still bind its member: it exists, and is not ready. True as well where this controller
    has no groups, and can't know.
    """
    assert isinstance(snapshot, VolumeSnapshot)
    owners = [owner for owner in snapshot.metadata.owner_references or () if owner.kind == GROUP_SNAPSHOT_KIND]
    groups = [view.groups.get(Key(snapshot.metadata.namespace, owner.name)) for owner in owners]
    return not view.has_groups or any(
        one is not None and not (one.status and one.status.ready_to_use) for one in groups
    )


# -- as objects


def _member(
    view: View, group: VolumeGroupSnapshot, content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo
) -> dict[str, Any]:
    """The snapshot of one volume. It names no claim where the volume has none."""
    volume = view.volume_of(content.spec.driver, info.volume_handle)
    claim = volume.spec.claim_ref if volume is not None else None
    bound = [BOUND_FINALIZER] if content.spec.deletion_policy == DELETE_POLICY else []
    meta = {
        "name": member_name(group.metadata.uid, info.volume_handle),
        "namespace": group.metadata.namespace,
        "finalizers": [AS_SOURCE_FINALIZER, *bound, IN_GROUP_FINALIZER],
        "ownerReferences": [_owner(group)],
    }
    return object_of(
        VOLUME_SNAPSHOTS, meta, {"source": {"persistentVolumeClaimName": claim.name if claim is not None else ""}}
    )


def _owner(group: VolumeGroupSnapshot) -> dict[str, str]:
    """The group as an owner of its members."""
    meta = group.metadata
    return {"apiVersion": GROUP_SNAPSHOTS.api_version, "kind": GROUP_SNAPSHOTS.name, "name": meta.name, "uid": meta.uid}


def _member_content(
    view: View, snapshot: VolumeSnapshot, content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo
) -> dict[str, Any]:
    """The content of one volume's snapshot, with the Secret of the group's deletion, by which the driver is also asked
    for it. The group's handle keeps its driver from making it alone.
    """
    volume = view.volume_of(content.spec.driver, info.volume_handle)
    mode = volume.spec.volume_mode if volume is not None and view.keeps_mode else None
    spec = {
        "volumeSnapshotRef": msgspec.to_builtins(reference_to(snapshot, VOLUME_SNAPSHOTS)),
        "source": {"volumeHandle": info.volume_handle},
        "deletionPolicy": content.spec.deletion_policy,
        "driver": content.spec.driver,
        **({"sourceVolumeMode": mode} if mode else {}),
    }
    noted = content.metadata.annotations or {}
    secret = {SECRET_NAME: noted.get(GROUP_SECRET_NAME), SECRET_NAMESPACE: noted.get(GROUP_SECRET_NAMESPACE)}
    name, notes = member_content_name(snapshot.metadata.name), {GROUP_HANDLE: group_handle_of(content)}
    notes |= {key: value for key, value in secret.items() if value is not None}
    return object_of(
        VOLUME_SNAPSHOT_CONTENTS, {"name": name, "finalizers": [CONTENT_FINALIZER], "annotations": notes}, spec
    )


def _member_status(content: VolumeGroupSnapshotContent, info: VolumeSnapshotInfo) -> dict[str, Any]:
    """The status of the content of one volume's snapshot."""
    said = {
        "snapshotHandle": info.snapshot_handle,
        "creationTime": info.creation_time,
        "restoreSize": info.restore_size,
        "readyToUse": bool(info.ready_to_use) or is_content_ready(content),
        "volumeGroupSnapshotHandle": group_handle_of(content) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _member_key(group: VolumeGroupSnapshot, info: VolumeSnapshotInfo) -> Key:
    return Key(group.metadata.namespace, member_name(group.metadata.uid, info.volume_handle))
