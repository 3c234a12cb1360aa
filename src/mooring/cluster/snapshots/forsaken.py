"""Contents that were deleted by hand, and whose snapshot is gone: nobody can say any more what is to become of the data. Pure.

Differs from snapshot-controller, which leaves them like this without a word. The data are kept: whoever copies objects from one cluster to
another has contents without snapshots for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS
from mooring.api.meta import Key, Object, finalizers_of, is_deleting
from mooring.api.snapshot_names import GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER, GROUP_FINALIZER, is_marked
from mooring.base.text import quoted
from mooring.cluster.snapshots.decision import Tell
from mooring.cluster.snapshots.view import BY_REF, View

DELETE_PENDING: Final = "SnapshotContentDeletePending"


def is_forsaken(snapshot: Object, *finalizers: str) -> bool:
    """True for one that goes, and that nothing of ours holds any more until it has said so to its content."""
    return is_deleting(snapshot) and not set(finalizers) & set(finalizers_of(snapshot))


def way_out(kind: str, gone: str, uid: str, mark: str, finalizer: str) -> str:
    """What the owner of the data is told."""
    return (
        f"{kind} is deleted together with {gone} of the uid {quoted(uid)}, which is not there: "
        f"to delete its data, too, annotate it {mark}=yes; to keep them, take the finalizer {finalizer} off"
    )


def tell_forsaken_of_group(view: View, key: Key) -> tuple[Tell, ...]:
    """The contents of this group."""
    return tuple(_forsaken_of_group(view, key))


def _forsaken_of_group(view: View, key: Key) -> Iterator[Tell]:
    group = view.groups.get(key)
    for content in view.group_contents.by(BY_REF, str(key)):
        uid = content.spec.volume_group_snapshot_ref.uid
        if not uid or not is_deleting(content) or is_marked(content, GROUP_BEING_DELETED):
            continue
        is_gone = group is None or group.metadata.uid != uid or is_forsaken(group, GROUP_FINALIZER)
        if is_gone and GROUP_CONTENT_FINALIZER in finalizers_of(content):
            named = f"VolumeGroupSnapshot {key}"
            text = way_out("VolumeGroupSnapshotContent", named, uid, GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER)
            yield Tell(content, GROUP_SNAPSHOT_CONTENTS, "Warning", DELETE_PENDING, text)
