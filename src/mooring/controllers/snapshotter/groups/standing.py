"""Which other contents stand for a group, or for a snapshot of it. Pure."""

from __future__ import annotations

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.snapshot import VolumeSnapshotContent
from mooring.controllers.snapshotter.groups.view import BY_HANDLE, View, handle_of, keeps_group, member_handles
from mooring.controllers.snapshotter.view import BY_HANDLE as BY_SNAPSHOT_HANDLE
from mooring.controllers.snapshotter.view import keeps_snapshot
from mooring.controllers.snapshotting.names import BEING_DELETED, DELETE_POLICY, is_group_content, is_marked


def kept_by_group(view: View, content: VolumeGroupSnapshotContent) -> str:
    """The name of another group content that keeps this group; "" for none."""
    others = (one for one in view.contents.by(BY_HANDLE, handle_of(content)) if one.metadata.uid != content.metadata.uid)
    return min((one.metadata.name for one in others if keeps_group(one)), default="")


def kept_by_content(view: View, content: VolumeGroupSnapshotContent) -> str:
    """The name of a single content that keeps a snapshot of this group; "" for none."""
    found = (one for handle in member_handles(content) for one in view.singles.by(BY_SNAPSHOT_HANDLE, handle))
    return min((one.metadata.name for one in found if keeps_snapshot(one) and not _goes_with(content, one)), default="")


def _goes_with(content: VolumeGroupSnapshotContent, single: VolumeSnapshotContent) -> bool:
    """True for the content of a member, whatever its own policy; not for one that a former group has left behind.

    A member is never marked before its group is gone: to wait for its content would be for ever.
    """
    handle = single.status.volume_group_snapshot_handle if single.status is not None else None
    was_kept = single.spec.deletion_policy != DELETE_POLICY and is_marked(single, BEING_DELETED)
    return (is_group_content(single) or handle == handle_of(content)) and not was_kept
