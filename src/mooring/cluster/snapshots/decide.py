"""The snapshot controller's decisions: the next step for one snapshot.

Pure: the view goes in, actions come out, carried out in order by `reconcile.py`. Nothing is tried again after a while: each thing that can
be missing is in a cache, and its arrival wakes the snapshot. A snapshot that was made once is never made again, whatever became of
its content: today's data are not those of its creation time.
"""

from __future__ import annotations

from typing import Final

from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import (
    VOLUME_SNAPSHOT_CLASSES,
    VOLUME_SNAPSHOT_CONTENTS,
    VOLUME_SNAPSHOTS,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_DELETED,
    BOUND_FINALIZER,
    DELETE_POLICY,
    GROUP_SNAPSHOT_KIND,
    is_marked,
    is_member,
)
from mooring.base.text import quoted
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.content import CantTell, check_fit, content_for, default_class, source_of
from mooring.cluster.snapshots.decide_deletion import decide_deletion
from mooring.cluster.snapshots.decision import (
    Action,
    BindContent,
    CreateContent,
    Decision,
    Failure,
    HoldClaim,
    JoinGroup,
    LookUp,
    Protect,
    SaveStatus,
    Tell,
    UnmarkDeleted,
)
from mooring.cluster.snapshots.questions import has_busy_group, names_content, was_made
from mooring.cluster.snapshots.status import as_json, copied, progress
from mooring.cluster.snapshots.view import (
    BY_GROUP_HANDLE,
    View,
    is_dynamic,
    is_ready,
    snapshot_of,
    wanted_content,
)

STATUS_DELAY_S: Final = 0.5
"""How long the bound name waits to be written together with what the driver says."""

MISSING: Final = "VolumeSnapshotContent is missing"
MISBOUND: Final = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly"
BOTH_OR_NONE: Final = "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified"


# -- snapshots


def decide_snapshot(view: View, key: Key, waited_s: float = STATUS_DELAY_S, lost_s: float | None = None) -> Decision:
    """The next step for one snapshot. waited_s: since this process made its content, more for a content that it did not make; of a snapshot
    that is to go, since this process saw that. lost_s: as for `decide_deletion`.
    """
    snapshot = view.snapshots.get(key)
    if snapshot is None:
        return Decision(why.Gone(str(key)))
    if is_deleting(snapshot):
        return decide_deletion(view, snapshot, waited_s, lost_s)
    if is_ready(snapshot):
        return _decide_ready(view, snapshot)
    refused = _refused(view, snapshot)
    if refused is not None:
        return refused
    if is_member(snapshot):
        return _decide_member(view, snapshot)
    content = view.content(wanted_content(snapshot))
    if content is not None:
        return _decide_bound(view, snapshot, content, waited_s)
    if not is_dynamic(snapshot) or was_made(snapshot):
        return _missing(wanted_content(snapshot), _protection(snapshot, ""))
    return _decide_creation(view, snapshot)


def _refused(view: View, snapshot: VolumeSnapshot) -> Decision | None:
    """A class that does not exist, and a source that is none.

    Differs from snapshot-controller: a snapshot that is ready needs no class.
    """
    name, source = snapshot.spec.volume_snapshot_class_name, snapshot.spec.source
    if name and view.class_named(name) is None:
        text = f'Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "{name}" not found'
        look = LookUp(VOLUME_SNAPSHOT_CLASSES, Key("", name))
        return Decision(why.ClassMissing(name), (look,), Failure("GetSnapshotClassFailed", text, unready=False))
    if not is_member(snapshot) and bool(source.persistent_volume_claim_name) == bool(source.volume_snapshot_content_name):
        return Decision(why.BadSource(), failure=Failure("SnapshotValidationError", BOTH_OR_NONE))
    return None


def _missing(name: str, before: tuple[Action, ...] = ()) -> Decision:
    look = LookUp(VOLUME_SNAPSHOT_CONTENTS, Key("", name))
    return Decision(why.ContentMissing(name), (look, *before) if name else (), Failure("SnapshotContentMissing", MISSING))


def _decide_ready(view: View, snapshot: VolumeSnapshot) -> Decision:
    assert snapshot.status is not None
    name = snapshot.status.bound_volume_snapshot_content_name
    content = view.content(name)
    if content is None:
        return _missing(name or "", _protection(snapshot, ""))
    if not _is_of(content, snapshot):
        if is_member(snapshot):
            return Decision(why.ContentMisbound(content.metadata.name), failure=Failure("SnapshotMisbound", MISBOUND))
        return _misbound(content)
    actions = (*_protection(snapshot, content.spec.deletion_policy), *_revival(content), *_membership(view, snapshot))
    said = content.status
    if snapshot.status.error is not None and said is not None and said.ready_to_use is True and said.error is None:
        return _copy(view, snapshot, content, actions)  # an error whose write was not answered, before it got ready
    return Decision(why.Ready(), actions)


def _decide_member(view: View, snapshot: VolumeSnapshot) -> Decision:
    """The group's controller makes and binds it."""
    bound = snapshot.status.bound_volume_snapshot_content_name if snapshot.status else None
    content = view.content(bound or wanted_content(snapshot))
    if (content is None or not _is_of(content, snapshot)) and not has_busy_group(view, snapshot):
        return _missing(bound or wanted_content(snapshot)) if content is None else _misbound(content)
    if content is None or not _is_of(content, snapshot):
        return Decision(why.MemberUnbound())
    return _copy(view, snapshot, content, _protection(snapshot, content.spec.deletion_policy))


def _decide_bound(view: View, snapshot: VolumeSnapshot, content: VolumeSnapshotContent, waited_s: float) -> Decision:
    """There is a content of the name that the snapshot wants."""
    name = content.metadata.name
    if is_dynamic(snapshot) == (not content.spec.source.volume_handle):
        return _mismatch(snapshot, name)
    if not (_is_of(content, snapshot) if is_dynamic(snapshot) else _may_be_of(content, snapshot)):
        return _misbound(content)
    foreign = _foreign_class(view, snapshot, content)
    if foreign is not None:
        return foreign
    protection = (*_protection(snapshot, content.spec.deletion_policy), *_revival(content))
    if is_dynamic(snapshot):
        quiet = content.status is None and (snapshot.status is None or snapshot.status.error is None)
        if quiet and waited_s < STATUS_DELAY_S and not names_content(snapshot):
            return Decision(why.Waiting(name), protection, after_s=STATUS_DELAY_S - waited_s)
        return _copy(view, snapshot, content, protection)
    class_name = snapshot.spec.volume_snapshot_class_name or ""
    unbound = not content.spec.volume_snapshot_ref.uid
    if is_deleting(content):  # finalizers can't be added any more
        return _going(name) if unbound else _copy(view, snapshot, content, protection)
    if unbound or (class_name and not content.spec.volume_snapshot_class_name):
        bind = BindContent(content, snapshot.metadata.uid, class_name)
        return Decision(why.Binding(name), (*_protection(snapshot, content.spec.deletion_policy), bind), again=True)
    return _copy(view, snapshot, content, protection)


def _revival(content: VolumeSnapshotContent) -> tuple[Action, ...]:
    """The mark of a deletion goes from a content that is bound to a living snapshot: it is of one that was bound to it before."""
    return (UnmarkDeleted(content),) if is_marked(content, BEING_DELETED) else ()


def _foreign_class(view: View, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> Decision | None:
    """Its driver would never look at a content whose class is another's. A bound content is protected, and goes with the snapshot."""
    name, driver = content.metadata.name, content.spec.driver
    class_name = content.spec.volume_snapshot_class_name or snapshot.spec.volume_snapshot_class_name or ""
    named = view.class_named(class_name)
    if named is None or named.driver == driver:
        return None
    problem = f'class "{class_name}" is of driver "{named.driver}", and VolumeSnapshotContent [{name}] of driver "{driver}"'
    protection = _protection(snapshot, content.spec.deletion_policy) if _is_of(content, snapshot) else ()
    failure = Failure("SnapshotBindFailed", f"Snapshot failed to bind VolumeSnapshotContent, {problem}")
    return Decision(why.ContentMismatch(name, problem), protection, failure)


def _going(name: str) -> Decision:
    text = f"Snapshot failed to bind VolumeSnapshotContent, VolumeSnapshotContent [{name}] is being deleted"
    return Decision(why.ContentGoing(name), failure=Failure("SnapshotBindFailed", text))


def _is_of(content: VolumeSnapshotContent, snapshot: VolumeSnapshot) -> bool:
    return snapshot_of(content) == key_of(snapshot) and content.spec.volume_snapshot_ref.uid == snapshot.metadata.uid


def _may_be_of(content: VolumeSnapshotContent, snapshot: VolumeSnapshot) -> bool:
    """Also a content that nobody has bound yet."""
    return snapshot_of(content) == key_of(snapshot) and content.spec.volume_snapshot_ref.uid in ("", snapshot.metadata.uid)


def _mismatch(snapshot: VolumeSnapshot, name: str) -> Decision:
    if is_dynamic(snapshot):
        text = f"VolumeSnapshotContent {name} is pre-provisioned while expecting a dynamically provisioned one"
    else:
        text = "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one"
    kinds = ("dynamically provisioned", "pre-provisioned") if is_dynamic(snapshot) else ("pre-provisioned", "dynamically provisioned")
    wrong = f"snapshot {key_of(snapshot)} expects a {kinds[0]} VolumeSnapshotContent {name} but gets a {kinds[1]} one"
    also = ("SnapshotFinalizerError", f"Failed to check and update snapshot: {wrong}")
    return Decision(why.ContentMismatch(name, text), failure=Failure("SnapshotContentMismatch", text, also=also))


def _misbound(content: VolumeSnapshotContent) -> Decision:
    name = content.metadata.name
    text = f"VolumeSnapshotContent [{name}] is bound to a different snapshot"
    also = ("SnapshotFinalizerError", f"Failed to check and update snapshot: {text}")
    return Decision(why.ContentMisbound(name), failure=Failure("SnapshotContentMisbound", text, also=also))


def _protection(snapshot: VolumeSnapshot, policy: str, class_name: str = "") -> tuple[Action, ...]:
    """The finalizers that it lacks, in one write: the second only where the content is to go with the snapshot."""
    wanted = (AS_SOURCE_FINALIZER, BOUND_FINALIZER) if policy == DELETE_POLICY else (AS_SOURCE_FINALIZER,)
    held = finalizers_of(snapshot)
    lacking = tuple(one for one in wanted if one not in held)
    return (Protect(snapshot, lacking, class_name),) if lacking or class_name else ()


def _membership(view: View, snapshot: VolumeSnapshot) -> tuple[Action, ...]:
    """A member whose group does not own it yet."""
    name = snapshot.status.volume_group_snapshot_name if snapshot.status else None
    owners = snapshot.metadata.owner_references or ()
    group = view.groups.get(Key(snapshot.metadata.namespace, name)) if name else None
    if group is None or any(owner.uid == group.metadata.uid for owner in owners):
        return ()
    owner = {
        "apiVersion": "groupsnapshot.storage.k8s.io/v1",
        "kind": GROUP_SNAPSHOT_KIND,
        "name": group.metadata.name,
        "uid": group.metadata.uid,
    }
    return (JoinGroup(snapshot, owner),)


# -- a dynamic snapshot without content


def _decide_creation(view: View, snapshot: VolumeSnapshot) -> Decision:
    try:
        snapshot_class, chosen = _class_for(view, snapshot)
    except CantTell as error:
        text = f"Failed to set default snapshot class with error {error}"
        failure = Failure("SetDefaultSnapshotClassFailed", text, unready=False)
        return Decision(why.NoDefaultClass(str(error)), error.look_up, failure)
    try:
        source = source_of(view, snapshot)
        check_fit(source, snapshot_class)
        body = content_for(view, snapshot, source, snapshot_class)
    except CantTell as error:
        failure = Failure("SnapshotContentCreationFailed", f"Failed to create snapshot content with error {error}")
        return Decision(why.CantCreate(str(error)), (*error.look_up, *_protection(snapshot, "")), failure)
    name = body["metadata"]["name"]
    meta = snapshot.metadata
    waiting = f"Waiting for a snapshot {meta.namespace}/{meta.name} to be created by the CSI driver."
    actions = (
        *_protection(snapshot, snapshot_class.deletion_policy, chosen),
        HoldClaim(source.claim),
        CreateContent(body),
        Tell(snapshot, VOLUME_SNAPSHOTS, "Normal", "CreatingSnapshot", waiting),
    )
    return Decision(why.Creating(name), actions, again=True, done="made its content")


def _class_for(view: View, snapshot: VolumeSnapshot) -> tuple[VolumeSnapshotClass, str]:
    """The class, and its name where it is the default one and the snapshot is to be told. Raises CantTell."""
    name = snapshot.spec.volume_snapshot_class_name
    if name:
        named = view.class_named(name)
        assert named is not None, "refused before"
        return named, ""
    chosen = default_class(view, source_of(view, snapshot).driver)
    return chosen, chosen.metadata.name


# -- the status


def _copy(view: View, snapshot: VolumeSnapshot, content: VolumeSnapshotContent, before: tuple[Action, ...]) -> Decision:
    handle = content.status.volume_group_snapshot_handle if content.status else None
    group_name = ""
    if handle and view.has_groups:
        found = next(iter(view.group_contents.by(BY_GROUP_HANDLE, handle)), None)
        if found is None:
            return Decision(why.GroupContentMissing(handle), before, None if is_member(snapshot) else _no_group(handle))
        group_name = found.spec.volume_group_snapshot_ref.name
    status = copied(snapshot, content, group_name)
    because = why.Copying(content.metadata.name)
    if status == snapshot.status:
        return Decision(because, before)
    save = SaveStatus(snapshot, as_json(status) or {})
    done = "copied the status of its content"
    return Decision(because, (*before, save, *_news(snapshot, content, group_name)), again=bool(group_name), done=done)


def _no_group(handle: str) -> Failure:
    """Of an import. A member's group is on its way."""
    text = f"Snapshot status update failed, there is no VolumeGroupSnapshotContent of the group {quoted(handle)} that it is of"
    return Failure("SnapshotStatusUpdateFailed", text, saved=False)


def _news(snapshot: VolumeSnapshot, content: VolumeSnapshotContent, group_name: str) -> tuple[Tell, ...]:
    news, name = progress(snapshot.status, copied(snapshot, content, group_name)), str(key_of(snapshot))
    created = Tell(snapshot, VOLUME_SNAPSHOTS, "Normal", "SnapshotCreated", f"Snapshot {name} was successfully created by the CSI driver.")
    ready = Tell(snapshot, VOLUME_SNAPSHOTS, "Normal", "SnapshotReady", f"Snapshot {name} is ready to use.")
    return (*((created,) if news.created else ()), *((ready,) if news.ready else ()))
