"""The snapshot controller's judgement as tables: one situation, one decision. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BEING_DELETED,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    MANAGED_BY,
    SECRET_NAME,
    SECRET_NAMESPACE,
)
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_protection import decide_content
from mooring.cluster.snapshots.decision import (
    Action,
    BindContent,
    CreateContent,
    HoldClaim,
    JoinGroup,
    LookUp,
    Protect,
    ProtectContent,
    SaveStatus,
    Tell,
)
from mooring.control.decision import TELL_S, Decision
from tests.support.builders import DELETED, DRIVER, a_bound_claim, a_claim, a_group_content, a_node, a_snapshot_class
from tests.support.rows import each_row
from tests.unit.snapshots.situations import (
    CONTENT,
    a_snap,
    a_view,
    a_volume,
    also,
    decided,
    failure,
    its_content,
    refusal,
    steps,
    the,
    with_status,
)

PREFIX = "csi.storage.k8s.io/snapshotter-secret-"
BOTH = (AS_SOURCE_FINALIZER, BOUND_FINALIZER)
HELD: dict[str, Any] = {"finalizers": list(BOTH)}
CUT = {"snapshotHandle": "h", "readyToUse": True, "creationTime": 1_700_000_000 * 10**9, "restoreSize": 5 << 30}
READY = {
    "boundVolumeSnapshotContentName": CONTENT,
    "readyToUse": True,
    "creationTime": "2023-11-14T22:13:20Z",
    "restoreSize": "5Gi",
}
ERROR = {"time": "2026-01-02T03:04:05Z", "message": "no space"}
CREATION_FAILED = "SnapshotContentCreationFailed"


MISSING = "VolumeSnapshotContent is missing"
MISBOUND = "VolumeSnapshotContent is not bound to the VolumeSnapshot correctly"
BOTH_OR_NONE = "Exactly one of PersistentVolumeClaimName and VolumeSnapshotContentName should be specified"


def created(decision: Decision[Action]) -> Any:
    return the(decision, CreateContent).body


# -- a dynamic snapshot


def test_S1_finalizers_and_claim_come_before_the_content():
    decision = decided(a_snap())
    assert [Protect, HoldClaim, CreateContent, Tell] == steps(decision)
    assert BOTH == the(decision, Protect).finalizers
    body = created(decision)
    assert CONTENT == body["metadata"]["name"]
    assert [CONTENT_FINALIZER] == body["metadata"]["finalizers"]
    assert {"volumeHandle": "vol"} == body["spec"]["source"]
    assert ("snapclass", "Delete", DRIVER) == tuple(
        body["spec"][k] for k in ("volumeSnapshotClassName", "deletionPolicy", "driver")
    )
    assert "uid-snap" == body["spec"]["volumeSnapshotRef"]["uid"]
    assert "CreatingSnapshot" == the(decision, Tell).reason


def test_S1_a_content_that_stays_needs_no_second_finalizer():
    assert (AS_SOURCE_FINALIZER,) == the(
        decided(a_snap(), classes=[a_snapshot_class(policy="Retain")]), Protect
    ).finalizers


def test_S1_the_bound_name_is_written_before_the_driver_says_anything():
    young = decided(a_snap(**HELD), its_content())
    assert {"boundVolumeSnapshotContentName": CONTENT, "readyToUse": False} == the(young, SaveStatus).status


def test_an_error_of_ours_goes_at_once_with_the_bound_name():
    snapshot = with_status(a_snap(**HELD), {"readyToUse": False, "error": ERROR})
    assert {"boundVolumeSnapshotContentName": CONTENT, "readyToUse": False} == the(
        decided(snapshot, its_content()), SaveStatus
    ).status


@each_row(
    ("name", "namespace", "resolved"),
    [
        ("a", "b", ("a", "b")),
        ("s-${volumesnapshot.name}", "${volumesnapshot.namespace}", ("s-snap", "default")),
        ("${volumesnapshotcontent.name}", "${volumesnapshotcontent.name}", (CONTENT, CONTENT)),
    ],
)
def test_S2_the_secret_stands_on_the_content(name, namespace, resolved):
    notes = created(decided(a_snap(), classes=[secret_class(name, namespace)]))["metadata"]["annotations"]
    assert {SECRET_NAME: resolved[0], SECRET_NAMESPACE: resolved[1]} == notes


def test_S2_only_a_content_without_a_secret_is_born_with_the_mark():
    assert {BEING_CREATED: "yes"} == created(decided(a_snap()))["metadata"]["annotations"]


def secret_class(name: str | None, namespace: str | None) -> Any:
    given = {f"{PREFIX}name": name, f"{PREFIX}namespace": namespace}
    return a_snapshot_class(parameters={key: value for key, value in given.items() if value is not None})


def test_S3_a_content_that_is_there_is_not_made_again():
    decision = decided(a_snap(), its_content())
    assert [Protect, SaveStatus] == steps(decision)


def test_S4_a_missing_class_is_told_before_anything_is_written():
    decision = decided(a_snap(), classes=[])
    assert [LookUp] == steps(decision)
    text = 'Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "snapclass" not found'
    assert ("GetSnapshotClassFailed", text) == refusal(decision)
    assert not failure(decision).unready


def test_S5_the_default_class_goes_with_the_finalizers():
    classes = [
        a_snapshot_class(default=True),
        a_snapshot_class("plain"),
        a_snapshot_class("foreign", driver="other", default=True),
    ]
    decision = decided(a_snap(snapshot_class=None), classes=classes)
    assert ("snapclass", BOTH) == (the(decision, Protect).class_name, the(decision, Protect).finalizers)
    assert "snapclass" == created(decision)["spec"]["volumeSnapshotClassName"]


@each_row(
    ("classes", "text"),
    [
        pytest.param(
            [a_snapshot_class(default=True), a_snapshot_class("b", default=True)],
            "2 default snapshot classes were found",
            id="S6",
        ),
        pytest.param([a_snapshot_class(default=True, driver="other")], "cannot find default snapshot class", id="S7"),
    ],
)
def test_S6_S7_a_class_has_to_be_the_only_default(classes, text):
    expected = "SetDefaultSnapshotClassFailed", f"Failed to set default snapshot class with error {text}"
    assert expected == refusal(decided(a_snap(snapshot_class=None), classes=classes))


@each_row(
    ("view", "text"),
    [
        pytest.param({"claims": []}, "cannot get claim from snapshot", id="S8"),
        pytest.param(
            {"claims": [a_claim()]},
            "the PVC claim is not yet bound to a PV, will not attempt to take a snapshot",
            id="S9-pending",
        ),
        pytest.param({"volumes": []}, "failed to retrieve PV pv from the API server", id="S9-gone"),
        pytest.param({"volumes": [a_volume(claim="other")]}, "claim in dataSource not bound or invalid", id="S9-other"),
        pytest.param({"volumes": [a_volume(claim=None)]}, "claim in dataSource not bound or invalid", id="S9-none"),
        pytest.param(
            {"volumes": [a_volume(source={"hostPath": {"path": "/x"}})]},
            "cannot find CSI PersistentVolumeSource for volume pv",
            id="S9-csi",
        ),
        pytest.param(
            {"claims": [a_bound_claim(deleting=True)]},
            "cannot add finalizer on claim because it is being deleted",
            id="S10-deleted",
        ),
        pytest.param({"classes": [secret_class("x", None)]}, "Both must be specified", id="S11-name-only"),
        pytest.param({"classes": [secret_class("", "x")]}, "is empty", id="S11-empty"),
        pytest.param({"classes": [secret_class("${pvc.name}", "x")]}, 'invalid tokens: ["pvc.name"]', id="S11-token"),
        pytest.param(
            {"classes": [secret_class("x", "${volumesnapshot.name}")]}, "invalid tokens", id="S11-namespace-token"
        ),
        pytest.param({"classes": [secret_class("x", "a.b")]}, '"a.b" is not a valid namespace name', id="S11-label"),
        pytest.param({"classes": [secret_class("A_b", "x")]}, '"A_b" is not a valid secret name', id="S11-subdomain"),
        pytest.param({"classes": [a_snapshot_class(driver="other")]}, 'is of driver "other"', id="other-driver"),
        pytest.param(
            {"classes": [a_snapshot_class(parameters={"csi.storage.k8s.io/foo": "x"})]},
            "found unknown parameter key",
            id="S59-unknown-key",
        ),
    ],
)
def test_S8_S9_S10_S11_no_content_without_its_inputs(view, text):
    decision = decided(a_snap(), **view)
    event, error = refusal(decision)
    assert CREATION_FAILED == event
    assert text in error
    assert {Protect, LookUp} >= set(steps(decision))
    assert (AS_SOURCE_FINALIZER,) == the(decision, Protect).finalizers


def test_S10_a_claim_that_is_held_already_may_be_going():
    claim = a_bound_claim(deleting=True, finalizers=(CLAIM_FINALIZER,))
    assert CreateContent in steps(decided(a_snap(), claims=[claim]))


@each_row(("keeps", "expected"), [(True, "Block"), (False, None)])
def test_S12_the_volume_mode_goes_with_the_content(keeps, expected):
    body = created(decided(a_snap(), volumes=[a_volume(volumeMode="Block")], keeps_mode=keeps))
    assert expected == body["spec"].get("sourceVolumeMode")


@each_row(("wanted", "label"), [("n2", {MANAGED_BY: "n2"}), ("nowhere", None)])
def test_S58_the_first_node_that_reaches_the_volume_is_named(wanted, label):
    nodes = [a_node(name, labels={"host": name}) for name in ("n1", "n2", "n3")]
    body = created(decided(a_snap(), volumes=[a_volume(affinity={"host": wanted})], nodes=nodes, distributed=True))
    assert label == body["metadata"].get("labels")


# -- what the content says


def test_S13_what_the_driver_said_is_copied_once():
    decision = decided(a_snap(**HELD), its_content(status=CUT))
    assert [SaveStatus, Tell, Tell] == steps(decision)
    assert READY == the(decision, SaveStatus).status
    assert ["SnapshotCreated", "SnapshotReady"] == [one.reason for one in decision.actions if isinstance(one, Tell)]


def test_S13_cut_first_ready_later():
    decision = decided(a_snap(**HELD), its_content(status={**CUT, "readyToUse": False}))
    assert ["SnapshotCreated"] == [one.reason for one in decision.actions if isinstance(one, Tell)]
    assert False is the(decision, SaveStatus).status["readyToUse"]


@each_row(("before", "said", "after"), [("0", 5 << 30, "5Gi"), ("5Gi", 6 << 30, "5Gi"), (None, 0, "0"), ("0", 0, "0")])
def test_S13_a_size_above_zero_stays(before, said, after):
    old = {
        "boundVolumeSnapshotContentName": CONTENT,
        "readyToUse": False,
        **({"restoreSize": before} if before else {}),
    }
    decision = decided(with_status(a_snap(**HELD), old), its_content(status={**CUT, "restoreSize": said}))
    assert after == the(decision, SaveStatus).status["restoreSize"]


def test_S15_an_error_is_copied_and_an_equal_one_is_not_written_again():
    content = its_content(status={"readyToUse": False, "error": ERROR})
    status = the(decided(a_snap(**HELD), content), SaveStatus).status
    assert (ERROR, False) == (status["error"], status["readyToUse"])
    assert () == decided(with_status(a_snap(**HELD), status), content).actions


def test_S16_an_error_goes_when_the_content_has_none():
    snapshot = with_status(
        a_snap(**HELD), {"boundVolumeSnapshotContentName": CONTENT, "readyToUse": False, "error": ERROR}
    )
    assert READY == the(decided(snapshot, its_content(status=CUT)), SaveStatus).status


def test_S16_an_error_goes_also_from_a_ready_snapshot():
    """Its write was not answered, and so it was not known when the snapshot got ready."""
    snapshot = with_status(a_snap(**HELD), {**READY, "error": ERROR})
    assert READY == the(decided(snapshot, its_content(status=CUT)), SaveStatus).status


def test_S17_a_ready_snapshot_without_content_is_never_made_again():
    lost = decided(with_status(a_snap(**HELD), READY))
    assert ("SnapshotContentMissing", MISSING) == refusal(lost)
    assert [LookUp] == steps(lost)
    torn = decided(with_status(a_snap(), READY))
    assert [LookUp, Protect] == steps(torn), "the write of its error is no news, so nobody would look at it again"
    still = decided(with_status(a_snap(**HELD), {**READY, "readyToUse": False, "error": ERROR}))
    assert (refusal(lost), [LookUp]) == (refusal(still), steps(still))


def test_S17_a_content_that_points_elsewhere_by_now():
    decision = decided(with_status(a_snap(**HELD), READY), its_content(ref_uid="another"))
    assert (
        "SnapshotContentMisbound",
        f"VolumeSnapshotContent [{CONTENT}] is bound to a different snapshot",
    ) == refusal(decision)


def test_S17_an_error_without_a_message_is_borne():
    snapshot = with_status(a_snap(**HELD), {**READY, "error": {"time": ERROR["time"]}})
    assert "SnapshotContentMissing" == refusal(decided(snapshot))[0]


@each_row("source", [{}, {"persistentVolumeClaimName": "a", "volumeSnapshotContentName": "b"}])
def test_S18_one_source_and_not_two(source):
    snapshot = a_snap()
    snapshot["spec"]["source"] = source
    assert ("SnapshotValidationError", BOTH_OR_NONE) == refusal(decided(snapshot))


# -- a static snapshot


def imported(**more: Any) -> Any:
    return its_content(**{"handle": "h", "ref_uid": None, **more})


def static(**more: Any) -> Any:
    return a_snap(content=CONTENT, **more)


def test_S19_a_content_without_uid_is_bound_with_its_finalizer():
    decision = decided(static(), imported())
    assert [Protect, BindContent] == steps(decision)
    bind = the(decision, BindContent)
    assert ("uid-snap", "", True) == (bind.uid, bind.class_name, decision.again)
    assert BOTH == the(decision, Protect).finalizers


def test_S19_the_class_of_the_snapshot_goes_to_the_content():
    decision = decided(static(snapshot_class="snapclass", **HELD), imported(ref_uid="uid-snap"))
    assert "snapclass" == the(decision, BindContent).class_name
    bound = imported(ref_uid="uid-snap", volumeSnapshotClassName="other")
    assert BindContent not in steps(decided(static(snapshot_class="snapclass", **HELD), bound))


def test_S19_a_static_snapshot_asks_for_no_default_class():
    decision = decided(
        static(**HELD), imported(ref_uid="uid-snap", status=CUT), classes=[a_snapshot_class(default=True)]
    )
    assert [SaveStatus, Tell, Tell] == steps(decision)


def test_S19_a_content_that_stays_gives_one_finalizer():
    assert (AS_SOURCE_FINALIZER,) == the(decided(static(), imported(policy="Retain")), Protect).finalizers


def test_S20_a_static_content_that_is_missing():
    decision = decided(static())
    assert ("SnapshotContentMissing", MISSING) == refusal(decision)
    assert [LookUp, Protect] == steps(decision)
    assert (AS_SOURCE_FINALIZER,) == the(decision, Protect).finalizers, "its policy is not known yet"
    assert [LookUp] == steps(decided(static(**HELD)))


@each_row("ref", [{"name": "another"}, {"namespace": "another"}, {"uid": "another"}])
def test_S21_a_content_of_another_snapshot(ref):
    content = imported()
    content["spec"]["volumeSnapshotRef"].update(ref)
    decision = decided(static(), content)
    text = f"VolumeSnapshotContent [{CONTENT}] is bound to a different snapshot"
    assert ("SnapshotContentMisbound", text) == refusal(decision)
    assert ("SnapshotFinalizerError", f"Failed to check and update snapshot: {text}") == also(decision)
    assert () == decision.actions


def test_S22_a_dynamic_content_for_a_static_snapshot():
    text = "VolumeSnapshotContent is dynamically provisioned while expecting a pre-provisioned one"
    decision = decided(static(), its_content(ref_uid=None))
    assert ("SnapshotContentMismatch", text) == refusal(decision)
    wrong = f"expects a pre-provisioned VolumeSnapshotContent {CONTENT} but gets a dynamically provisioned one"
    assert ("SnapshotFinalizerError", f"Failed to check and update snapshot: snapshot default/snap {wrong}") == also(
        decision
    )


def test_S23_a_static_content_of_the_fixed_name():
    text = f"VolumeSnapshotContent {CONTENT} is pre-provisioned while expecting a dynamically provisioned one"
    decision = decided(a_snap(), its_content(handle="h"))
    assert ("SnapshotContentMismatch", text) == refusal(decision)
    wrong = f"expects a dynamically provisioned VolumeSnapshotContent {CONTENT} but gets a pre-provisioned one"
    assert ("SnapshotFinalizerError", f"Failed to check and update snapshot: snapshot default/snap {wrong}") == also(
        decision
    )


def test_S23_a_content_of_the_fixed_name_that_is_of_another():
    assert "SnapshotContentMisbound" == refusal(decided(a_snap(), its_content(snapshot="another")))[0]


# -- contents


def content_decision(content: Any, *snapshots: Any) -> Decision[Action]:
    return decide_content(a_view(contents=[content], snapshots=snapshots), CONTENT)


def test_S24_a_bound_content_gets_our_finalizer():
    assert [ProtectContent] == steps(content_decision(its_content(finalizers=("others",))))
    assert Decision(why.Protected()) == content_decision(its_content(finalizers=("others", CONTENT_FINALIZER)))
    assert Decision(why.Unbound()) == content_decision(imported())
    assert Decision(why.ContentDeleting()) == content_decision(its_content(deletionTimestamp=DELETED))


@each_row("snapshot", [None, {"uid": "another"}, {"deletionTimestamp": DELETED, "finalizers": ("others",)}])
def test_S25_a_content_that_was_deleted_after_its_snapshot_says_what_to_do(snapshot):
    going = its_content(deletionTimestamp=DELETED, finalizers=(CONTENT_FINALIZER,))
    view = a_view(contents=[going], snapshots=[] if snapshot is None else [a_snap(**snapshot)])
    tell = the(decide_content(view, CONTENT), Tell)
    assert ("SnapshotContentDeletePending", True) == (tell.reason, f"annotate it {BEING_DELETED}=yes" in tell.message)


@each_row("content", [{"annotations": {BEING_DELETED: "yes"}}, {"finalizers": ("others",)}])
def test_S25_one_that_the_drivers_side_looks_after_says_nothing(content):
    going = its_content(**{"deletionTimestamp": DELETED, "finalizers": (CONTENT_FINALIZER,), **content})
    assert () == decide_content(a_view(contents=[going]), CONTENT).actions


@each_row(
    ("snapshots", "says"),
    [
        pytest.param([a_snap()], "together with VolumeSnapshot default/snap, which is there", id="alive"),
        pytest.param([], 'of the uid "uid-snap", which is not there', id="gone"),
    ],
)
def test_S43_whoever_deletes_a_bound_content_hears_what_it_waits_for(snapshots, says):
    """Again before the API server drops the event."""
    held = {"finalizers": (CONTENT_FINALIZER,), "deletionTimestamp": DELETED}
    decision = content_decision(its_content(**held), *snapshots)
    told = the(decision, Tell)
    assert ("SnapshotContentDeletePending", TELL_S) == (told.reason, decision.after_s)
    assert says in told.message
    going = a_snap(deletionTimestamp=DELETED, finalizers=list(BOTH))
    assert () == content_decision(its_content(**held), going).actions
    assert () == content_decision(its_content(annotations={BEING_DELETED: "yes"}, **held)).actions


def test_S25_a_content_whose_snapshot_is_missing_stays_as_it_is():
    """As after a restore of YAML in another order: neither the content nor the snapshot in the driver is touched."""
    assert () == content_decision(its_content(finalizers=(CONTENT_FINALIZER,))).actions


@each_row("source", [{}, {"volumeHandle": "a", "snapshotHandle": "b"}])
def test_S18_a_content_has_one_source_and_not_two(source):
    content = its_content()
    content["spec"]["source"] = source
    assert "ContentValidationError" == the(content_decision(content), Tell).reason


# -- members of groups


def test_a_member_of_a_group_is_never_made_alone():
    assert Decision(why.MemberUnbound()) == decided(
        a_snap(ownerReferences=[{"kind": "VolumeGroupSnapshot", "name": "g", "uid": "u"}])
    )


def test_S17_a_ready_member_whose_content_points_elsewhere():
    member = a_snap(ownerReferences=[{"kind": "VolumeGroupSnapshot", "name": "g", "uid": "u"}], **HELD)
    decision = decided(with_status(member, READY), its_content(ref_uid="another"))
    assert (("SnapshotMisbound", MISBOUND), None, ()) == (refusal(decision), also(decision), decision.actions)


def test_a_snapshot_that_learns_its_group_is_looked_at_again_to_be_owned():
    group_content = a_group_content(status={"volumeGroupSnapshotHandle": "g"})
    content = its_content(status={**CUT, "volumeGroupSnapshotHandle": "g"})
    decision = decided(a_snap(**HELD), content, group_contents=[group_content], has_groups=True)
    assert ("group", True) == (the(decision, SaveStatus).status["volumeGroupSnapshotName"], decision.again)
    assert not decided(a_snap(**HELD), its_content(status=CUT), has_groups=True).again


def test_a_ready_member_gets_its_group_as_owner():
    group = {"kind": "VolumeGroupSnapshot", "metadata": {"name": "g", "uid": "u"}}
    snapshot = with_status(a_snap(**HELD), {**READY, "volumeGroupSnapshotName": "g"})
    decision = decided(snapshot, its_content(status=CUT), groups=[group])
    assert ("g", "u") == (the(decision, JoinGroup).owner["name"], the(decision, JoinGroup).owner["uid"])
    api = "groupsnapshot.storage.k8s.io/v1"
    owners = [{"apiVersion": api, "kind": "VolumeGroupSnapshot", "name": "g", "uid": uid} for uid in ("u", "old")]
    owned, of_former = (
        {**snapshot, "metadata": {**snapshot["metadata"], "ownerReferences": [owner]}} for owner in owners
    )
    assert () == decided(owned, its_content(status=CUT), groups=[group]).actions
    assert "u" == the(decided(of_former, its_content(status=CUT), groups=[group]), JoinGroup).owner["uid"]


def test_S18_an_empty_name_is_none():
    """As hands write it."""
    both = a_snap(claim="claim")
    both["spec"]["source"]["volumeSnapshotContentName"] = ""
    assert CreateContent in steps(decided(both))
    both["spec"]["source"]["persistentVolumeClaimName"] = ""
    assert ("SnapshotValidationError", BOTH_OR_NONE) == refusal(decided(both))
    content = imported()
    content["spec"]["source"]["volumeHandle"] = ""
    assert BindContent in steps(decided(static(), content))
    assert why.Unbound() == content_decision(content).because
    content["spec"]["source"]["snapshotHandle"] = ""
    assert why.BadContentSource() == content_decision(content).because


OTHERS = a_snapshot_class("others", driver="other.csi")


@each_row("more", [{"snapshot_class": "others"}, {}], ids=["the snapshot's", "the content's"])
@each_row("uid", [None, "uid-snap"], ids=["unbound", "bound"])
def test_S44_a_class_of_another_driver_than_the_contents_is_refused(more, uid):
    """One that is bound already is protected, so that its content goes with it."""
    content = imported(ref_uid=uid, **({} if more else {"volumeSnapshotClassName": "others"}))
    decision = decided(static(**more), content, classes=[OTHERS])
    event, text = refusal(decision)
    assert ("SnapshotBindFailed", True) == (event, 'class "others" is of driver "other.csi"' in text)
    assert ([] if uid is None else [Protect]) == steps(decision)


def test_a_member_whose_group_is_gone_or_has_done_its_part_says_what_it_lacks():
    member = a_snap(ownerReferences=[{"kind": "VolumeGroupSnapshot", "name": "g", "uid": "u"}])
    group = {"kind": "VolumeGroupSnapshot", "metadata": {"name": "g", "uid": "u"}, "status": {"readyToUse": False}}
    assert Decision(why.MemberUnbound()) == decided(member, groups=[group], has_groups=True)
    done = {**group, "status": {"readyToUse": True}}
    for groups in ([], [done]):
        assert ("SnapshotContentMissing", MISSING) == refusal(decided(member, groups=groups, has_groups=True))
