"""The judgement about group contents, and what follows from the driver's answers, as tables. Ids:
docs/behaviours/snapshotter.md.
"""

from __future__ import annotations

from typing import Any

from mooring.api.snapshot_names import GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER
from mooring.control.decision import Decision
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter import reasons as why
from mooring.sidecars.snapshotter.creation import Event, Memory
from mooring.sidecars.snapshotter.decide_after import after_unsaved, as_json
from mooring.sidecars.snapshotter.decide_after_group import Matching, after_answered, matched
from mooring.sidecars.snapshotter.decision import (
    Action,
    Ask,
    Create,
    Delete,
    Failure,
    LookUpClass,
    Mark,
    Release,
    Tell,
    Unmark,
    Way,
)
from tests.support.builders import DELETED, Json, a_group_class, a_group_content, typed
from tests.support.rows import each_row
from tests.unit.snapshotter.situations import group_decided, steps, the

IMPORTED = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
UNREADY = {"volumeGroupSnapshotHandle": "g", "readyToUse": False}


def decided(content: Json, *, classes: tuple[Json, ...] = (a_group_class(),), **view: Any) -> Decision[Action]:
    return group_decided(content, group_classes=classes, **view)


def refusal(decision: Decision[Action]) -> tuple[str, str]:
    assert isinstance(decision.problem, Failure)
    assert not {Mark, Create, Ask, Delete} & set(steps(decision))
    return decision.problem.event, decision.problem.error


def answered(content: Json, **group: Any) -> Any:
    told, wanted = csi.VolumeGroupSnapshot(**group), typed(content).spec.source.volume_handles
    matching = Matching(tuple(one.source_volume_id for one in told.snapshots))
    return after_answered(typed(content), told, matching if wanted is None else matched(wanted, told.snapshots), 42)


def test_a_group_content_of_no_group_is_told_without_a_call():
    event, text = refusal(decided(a_group_content(ref_uid=None)))
    assert ("GroupSnapshotCreationFailed", True) == (
        event,
        text.endswith("content groupcontent is not bound to a group snapshot"),
    )
    assert [Mark, Create] == steps(decided(a_group_content()))


def test_S34_an_unready_group_is_asked_for_and_made_again_where_the_driver_does_not_tell():
    content = a_group_content(uid="uid", status=UNREADY)
    assert [Ask] == steps(decided(content))
    memory = Memory()
    memory.change("uid", by_name=True)
    again = decided(content, memory=memory)
    assert ([Create], "groupsnapshot-uid-group") == (steps(again), the(again, Create).order.name)
    imported = a_group_content(uid="uid", source=IMPORTED)
    assert [Ask] == steps(decided(imported, memory=memory)), "an imported one can't be made"


def test_an_imported_group_whose_class_is_missing_is_told_without_a_call():
    decision = decided(a_group_content(source=IMPORTED), classes=())
    assert [LookUpClass] == steps(decision), "the watches of different kinds are not in step"
    event, text = refusal(decision)
    missing = 'volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "groupclass" not found'
    assert ("GroupSnapshotContentCheckandUpdateFailed", True) == (
        event,
        text.endswith(f"snapshot content groupcontent: {missing}"),
    )
    unnamed = a_group_content(source=IMPORTED, volumeGroupSnapshotClassName=None)
    assert why.Checking("g", Way.GET_GROUP.value) == decided(unnamed, classes=()).because, "it needs none"


def test_an_imported_group_keeps_its_handle_and_no_members_are_no_list():
    after = answered(a_group_content(source=IMPORTED), ready_to_use=True)
    assert {"volumeGroupSnapshotHandle": "g", "creationTime": "1970-01-01T00:00:00Z", "readyToUse": True} == as_json(
        after.status
    )
    assert (
        "g"
        == as_json(answered(a_group_content(source=IMPORTED), group_snapshot_id="another").status)[
            "volumeGroupSnapshotHandle"
        ]
    )
    assert "without an id" in answered(a_group_content()).failure.error, "one that was made has to have one"


def test_S44_a_group_content_with_a_class_of_another_driver_can_be_deleted_and_no_more():
    others = (a_group_class(driver="other", parameters={"pool": "a"}),)
    decision = decided(a_group_content(), classes=others)
    assert why.Foreign("groupclass") == decision.because
    assert "its class groupclass is of driver other" in refusal(decision)[1]
    going: Json = {"deletionTimestamp": DELETED, "finalizers": [GROUP_CONTENT_FINALIZER]}
    marked = {GROUP_BEING_DELETED: "yes"}
    deleted = a_group_content(uid="uid", **going, annotations=marked, status=UNREADY)
    assert [Delete] == steps(decided(deleted, classes=others))
    memory = Memory()
    memory.advance("uid", Event.DELETED, 0.0)
    assert [Release] == steps(decided(deleted, classes=others, memory=memory))
    lost = decided(a_group_content(**going, annotations={**marked, GROUP_BEING_CREATED: "yes"}), classes=others)
    assert {} == the(lost, Create).order.parameters


def snapshots(*volumes: str) -> list[csi.Snapshot]:
    return [csi.Snapshot(snapshot_id=f"h-{number}", source_volume_id=volume) for number, volume in enumerate(volumes)]


def test_a_group_whose_snapshots_can_not_be_told_apart_is_kept_to_be_deleted():
    after = answered(a_group_content(), group_snapshot_id="g", snapshots=snapshots("", ""), ready_to_use=True)
    status = as_json(after.status)
    assert ("g", False, ["h-0", "h-1"]) == (
        status["volumeGroupSnapshotHandle"],
        status["readyToUse"],
        [one["snapshotHandle"] for one in status["volumeSnapshotInfoList"]],
    )
    assert (True, True) == (after.unmarks, "the driver answered with snapshots of" in after.failure.error)
    going = a_group_content(deletionTimestamp=DELETED, annotations={GROUP_BEING_DELETED: "yes"})
    gone = answered(going, group_snapshot_id="g", snapshots=snapshots("", ""), ready_to_use=True)
    assert (after.status, True, True, None) == (gone.status, gone.unmarks, gone.again, gone.failure), (
        "one that goes is deleted at once"
    )


def test_a_driver_may_answer_again_in_another_spelling_and_the_first_handle_stays():
    told = {"group_snapshot_id": "G", "snapshots": snapshots("vol-a", "vol-b"), "ready_to_use": True}
    after = answered(a_group_content(status=UNREADY), **told)
    assert (None, "g", True) == (
        after.failure,
        after.status.volume_group_snapshot_handle,
        after.status.ready_to_use,
    )


@each_row("later", [[], [("h-0", "")], [("h-1", "vol-a"), ("h-0", "")], [("another", "vol-a")]])
def test_members_that_were_told_once_stay_whatever_a_later_answer_lacks(later):
    first = answered(a_group_content(), group_snapshot_id="g", snapshots=snapshots("vol-a", "vol-b"))
    unready = as_json(first.status)
    members = [csi.Snapshot(snapshot_id=handle, source_volume_id=volume) for handle, volume in later]
    after = answered(a_group_content(status=unready), group_snapshot_id="g", snapshots=members, ready_to_use=True)
    told = [(one["snapshotHandle"], one["volumeHandle"]) for one in as_json(after.status)["volumeSnapshotInfoList"]]
    assert ([("h-0", "vol-a"), ("h-1", "vol-b")], True, None) == (told, after.status.ready_to_use, after.failure)
    assert all(one["readyToUse"] for one in as_json(after.status)["volumeSnapshotInfoList"])


@each_row(
    ("content", "event"),
    [
        (a_group_content(), "GroupSnapshotCreationFailed"),
        (a_group_content(source=IMPORTED), "GroupSnapshotContentCheckandUpdateFailed"),
    ],
    ids=["S36", "S46"],
)
def test_an_answer_about_a_group_that_can_not_be_saved_is_told(content, event):
    failure = after_unsaved(typed(content), "Request entity too large")
    assert (event, True) == (
        failure.event,
        failure.error.endswith("the API server refused the driver's answer: Request entity too large"),
    )


def test_S39_an_imported_group_that_the_driver_never_told_of_is_left_on_the_storage_and_told():
    gone: Json = {
        "deletionTimestamp": DELETED,
        "finalizers": [GROUP_CONTENT_FINALIZER],
        "annotations": {GROUP_BEING_DELETED: "yes"},
    }
    decision = decided(a_group_content(source=IMPORTED, **gone))
    assert ([Tell, Release], "GroupSnapshotKept") == (steps(decision), the(decision, Tell).reason)


def test_S52_the_mark_of_a_group_goes_whatever_has_become_of_the_class():
    ready = a_group_content(status={**UNREADY, "readyToUse": True}, annotations={GROUP_BEING_CREATED: "yes"})
    assert [Unmark] == steps(decided(ready)) == steps(decided(ready, classes=(a_group_class(driver="other"),)))


def test_S35_an_error_about_a_group_names_content_and_class():
    text = refusal(decided(a_group_content(), classes=()))[1]
    missing = (
        "failed to get group snapshot class groupclass: volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "
        '"groupclass" not found'
    )
    assert (
        "Failed to create group snapshot: failed to get input parameters to create group snapshot for content "
        f"groupcontent: {missing}"
    ) == text
