"""The end of a snapshot as tables. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

from mooring.api.snapshot_names import AS_SOURCE_FINALIZER, BEING_DELETED, BOUND_FINALIZER, IN_GROUP_FINALIZER
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_deletion import WAITS_S
from mooring.cluster.snapshots.decision import DeleteContent, LookUp, MarkDeleted, Release
from mooring.control.decision import Decision
from tests.support.builders import DELETED, a_claim
from tests.support.rows import each_row
from tests.unit.snapshots.situations import (
    CONTENT,
    OWNER,
    a_snap,
    decided,
    its_content,
    refusal,
    steps,
    the,
    with_status,
)

GOING: dict[str, Any] = {"deletionTimestamp": DELETED, "finalizers": [AS_SOURCE_FINALIZER, BOUND_FINALIZER]}
MARKED = {"annotations": {BEING_DELETED: "yes"}}
GROUP = {"kind": "VolumeGroupSnapshot", "metadata": {"name": "group", "uid": "uid-group"}}


def test_S26_the_mark_comes_before_the_deletion_and_one_finalizer_stays():
    first = decided(a_snap(**GOING), its_content())
    assert ([MarkDeleted], True) == (steps(first), first.again), "then the answer is judged"
    decision = decided(a_snap(**GOING), its_content(**MARKED))
    assert [DeleteContent, Release] == steps(decision)
    assert (AS_SOURCE_FINALIZER,) == the(decision, Release).finalizers


def test_S26_then_it_waits_for_the_end_of_its_content():
    only_bound = a_snap(deletionTimestamp=DELETED, finalizers=[BOUND_FINALIZER])
    going = its_content(deletionTimestamp=DELETED, **MARKED)
    waiting = decided(only_bound, going)
    assert ((), None, WAITS_S - 10.0) == (waiting.actions, waiting.problem, waiting.after_s)


def test_S26_and_says_so_when_that_takes_long():
    only_bound = a_snap(deletionTimestamp=DELETED, finalizers=[BOUND_FINALIZER])
    going = its_content(deletionTimestamp=DELETED, finalizers=["example.com/backup"], **MARKED)
    event, text = refusal(decided(only_bound, going, waited_s=WAITS_S))
    assert ("SnapshotDeletePending", True) == (event, text.endswith("of driver csi.test, held by example.com/backup"))


def test_S27_policy_retain_marks_and_lets_go():
    decision = decided(a_snap(**GOING), its_content(policy="Retain"))
    assert [MarkDeleted, Release] == steps(decision)
    assert {AS_SOURCE_FINALIZER, BOUND_FINALIZER} == set(the(decision, Release).finalizers)


def test_S28_without_content_all_finalizers_go():
    """After a look at the API server: a content that was made a moment ago must not stay behind."""
    decision = decided(a_snap(**GOING))
    assert [LookUp, Release] == steps(decision)
    assert ((CONTENT, True), {AS_SOURCE_FINALIZER, BOUND_FINALIZER}) == (
        (the(decision, LookUp).key.name, the(decision, LookUp).strictly),
        set(the(decision, Release).finalizers),
    )
    assert [Release] == steps(decided(a_snap(deletionTimestamp=DELETED, finalizers=[BOUND_FINALIZER]))), (
        "its content was seen to go"
    )


def test_S28_an_import_that_is_not_seen_bound_is_looked_at_first():
    """It may have been bound a moment ago, by a write whose answer was lost: then it goes with its snapshot."""
    snapshot = a_snap(content=CONTENT, **GOING)
    decision = decided(snapshot, its_content(handle="h", ref_uid=None))
    assert [LookUp, Release] == steps(decision)
    assert (CONTENT, True) == (the(decision, LookUp).key.name, the(decision, LookUp).strictly)
    assert [Release] == steps(decided(snapshot, its_content(handle="h", ref_uid=None, snapshot="another")))


@each_row("ref", [{"name": "another"}, {"namespace": "another"}, {"uid": "another"}])
def test_S29_the_content_of_another_is_left_alone(ref):
    content = its_content()
    content["spec"]["volumeSnapshotRef"].update(ref)
    assert [Release] == steps(decided(a_snap(**GOING), content))


def restoring(phase: str = "Pending", name: str = "snap", kind: str = "VolumeSnapshot") -> Any:
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": kind, "name": name}
    return a_claim("restored", dataSource=source, status={"phase": phase})


def test_S30_a_claim_that_restores_from_it_holds_it():
    decision = decided(a_snap(**GOING), its_content(), claims=[restoring()])
    assert (("SnapshotDeletePending", "Snapshot is being used to restore a PVC"), ()) == (
        refusal(decision),
        decision.actions,
    )


@each_row("claim", [restoring("Bound"), restoring(name="other"), restoring(kind="PersistentVolumeClaim")])
def test_S30_other_claims_do_not(claim):
    assert decided(a_snap(**GOING), its_content(), claims=[claim]).problem is None


def test_S32_class_claim_and_volume_may_be_gone():
    decision = decided(a_snap(**GOING), its_content(**MARKED), classes=[], claims=[], volumes=[])
    assert [DeleteContent, Release] == steps(decision)


def test_S60_a_member_goes_with_its_group_alone():
    member = a_snap(**{**GOING, "finalizers": [AS_SOURCE_FINALIZER, IN_GROUP_FINALIZER]}, ownerReferences=[OWNER])
    decision = decided(member, its_content(), groups=[GROUP], has_groups=True)
    event, text = refusal(decision)
    assert ("SnapshotDeletePending", True, ()) == (
        event,
        "belongs to group snapshot default/group" in text,
        decision.actions,
    )
    free = decided(member, groups=[], has_groups=True)
    assert {AS_SOURCE_FINALIZER, IN_GROUP_FINALIZER} == set(the(free, Release).finalizers)


def test_S60_also_while_its_group_is_going():
    member = a_snap(**GOING, ownerReferences=[OWNER])
    going = {**GROUP, "metadata": {**GROUP["metadata"], "deletionTimestamp": DELETED}}
    assert "SnapshotDeletePending" == refusal(decided(member, its_content(), groups=[going], has_groups=True))[0]


def test_S60_or_where_its_status_alone_names_the_group():
    member = with_status(a_snap(**GOING), {"volumeGroupSnapshotName": "group"})
    event, text = refusal(decided(member, its_content(), groups=[GROUP], has_groups=True))
    assert ("SnapshotDeletePending", True) == (event, "snapshot default/snap is not allowed" in text)
    assert Release in steps(decided(member, its_content(**MARKED), groups=[], has_groups=True))


def test_S60_a_later_group_of_the_name_of_its_own_holds_it_not():
    member = with_status(a_snap(**GOING, ownerReferences=[OWNER]), {"volumeGroupSnapshotName": "group"})
    later = {**GROUP, "metadata": {"name": "group", "uid": "uid-later"}}
    assert Release in steps(decided(member, its_content(**MARKED), groups=[later], has_groups=True))


def test_S60_unknown_counts_as_belonging():
    """With groups switched off nobody can say whether the group is still there."""
    member = a_snap(**{**GOING, "finalizers": [IN_GROUP_FINALIZER]}, ownerReferences=[OWNER])
    assert "SnapshotDeletePending" == refusal(decided(member))[0]


def test_S60_a_finalizer_without_an_owner_holds_nothing():
    """As on the manifest of a former member, which a backup tool brings back."""
    assert Release in steps(decided(a_snap(**{**GOING, "finalizers": [IN_GROUP_FINALIZER]})))


def test_nothing_of_ours_holds_it():
    assert Decision(why.Released()) == decided(a_snap(deletionTimestamp=DELETED, finalizers=["others"]), its_content())
