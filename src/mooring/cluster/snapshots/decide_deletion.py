"""The end of a snapshot: its content is told, goes with it or stays, and then the finalizers go. Pure."""

from __future__ import annotations

from typing import Any, Final

from mooring.api.group_snapshot import VolumeGroupSnapshotContent
from mooring.api.meta import Key, Kind, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOT_CONTENTS, VolumeSnapshot, VolumeSnapshotContent
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_DELETED,
    BOUND_FINALIZER,
    DELETE_POLICY,
    GROUP_SNAPSHOT_KIND,
    IN_GROUP_FINALIZER,
    is_marked,
)
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decision import Action, Decision, DeleteContent, Failure, LookUp, MarkDeleted, Release
from mooring.cluster.snapshots.view import View, snapshot_of, wanted_content

WAITS_S: Final = 60.0
"""How long a snapshot waits for the end of its content before it says so."""

RESTORING = Failure("SnapshotDeletePending", "Snapshot is being used to restore a PVC", saved=False)

MAY_BE_MADE = Failure(
    "SnapshotDeletePending",
    "waits for up to a minute: a write that gives it a content was not answered, and may still be carried out",
    saved=False,
)


def decide_deletion(view: View, snapshot: VolumeSnapshot, waited_s: float, lost_s: float | None = None) -> Decision:
    """The policy of the content counts, not that of its class. A content that does not point back is another's.

    waited_s: since this process saw that the snapshot is to go. lost_s: how long a write that gives it a content may still be carried out,
    None where none was lost.
    """
    content = content_of(view, snapshot)
    held = finalizers_of(snapshot)
    if not {AS_SOURCE_FINALIZER, BOUND_FINALIZER, IN_GROUP_FINALIZER} & set(held):
        return Decision(why.Released())
    if content is not None and view.is_restored_from(key_of(snapshot)):
        return Decision(why.BeingRestored(), failure=RESTORING)
    group = group_of(view, snapshot)
    if group:
        return Decision(why.BelongsToGroup(group), failure=_belongs(snapshot, group))
    goes = content is not None and content.spec.deletion_policy == DELETE_POLICY
    kept = {BOUND_FINALIZER} if goes else set()
    leaving = tuple(one for one in (AS_SOURCE_FINALIZER, BOUND_FINALIZER, IN_GROUP_FINALIZER) if one in held and one not in kept)
    actions: tuple[Action, ...] = (*_farewell(content), *((Release(snapshot, leaving),) if leaving else ()))
    if content is None and lost_s:
        return Decision(why.WaitingForLostWrite(), failure=MAY_BE_MADE, after_s=lost_s)
    if content is None:
        # Where it was never seen, or never seen bound, that may have been done a moment ago: then it must not stay behind.
        name = wanted_content(snapshot) if AS_SOURCE_FINALIZER in held or lost_s is not None else ""
        look = (LookUp(VOLUME_SNAPSHOT_CONTENTS, Key("", name), strictly=True),) if name and _may_be_bound(view, snapshot, name) else ()
        return Decision(why.Releasing(), (*look, *actions), done="released the snapshot")
    name = content.metadata.name
    if not goes:
        return Decision(why.KeepingContent(name), actions, done="released the snapshot, its content stays")
    if not actions and waited_s < WAITS_S:
        return Decision(why.WaitingForContent(name), after_s=WAITS_S - waited_s)
    if not actions:
        return Decision(
            why.WaitingForContent(name),
            failure=Failure("SnapshotDeletePending", waits_text(VOLUME_SNAPSHOT_CONTENTS, content), saved=False),
        )
    # Its content may be gone by now, if nothing held it: then the last finalizer goes, too.
    return Decision(why.DeletingContent(name), actions, done="deleted its content")


def content_of(view: View, snapshot: VolumeSnapshot) -> VolumeSnapshotContent | None:
    """The content that is bound to the snapshot, or would be; None for one that does not point back."""
    bound = snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None
    for name in filter(None, (bound, wanted_content(snapshot))):
        content = view.content(name)
        if content is not None:
            ref = content.spec.volume_snapshot_ref
            return content if snapshot_of(content) == key_of(snapshot) and ref.uid == snapshot.metadata.uid else None
    return None


def _may_be_bound(view: View, snapshot: VolumeSnapshot, name: str) -> bool:
    """True where the content of this name may have become the snapshot's by a write of ours whose answer was lost."""
    content = view.content(name)
    return content is None or (snapshot_of(content) == key_of(snapshot) and not content.spec.volume_snapshot_ref.uid)


def group_of(view: View, snapshot: VolumeSnapshot) -> str:
    """The name of the group snapshot that it is a member of and that stays, "" for none. Unknown counts as staying."""
    owners = [owner for owner in snapshot.metadata.owner_references or () if owner.kind == GROUP_SNAPSHOT_KIND]
    if not view.has_groups and IN_GROUP_FINALIZER in finalizers_of(snapshot):
        return owners[0].name if owners else "of an unknown name"
    for owner in owners:
        group = view.groups.get(Key(snapshot.metadata.namespace, owner.name))
        if group is not None and group.metadata.uid == owner.uid:
            return owner.name
    named = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    return named if named and not owners and view.groups.get(Key(snapshot.metadata.namespace, named)) is not None else ""


def _belongs(snapshot: VolumeSnapshot, group: str) -> Failure:
    name, group = str(key_of(snapshot)), str(Key(snapshot.metadata.namespace, group))
    text = (
        f"deletion of the individual volume snapshot {name} is not allowed as it belongs to group snapshot {group}. "
        "Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are part of the group."
    )
    return Failure("SnapshotDeletePending", text, saved=False)


def waits_text(kind: Kind[Any], content: VolumeSnapshotContent | VolumeGroupSnapshotContent) -> str:
    """Differs from snapshot-controller, which says nothing: an error of the driver stands on the content alone."""
    held = ", ".join(finalizers_of(content)) or "nothing"
    return f"waits for the end of {kind.name} {content.metadata.name} of driver {content.spec.driver}, held by {held}"


def _farewell(content: VolumeSnapshotContent | None) -> tuple[Action, ...]:
    """The mark comes first: the driver's side does not act on the deletion of a content without it."""
    if content is None:
        return ()
    mark = () if is_marked(content, BEING_DELETED) else (MarkDeleted(content),)
    goes = content.spec.deletion_policy == DELETE_POLICY and not is_deleting(content)
    return (*mark, *((DeleteContent(content),) if goes else ()))
