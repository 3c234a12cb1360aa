"""Small questions about one snapshot. Pure."""

from __future__ import annotations

from mooring.api.meta import Key, finalizers_of, is_deleting
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, GROUP_SNAPSHOT_KIND
from mooring.cluster.snapshots.view import View


def was_made(snapshot: VolumeSnapshot) -> bool:
    return snapshot.status is not None and snapshot.status.creation_time is not None


def names_content(snapshot: VolumeSnapshot) -> bool:
    return snapshot.status is not None and bool(snapshot.status.bound_volume_snapshot_content_name)


def may_get_content(snapshot: VolumeSnapshot) -> bool:
    """True for one that lives, and that a content may have been made for, or bound to, by a write that does not show yet."""
    return AS_SOURCE_FINALIZER in finalizers_of(snapshot) and not names_content(snapshot) and not is_deleting(snapshot)


def has_busy_group(view: View, snapshot: VolumeSnapshot) -> bool:
    """True while the group may still bind its member: it is there, and not ready. Without groups nobody here knows."""
    owners = [owner for owner in snapshot.metadata.owner_references or () if owner.kind == GROUP_SNAPSHOT_KIND]
    named = {owner.name for owner in owners} or {(snapshot.status.volume_group_snapshot_name if snapshot.status else None) or ""}
    groups = [view.groups.get(Key(snapshot.metadata.namespace, name)) for name in named]
    return not view.has_groups or any(one is not None and not (one.status and one.status.ready_to_use) for one in groups)
