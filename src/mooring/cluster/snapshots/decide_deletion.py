"""The deletion of a VolumeSnapshot, or of a group: marks its content, deletes or keeps it, then removes the finalizers.
Pure.

A group's snapshots go with the group, and its finalizer when its content is gone or stays by its policy. The driver's
side, which deletes the snapshot on the storage or keeps it: `sidecars/snapshotter/decide_deletion.py`.
"""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VolumeSnapshot
from mooring.api.snapshot_kinds import SINGLES, Content, Snapshot, ref_of, row_of
from mooring.api.snapshot_names import DELETE_POLICY, GROUP_SNAPSHOT_KIND, IN_GROUP_FINALIZER, is_marked
from mooring.cluster.snapshots import decision as d
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_protection import tell_forsaken
from mooring.cluster.snapshots.decision import Action, Failure
from mooring.cluster.snapshots.view import View, bound_name, is_of, snapshot_of, wanted_content
from mooring.control.decision import Decision

WAITS_S: Final = 60.0
"""How long a snapshot waits for the end of its content before it says so."""

PENDING: Final = "SnapshotDeletePending"
MAY_BE_MADE: Final = Failure(
    PENDING,
    "waits for up to a minute: a write that gives it a content was not answered, and may still be carried out",
    saved=False,
)


def decide_deletion(view: View, snapshot: Snapshot, waited_s: float, lost_s: float | None = None) -> Decision[Action]:
    """Decide about a snapshot that is being deleted. The policy of the content counts, not that of its class. A content
    that does not point back is another snapshot's.

    waited_s: since this process saw that the snapshot is to go. lost_s: how long a write that gives it a content may
    still be carried out, None where none was lost.
    """
    row, held = row_of(snapshot), finalizers_of(snapshot)
    if not set(row.finalizers) & set(held):
        return Decision(why.Released(), tell_forsaken(view, row, key_of(snapshot)))
    content = content_of(view, snapshot)
    held_up = _held_up(view, snapshot, content)
    if held_up is not None:
        return held_up
    goes, leaving = _goes(content), _leaving(snapshot, content)
    members = tuple(d.DeleteMember(one) for one in view.members_of(snapshot) if not is_deleting(one))
    if content is None and lost_s:
        return Decision(why.WaitingForLostWrite(), members, MAY_BE_MADE, after_s=lost_s)
    release = (d.Release(snapshot, leaving),) if leaving else ()
    actions: tuple[Action, ...] = (*_farewell(content), *members, *release)
    if content is None:
        look = _look(view, snapshot) if row.source_finalizer in held or lost_s is not None else ()
        return Decision(why.Releasing(), (*look, *actions), done=f"released the {row.noun}")
    name = content.metadata.name
    if goes and not is_marked(content, row.being_deleted):
        # The deletion names the version that the mark's answer shows, which is judged first.
        return Decision(why.DeletingContent(name), _farewell(content), again=True, done="marked its content")
    if not goes:
        return Decision(why.KeepingContent(name), actions, done=f"released the {row.noun}, its content stays")
    if not actions and waited_s < WAITS_S:
        return Decision(why.WaitingForContent(name), after_s=WAITS_S - waited_s)
    if not actions:
        return Decision(why.WaitingForContent(name), problem=Failure(PENDING, _waits_text(content), saved=False))
    # Its content may be gone by now, if nothing held it: then the last finalizer goes, too.
    return Decision(why.DeletingContent(name), actions, done="deleted its content")


def may_leave(view: View, snapshot: Snapshot) -> tuple[str, ...]:
    """The finalizers that nothing holds any more: they go now, or as soon as the content is marked and deleted."""
    content = content_of(view, snapshot)
    return () if _held_up(view, snapshot, content) is not None else _leaving(snapshot, content)


def _leaving(snapshot: Snapshot, content: Content | None) -> tuple[str, ...]:
    """The finalizers that may go now: the bound one waits for the end of a content that goes."""
    row, held = row_of(snapshot), finalizers_of(snapshot)
    return tuple(one for one in row.finalizers if one in held and not (_goes(content) and one == row.bound_finalizer))


def _goes(content: Content | None) -> bool:
    return content is not None and content.spec.deletion_policy == DELETE_POLICY


def content_of(view: View, snapshot: Snapshot) -> Content | None:
    """The content that is bound to the snapshot, or would be; None for one that does not point back."""
    for name in filter(None, (bound_name(snapshot), wanted_content(snapshot))):
        content: Content | None = view.content(row_of(snapshot), name)
        if content is not None:
            return content if is_of(content, snapshot) else None
    return None


def _look(view: View, snapshot: Snapshot) -> tuple[Action, ...]:
    """Look up a content that was never seen, or never seen bound: a write of ours whose answer was lost may have made
    or bound it a moment ago, and it must not stay behind.
    """
    row, name = row_of(snapshot), wanted_content(snapshot)
    return (
        (d.LookUp(row.contents, Key("", name), strictly=True),) if name and _may_be_bound(view, snapshot, name) else ()
    )


def _may_be_bound(view: View, snapshot: Snapshot, name: str) -> bool:
    content: Content | None = view.content(row_of(snapshot), name)
    return content is None or (snapshot_of(content) == key_of(snapshot) and not ref_of(content).uid)


# -- what holds it up


def _held_up(view: View, snapshot: Snapshot, content: Content | None) -> Decision[Action] | None:
    restored = _restored(view, snapshot, content)
    if restored:
        return Decision(why.BeingRestored(), problem=Failure(PENDING, restored, saved=False))
    group = group_of(view, snapshot) if isinstance(snapshot, VolumeSnapshot) else ""
    return Decision(why.BelongsToGroup(group), problem=_belongs(snapshot, group)) if group else None


def _restored(view: View, snapshot: Snapshot, content: Content | None) -> str:
    """The text that a claim waits for a volume filled from the snapshot, or from one of its members; "" for none."""
    if row_of(snapshot) is SINGLES:
        return (
            "Snapshot is being used to restore a PVC"
            if content is not None and view.is_restored_from(key_of(snapshot))
            else ""
        )
    for one in view.members_of(snapshot):
        if view.is_restored_from(key_of(one)):
            return (
                f"Snapshot {key_of(one)} belonging to VolumeGroupSnapshot {key_of(snapshot)} is being used to "
                "restore a PVC"
            )
    return ""


def group_of(view: View, snapshot: VolumeSnapshot) -> str:
    """The group snapshot that the snapshot is a member of and that stays, "" for none. Unknown counts as staying."""
    owners = [owner for owner in snapshot.metadata.owner_references or () if owner.kind == GROUP_SNAPSHOT_KIND]
    if owners and not view.has_groups and IN_GROUP_FINALIZER in finalizers_of(snapshot):
        return owners[0].name
    for owner in owners:
        group = view.groups.get(Key(snapshot.metadata.namespace, owner.name))
        if group is not None and group.metadata.uid == owner.uid:
            return owner.name
    named = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    return (
        named if named and not owners and view.groups.get(Key(snapshot.metadata.namespace, named)) is not None else ""
    )


def _belongs(snapshot: Snapshot, group: str) -> Failure:
    name, group = str(key_of(snapshot)), str(Key(snapshot.metadata.namespace, group))
    text = (
        f"deletion of the individual volume snapshot {name} is not allowed as it belongs to group snapshot {group}. "
        "Deleting the group snapshot will trigger the deletion of all the individual volume snapshots that are "
        "part of the group."
    )
    return Failure(PENDING, text, saved=False)


def _waits_text(content: Content) -> str:
    """What the deletion waits for. snapshot-controller says nothing: a driver's error stands on the content alone."""
    held, kind = ", ".join(finalizers_of(content)) or "nothing", row_of(content).contents
    return f"waits for the end of {kind.name} {content.metadata.name} of driver {content.spec.driver}, held by {held}"


def _farewell(content: Content | None) -> tuple[Action, ...]:
    """Mark the content, then delete it: the driver's side does not act on the deletion of one without the mark."""
    if content is None:
        return ()
    if not is_marked(content, row_of(content).being_deleted):
        return (d.MarkDeleted(content),)
    return (d.DeleteContent(content),) if _goes(content) and not is_deleting(content) else ()
