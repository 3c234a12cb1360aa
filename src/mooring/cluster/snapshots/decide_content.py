"""The snapshot controller's decisions about one content: it is protected, and whoever deletes it by hand hears what it waits for. Pure."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import finalizers_of, is_deleting
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshotContent
from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, BEING_DELETED, BOUND_FINALIZER, CONTENT_FINALIZER, is_marked
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decision import Decision, ProtectContent, Tell, Touch
from mooring.cluster.snapshots.forsaken import DELETE_PENDING, is_forsaken, way_out
from mooring.cluster.snapshots.view import View, snapshot_of

TOUCH_S: Final = 1.0
"""How long the driver's side has to let a content go by itself, once it may."""

TELL_S: Final = 1800.0
"""How often it is told that a content waits. The API server keeps Events for an hour."""

BOTH_OR_NONE: Final = "Exactly one of VolumeHandle and SnapshotHandle should be specified"


def decide_content(view: View, name: str, unmarked_s: float | None = None) -> Decision:
    """Our finalizer on a content that is bound; a content whose snapshot is missing stays as it is, and so does what it stands for.

    unmarked_s: since the mark of its creation has gone from a content that is being deleted.
    """
    content = view.content(name)
    if content is None:
        return Decision(why.Gone(name))
    source = content.spec.source
    if bool(source.volume_handle) == bool(source.snapshot_handle):
        tell = Tell(content, VOLUME_SNAPSHOT_CONTENTS, "Warning", "ContentValidationError", BOTH_OR_NONE)
        return Decision(why.BadContentSource(), (tell,))
    if not content.spec.volume_snapshot_ref.uid and not (is_deleting(content) and source.volume_handle):
        return Decision(why.Unbound())
    if is_deleting(content):
        if CONTENT_FINALIZER not in finalizers_of(content):
            return Decision(why.ContentDeleting())
        if not is_marked(content, BEING_DELETED):
            return _waits_for_snapshot(view, content)
        if unmarked_s is None:
            return Decision(why.ContentDeleting())
        if unmarked_s < TOUCH_S:
            return Decision(why.ContentDeleting(), after_s=TOUCH_S - unmarked_s)
        return Decision(why.Touching(), (Touch(content),))
    if CONTENT_FINALIZER not in finalizers_of(content):
        return Decision(why.Protecting(), (ProtectContent(content),))
    return Decision(why.Protected())


def _waits_for_snapshot(view: View, content: VolumeSnapshotContent) -> Decision:
    """It was deleted by hand: that ends with the deletion of its snapshot, and never where that is gone.

    Differs from snapshot-controller, which says nothing.
    """
    uid, key = content.spec.volume_snapshot_ref.uid, snapshot_of(content)
    snapshot = view.snapshots.get(key)
    if snapshot is None or snapshot.metadata.uid != uid or is_forsaken(snapshot, AS_SOURCE_FINALIZER, BOUND_FINALIZER):
        text = way_out("VolumeSnapshotContent", f"VolumeSnapshot {key}", uid, BEING_DELETED, CONTENT_FINALIZER)
    elif is_deleting(snapshot):
        return Decision(why.ContentDeleting())
    else:
        text = f"VolumeSnapshotContent is deleted together with VolumeSnapshot {key}, which is there: delete that"
    tell = Tell(content, VOLUME_SNAPSHOT_CONTENTS, "Warning", DELETE_PENDING, text)
    return Decision(why.WaitingForSnapshot(str(key)), (tell,), after_s=TELL_S)
