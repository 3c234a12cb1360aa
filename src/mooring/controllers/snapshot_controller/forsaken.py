"""Contents that were deleted by hand, and whose snapshot is gone: nobody can say any more what is to become of the data. Pure.

Differs from snapshot-controller, which leaves them like this without a word. The data are kept: whoever copies objects from one cluster to
another has contents without snapshots for a while.
"""

from __future__ import annotations

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, VolumeGroupSnapshotContent
from mooring.api.meta import Key, Kind, Object, finalizers_of, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotContent
from mooring.controllers.snapshot_controller.decision import Tell
from mooring.controllers.snapshot_controller.view import BY_REF, View, snapshot_of
from mooring.controllers.snapshotting.names import (
    AS_SOURCE_FINALIZER,
    BEING_DELETED,
    BOUND_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_BEING_DELETED,
    GROUP_CONTENT_FINALIZER,
    GROUP_FINALIZER,
    is_marked,
)

REASON = "SnapshotContentDeletePending"


def tell_forsaken(view: View, content: VolumeSnapshotContent) -> tuple[Tell, ...]:
    """content: one that is to go."""
    key = snapshot_of(content)
    if _speaks(view.snapshots.get(key), content.spec.volume_snapshot_ref.uid, AS_SOURCE_FINALIZER, BOUND_FINALIZER):
        return ()
    return _tell(content, VOLUME_SNAPSHOT_CONTENTS, f"VolumeSnapshot {key}", BEING_DELETED, CONTENT_FINALIZER)


def tell_forsaken_of_group(view: View, key: Key) -> tuple[Tell, ...]:
    """The contents of this group."""
    group = view.groups.get(key)
    found: list[VolumeGroupSnapshotContent] = [
        content
        for content in view.group_contents.by(BY_REF, str(key))
        if is_deleting(content) and not _speaks(group, content.spec.volume_group_snapshot_ref.uid, GROUP_FINALIZER)
    ]
    named = f"VolumeGroupSnapshot {key}"
    tells = (_tell(content, GROUP_SNAPSHOT_CONTENTS, named, GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER) for content in found)
    return tuple(tell for some in tells for tell in some)


def _speaks(snapshot: Object | None, uid: str, *finalizers: str) -> bool:
    """True for the very one, as long as it lives, or is to go and something of ours holds it until it has said so to its content.

    For what nobody was ever bound to nobody has to speak.
    """
    if not uid:
        return True
    if snapshot is None or snapshot.metadata.uid != uid:
        return False
    return not is_deleting(snapshot) or bool(set(finalizers) & set(finalizers_of(snapshot)))


def _tell(content: Object, kind: Kind[Object], gone: str, mark: str, finalizer: str) -> tuple[Tell, ...]:
    if finalizer not in finalizers_of(content) or is_marked(content, mark):
        return ()
    text = (
        f"{gone} is gone, so the data are kept, and so is this object. "
        f"To delete both, annotate it {mark}=yes; to keep the data, remove the finalizer {finalizer}"
    )
    return (Tell(content, kind, "Warning", REASON, text),)
