"""How long a claim stays protected, as a table. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.snapshot_names import (
    AS_SOURCE_FINALIZER,
    BEING_CREATED,
    BOUND_FINALIZER,
    CLAIM_FINALIZER,
    CONTENT_FINALIZER,
    GROUP_CONTENT_FINALIZER,
    GROUP_HANDLE,
    IN_GROUP_FINALIZER,
)
from mooring.cluster.snapshots import reasons as why
from mooring.cluster.snapshots.decide_protection import CLAIM_GRACE_S, decide_claim
from mooring.cluster.snapshots.decision import Action, ReleaseClaim
from mooring.control.decision import Decision
from tests.support.builders import APP, DELETED, Json, a_bound_claim, a_group_content, a_group_snapshot
from tests.support.rows import each_row
from tests.unit.snapshots.situations import CLAIM, OWNER, a_snap, a_view, its_content, steps, with_status

READY = {"readyToUse": True, "boundVolumeSnapshotContentName": "snapcontent-uid-snap"}
CUT = {"snapshotHandle": "h", "readyToUse": True}
UNREADY = {"snapshotHandle": "h", "readyToUse": False}
GOING = {"deletionTimestamp": DELETED}
HELD = {"finalizers": [CONTENT_FINALIZER]}
GROUP_HELD = {"finalizers": [GROUP_CONTENT_FINALIZER]}


def decided(
    idle_s: float | None = None, coming_s: float | None = None, *, labels: Json | None = None, **view: Any
) -> Decision[Action]:
    """For a claim that is protected."""
    claim = a_bound_claim(finalizers=(CLAIM_FINALIZER,), labels=labels or {})
    return decide_claim(a_view(**{"claims": [claim], "has_groups": True, **view}), CLAIM, idle_s, coming_s)


def test_S14_a_claim_is_held_while_one_snapshot_is_not_ready():
    ready, other = with_status(a_snap(), READY), a_snap(name="other", uid="uid-other")
    assert Decision(why.ClaimNeeded('snapshot "other"')) == decided(snapshots=[ready, other])
    assert [ReleaseClaim] == steps(decided(0.0, snapshots=[ready]))
    assert CLAIM_GRACE_S == decided(0.0).after_s, "a snapshot may be on its way"
    assert [ReleaseClaim] == steps(decided())
    assert Decision(why.ClaimFree()) == decide_claim(a_view(snapshots=[ready]), CLAIM)


def test_S14_a_claim_is_held_while_a_content_of_it_may_come():
    """Its snapshot may be torn away, and its group be deleted, so that nothing else says so."""
    assert Decision(why.ClaimAwaited(), after_s=7.0) == decided(coming_s=7.0)
    assert Decision(why.ClaimNeeded('snapshot "snap"')) == decided(coming_s=7.0, snapshots=[a_snap()])


def test_S14_a_snapshot_that_is_being_deleted_needs_it_until_its_content_was_looked_for():
    """It may be the one that was made a moment ago."""
    first, later = [AS_SOURCE_FINALIZER, BOUND_FINALIZER], [BOUND_FINALIZER]
    assert Decision(why.ClaimNeeded('snapshot "snap"')) == decided(snapshots=[a_snap(**GOING, finalizers=first)])
    assert [ReleaseClaim] == steps(decided(snapshots=[a_snap(**GOING, finalizers=later)]))
    member = a_snap(**GOING, finalizers=[*first, IN_GROUP_FINALIZER], ownerReferences=[OWNER])
    assert [ReleaseClaim] == steps(decided(snapshots=[member])), (
        "its group is made as a whole, and it stays as long as that"
    )


def test_S14_a_member_that_was_deleted_before_it_got_ready_does_not_hold_it_as_long_as_its_group_stays():
    held = [AS_SOURCE_FINALIZER, BOUND_FINALIZER, IN_GROUP_FINALIZER]
    members = [a_snap(**GOING, finalizers=held, ownerReferences=[OWNER])]
    made = of_group({"volumeGroupSnapshotHandle": "g", "readyToUse": True})
    assert [ReleaseClaim] == steps(decided(snapshots=members, group_contents=[made]))
    assert Decision(why.ClaimNeeded('content "groupcontent"')) == decided(
        snapshots=members, group_contents=[of_group()]
    )


@each_row(
    "content",
    [
        pytest.param(its_content(), id="nothing is known"),
        pytest.param(its_content(status=UNREADY), id="not ready"),
        pytest.param(its_content(**GOING, **HELD, annotations={BEING_CREATED: "yes"}), id="the outcome is open"),
        pytest.param(its_content(**GOING, **HELD), id="its driver has not let it go"),
    ],
)
def test_S14_a_content_whose_snapshot_may_be_in_the_making_needs_it(content):
    assert Decision(why.ClaimNeeded('content "snapcontent-uid-snap"')) == decided(contents=[content])


@each_row(
    "content",
    [
        pytest.param(its_content(status=CUT), id="ready"),
        pytest.param(its_content(**GOING, **HELD, status=UNREADY), id="made, and going"),
        pytest.param(its_content(**GOING, finalizers=["others"]), id="its driver has let it go"),
        pytest.param(its_content(volume="another"), id="of another volume"),
        pytest.param(its_content(handle="h"), id="it was there before"),
        pytest.param(its_content(ref_uid=None), id="never made without a snapshot"),
        pytest.param(its_content(annotations={GROUP_HANDLE: "g"}), id="made by its group"),
        pytest.param({**its_content(), "spec": {**its_content()["spec"], "driver": "another"}}, id="of another driver"),
    ],
)
def test_S14_other_contents_do_not(content):
    assert [ReleaseClaim] == steps(decided(contents=[content]))


def of_group(status: Json | None = None, **more: Any) -> Json:
    return a_group_content(volumes=["vol"], **({"status": status} if status else {}), **more)


@each_row(
    "content",
    [of_group(), of_group({"volumeGroupSnapshotHandle": "g", "readyToUse": False}), of_group(**GOING, **GROUP_HELD)],
    ids=["nothing is known", "not ready", "the outcome may be open"],
)
def test_S14_the_content_of_a_group_needs_all_its_claims(content):
    assert Decision(why.ClaimNeeded('content "groupcontent"')) == decided(group_contents=[content])


@each_row(
    "content",
    [
        of_group({"volumeGroupSnapshotHandle": "g", "readyToUse": True}),
        of_group({"volumeGroupSnapshotHandle": "g", "readyToUse": False}, **GOING, **GROUP_HELD),
        of_group(**GOING, finalizers=["others"]),
        a_group_content(volumes=["another"]),
    ],
    ids=["ready", "made, and going", "its driver has let it go", "of other volumes"],
)
def test_S14_and_not_once_it_is_made(content):
    assert [ReleaseClaim] == steps(decided(group_contents=[content]))


def test_S14_a_group_that_is_about_to_make_its_content_needs_the_claims_that_it_chooses():
    """Also where a snapshot of the claim is there, so that there is no grace."""
    ready, group = with_status(a_snap(), READY), a_group_snapshot(uid="uid-group")
    assert Decision(why.ClaimNeeded('group snapshot "group"')) == decided(labels=APP, groups=[group], snapshots=[ready])
    assert [ReleaseClaim] == steps(decided(groups=[group], snapshots=[ready])), "it chooses others"
    going = a_group_snapshot(uid="uid-group", **GOING)
    assert [ReleaseClaim] == steps(decided(labels=APP, groups=[going], snapshots=[ready]))
    made = with_status(group, {"creationTime": "2026-01-01T00:00:00Z"})
    assert [ReleaseClaim] == steps(decided(labels=APP, groups=[made], snapshots=[ready])), "it is never made again"
    static = a_group_snapshot(uid="uid-group", content="elsewhere")
    assert [ReleaseClaim] == steps(decided(labels=APP, groups=[static], snapshots=[ready]))
