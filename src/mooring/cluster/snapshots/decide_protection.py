"""The snapshot controller's decisions about contents and claims: what stays protected, and who hears what a deletion
waits for. Pure.

A claim stays protected as long as a snapshot of it may be in the making. Differs from snapshot-controller, which looks
at VolumeSnapshots alone, releases the claim when its snapshot is deleted, and protects no claim of a group: a driver
that has been called may still be at work then, and would lose the claim's volume.

A content that was deleted by hand, and whose snapshot is gone, is forsaken: no object says any more whether to keep the
data, so they are kept. An Event says that; snapshot-controller sends none. After a copy of objects from one cluster to
another, contents have no snapshots for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.api.core import PersistentVolumeClaim
from mooring.api.matching import selects
from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot_kinds import GROUPS, SINGLES, Content, Row, Snapshot, ref_of, row_of
from mooring.api.snapshot_names import is_marked
from mooring.base.text import quoted
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decision import Action, ProtectContent, ReleaseClaim, Tell, Touch
from mooring.cluster.snapshots.view import (
    BY_NAMESPACE,
    BY_REF,
    BY_SOURCE_VOLUME,
    View,
    handle_key,
    holds_claim,
    lacks_finalizer,
    snapshot_of,
    wanted_content,
    was_made,
)
from mooring.control.decision import TELL_S, Decision

TOUCH_S: Final = 1.0
"""How long the driver's side has to let a content go by itself, once it may."""

CLAIM_GRACE_S: Final = 30.0
"""How long a claim stays protected that nobody needs, and that no change of a snapshot has set free."""

BOTH_OR_NONE: Final = "Exactly one of VolumeHandle and SnapshotHandle should be specified"
DELETE_PENDING: Final = "SnapshotContentDeletePending"


# -- contents of single snapshots


def decide_content(view: View, name: str, unmarked_s: float | None = None) -> Decision[Action]:
    """Put our finalizer on a bound content; a content whose snapshot is missing stays as it is, and so does what it
    stands for.

    unmarked_s: since the mark of its creation has gone from a content that is being deleted.
    """
    content = view.content(SINGLES, name)
    if content is None:
        return Decision(why.Gone(name))
    source = content.spec.source
    if bool(source.volume_handle) == bool(source.snapshot_handle):
        return Decision(why.BadContentSource(), (Tell(content, "Warning", "ContentValidationError", BOTH_OR_NONE),))
    if not ref_of(content).uid and not (is_deleting(content) and source.volume_handle):
        return Decision(why.Unbound())
    if not is_deleting(content):
        return (
            Decision(why.Protecting(), (ProtectContent(content),))
            if lacks_finalizer(content)
            else Decision(why.Protected())
        )
    if SINGLES.content_finalizer not in finalizers_of(content):
        return Decision(why.ContentDeleting())
    if not is_marked(content, SINGLES.being_deleted):
        return _waits_for_snapshot(view, content)
    if unmarked_s is None:
        return Decision(why.ContentDeleting())
    if unmarked_s < TOUCH_S:
        return Decision(why.ContentDeleting(), after_s=TOUCH_S - unmarked_s)
    return Decision(why.Touching(), (Touch(content),))


def _waits_for_snapshot(view: View, content: Content) -> Decision[Action]:
    """The step for a content that was deleted by hand: it goes with its snapshot, and never where that is gone.

    Differs from snapshot-controller, which says nothing.
    """
    key = snapshot_of(content)
    snapshot = view.snapshots.get(key)
    if _is_forsaken_by(snapshot, content):
        text = _way_out(content)
    elif snapshot is not None and is_deleting(snapshot):
        return Decision(why.ContentDeleting())
    else:
        text = f"VolumeSnapshotContent is deleted together with VolumeSnapshot {key}, which is there: delete that"
    return Decision(why.WaitingForSnapshot(str(key)), (Tell(content, "Warning", DELETE_PENDING, text),), after_s=TELL_S)


def _is_forsaken_by(snapshot: Snapshot | None, content: Content) -> bool:
    """True where the content's snapshot is gone, or is going without a finalizer of ours that would make it mark the
    content first.
    """
    if snapshot is None or snapshot.metadata.uid != ref_of(content).uid:
        return True
    row = row_of(snapshot)
    return is_deleting(snapshot) and not {row.source_finalizer, row.bound_finalizer} & set(finalizers_of(snapshot))


def _way_out(content: Content) -> str:
    """The advice for the owner of the data."""
    row, uid = row_of(content), ref_of(content).uid
    gone = f"{row.snapshots.name} {snapshot_of(content)} of the uid {quoted(uid)}"
    return (
        f"{row.contents.name} is deleted together with {gone}, which is not there: "
        f"to delete its data, too, annotate it {row.being_deleted}=yes; to keep them, take the finalizer "
        f"{row.content_finalizer} off"
    )


def tell_forsaken(view: View, row: Row, key: Key) -> tuple[Action, ...]:
    """Tell the contents of this group that it is gone. Contents of single snapshots find out by themselves."""
    return tuple(_forsaken(view, key)) if row is GROUPS else ()


def _forsaken(view: View, key: Key) -> Iterator[Tell]:
    for content in view.group_contents.by(BY_REF, str(key)):
        waits = is_deleting(content) and not is_marked(content, GROUPS.being_deleted) and bool(ref_of(content).uid)
        if (
            waits
            and GROUPS.content_finalizer in finalizers_of(content)
            and _is_forsaken_by(view.groups.get(key), content)
        ):
            yield Tell(content, "Warning", DELETE_PENDING, _way_out(content))


# -- claims


def decide_claim(view: View, key: Key, idle_s: float | None = None, coming_s: float | None = None) -> Decision[Action]:
    """Take our finalizer off a claim that no snapshot needs any more. idle_s: since the claim is known to be held for
    no snapshot; where it has none at all, one that needs it may be on its way. coming_s: until the next look, while a
    content of it may come that no snapshot speaks for any more; None where none may.
    """
    claim = view.claims.get(key)
    if claim is None:
        return Decision(why.Gone(str(key)))
    if not holds_claim(claim):
        return Decision(why.ClaimFree())
    user = user_of(view, claim)
    if user:
        return Decision(why.ClaimNeeded(user))
    if coming_s is not None:
        return Decision(why.ClaimAwaited(), after_s=coming_s)
    if idle_s is not None and idle_s < CLAIM_GRACE_S and not view.snapshots_of(key):
        return Decision(why.ClaimIdle(), after_s=CLAIM_GRACE_S - idle_s)
    return Decision(why.ClaimReleased(), (ReleaseClaim(key),), done="released the claim")


def user_of(view: View, claim: PersistentVolumeClaim) -> str:
    """The object that needs the claim, in a user's words; "" for nothing."""
    needing = view.unready_of(key_of(claim))
    if needing:
        return f'snapshot "{needing[0].metadata.name}"'
    volume = view.volume(claim.spec.volume_name or "")
    csi = volume.spec.csi if volume is not None else None
    if csi is not None:
        handle = handle_key(csi.driver, csi.volume_handle)
        single, group = view.contents.by(BY_SOURCE_VOLUME, handle), view.group_contents.by(BY_SOURCE_VOLUME, handle)
        for name in (*(one.metadata.name for one in single), *(one.metadata.name for one in group)):
            return f'content "{name}"'
    return _group_on_its_way(view, claim)


def _group_on_its_way(view: View, claim: PersistentVolumeClaim) -> str:
    """A group snapshot that has protected the claim, or is about to, and has no content yet."""
    for group in view.groups.by(BY_NAMESPACE, claim.metadata.namespace):
        selector = group.spec.source.selector
        begins = not was_made(group) and not is_deleting(group) and view.content(GROUPS, wanted_content(group)) is None
        if begins and selector is not None and selects(selector, claim.metadata.labels):
            return f'group snapshot "{group.metadata.name}"'
    return ""
