"""The end of a group snapshot: its content is told, goes with it or stays, its snapshots go, and then the finalizer does. Pure."""

from __future__ import annotations

from mooring.api.group_snapshot import GROUP_SNAPSHOT_CONTENTS, GROUP_SNAPSHOTS, VolumeGroupSnapshot, VolumeGroupSnapshotContent
from mooring.api.meta import Key, finalizers_of, is_deleting, key_of
from mooring.api.snapshot import VOLUME_SNAPSHOTS
from mooring.api.snapshot_names import DELETE_POLICY, GROUP_BEING_DELETED, GROUP_FINALIZER, YES, is_marked
from mooring.cluster.snapshots.decide_deletion import MAY_BE_MADE, WAITS_S, waits_text
from mooring.cluster.snapshots.decision import Failure, LookUp
from mooring.cluster.snapshots.forsaken import tell_forsaken_of_group
from mooring.cluster.snapshots.groups import reasons as why
from mooring.cluster.snapshots.groups.decision import Action, Decision, Delete, Write
from mooring.cluster.snapshots.view import View, wanted_group_content
from mooring.control.object_writes import annotate_as_judged, removal
from mooring.kube.patch import json_patch


def decide_deletion(view: View, group: VolumeGroupSnapshot, waited_s: float, lost_s: float | None) -> Decision:
    """Its content is told first, then its snapshots go, and the group when its content is gone or stays by its policy.

    waited_s, lost_s: as for `decide_group`.
    """
    if GROUP_FINALIZER not in finalizers_of(group):
        return Decision(why.Released(), tell_forsaken_of_group(view, key_of(group)))
    members = view.members_of(group.metadata.uid)
    for snapshot in members:
        if view.is_restored_from(key_of(snapshot)):
            name = snapshot.metadata.name
            text = f"Snapshot {key_of(snapshot)} belonging to VolumeGroupSnapshot {key_of(group)} is being used to restore a PVC"
            return Decision(why.BeingRestored(name), failure=Failure("SnapshotDeletePending", text, saved=False))
    content = _content_of(view, group)
    goes = content is not None and content.spec.deletion_policy == DELETE_POLICY
    actions: list[Action] = []
    if content is not None and not is_marked(content, GROUP_BEING_DELETED):
        patch = annotate_as_judged(content, GROUP_BEING_DELETED, YES)
        actions.append(Write(GROUP_SNAPSHOT_CONTENTS, content, patch, "GroupSnapshotContentObjectDeleteError"))
    if content is not None and goes and not is_deleting(content):
        text = "Failed to delete group snapshot content API object: "
        actions.append(Delete(GROUP_SNAPSHOT_CONTENTS, content, "GroupSnapshotContentObjectDeleteError", text))
    actions += [Delete(VOLUME_SNAPSHOTS, one, "GroupSnapshotDeleteError") for one in members if not is_deleting(one)]
    if content is None and lost_s:
        return Decision(why.WaitingForLostWrite(), tuple(actions), MAY_BE_MADE, after_s=lost_s)
    if not goes:
        release = Write(GROUP_SNAPSHOTS, group, json_patch(removal(group, (GROUP_FINALIZER,))), "GroupSnapshotFinalizerError")
        return Decision(why.Deleting(), (*_search(view, group), *actions, release), done="released the group")
    assert content is not None
    if not actions:
        because = why.WaitingForContent(content.metadata.name)
        if waited_s < WAITS_S:
            return Decision(because, after_s=WAITS_S - waited_s)
        return Decision(because, failure=Failure("SnapshotDeletePending", waits_text(GROUP_SNAPSHOT_CONTENTS, content), saved=False))
    return Decision(why.Deleting(), tuple(actions), done="deleted its content and its snapshots")


def _search(view: View, group: VolumeGroupSnapshot) -> tuple[Action, ...]:
    """For a content that was never seen, or never seen bound: that may have been done a moment ago, and it must not stay behind."""
    content, name = view.group_content(wanted_group_content(group)), wanted_group_content(group)
    ref = None if content is None else content.spec.volume_group_snapshot_ref
    may_be_bound = ref is None or (Key(ref.namespace, ref.name) == key_of(group) and not ref.uid)
    return (LookUp(GROUP_SNAPSHOT_CONTENTS, Key("", name), strictly=True),) if may_be_bound else ()


def _content_of(view: View, group: VolumeGroupSnapshot) -> VolumeGroupSnapshotContent | None:
    """Its content, bound or of the name that it would have; None for one that does not point back."""
    content = view.group_content(wanted_group_content(group))
    return content if content is not None and points_back(content, group) else None


def points_back(content: VolumeGroupSnapshotContent, group: VolumeGroupSnapshot) -> bool:
    ref = content.spec.volume_group_snapshot_ref
    return Key(ref.namespace, ref.name) == key_of(group) and ref.uid == group.metadata.uid
