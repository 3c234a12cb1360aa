"""The judgement about group contents, and what follows from the driver's answers, as tables. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.snapshotter.groups import reasons as why
from mooring.controllers.snapshotter.groups.decide import decide_group_content
from mooring.controllers.snapshotter.groups.decide_after import after_answered, after_unsaved, as_json
from mooring.controllers.snapshotter.groups.decision import Ask, Create, Decision, Delete, Mark, Release
from mooring.controllers.snapshotter.groups.matching import Matching, matched
from mooring.controllers.snapshotter.groups.view import CONTENT_INDEXES, View
from mooring.controllers.snapshotter.memory import Memory
from mooring.controllers.snapshotter.options import SnapshotterOptions
from mooring.controllers.snapshotting.names import GROUP_BEING_CREATED, GROUP_BEING_DELETED, GROUP_CONTENT_FINALIZER
from mooring.csi.proto import csi_pb2 as csi
from tests.support.builders import DELETED, DRIVER, Json, a_group_class, a_group_content, typed
from tests.support.constant_store import ConstantStore
from tests.unit.snapshotter.situations import steps, the

IMPORTED = {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "g", "volumeSnapshotHandles": ["h"]}}
UNREADY = {"volumeGroupSnapshotHandle": "g", "readyToUse": False}


def decided(content: Json, *, classes: tuple[Json, ...] = (a_group_class(),), memory: Memory | None = None) -> Decision:
    contents = ConstantStore([typed(content)], CONTENT_INDEXES)
    view = View(
        DRIVER, contents, ConstantStore(map(typed, classes)), memory or Memory(), SnapshotterOptions(groups=True), ConstantStore([])
    )
    return decide_group_content(view, "groupcontent", 0.0)


def refusal(decision: Decision) -> tuple[str, str]:
    assert decision.failure is not None
    assert () == decision.actions
    return decision.failure.event, decision.failure.error


def answered(content: Json, **group: Any) -> Any:
    told, wanted = csi.VolumeGroupSnapshot(**group), typed(content).spec.source.volume_handles
    matching = Matching(tuple(one.source_volume_id for one in told.snapshots))
    return after_answered(typed(content), told, matching if wanted is None else matched(wanted, told.snapshots, lambda name: False), 42)


def test_a_group_content_of_no_group_is_told_without_a_call():
    event, text = refusal(decided(a_group_content(ref_uid=None)))
    assert ("GroupSnapshotCreationFailed", True) == (event, text.endswith("content groupcontent is not bound to a group snapshot"))
    assert [Mark, Create] == steps(decided(a_group_content()))


def test_S34_an_unready_group_is_asked_for_and_made_again_where_the_driver_does_not_tell():
    content = a_group_content(uid="uid", status=UNREADY)
    assert [Ask] == steps(decided(content))
    memory = Memory()
    memory.change("uid", unlisted=True)
    again = decided(content, memory=memory)
    assert ([Create], "groupsnapshot-uid-group") == (steps(again), the(again, Create).order.name)
    imported = a_group_content(uid="uid", source=IMPORTED)
    assert [Ask] == steps(decided(imported, memory=memory)), "an imported one can't be made"


def test_an_imported_group_whose_class_is_missing_is_told_without_a_call():
    event, text = refusal(decided(a_group_content(source=IMPORTED), classes=()))
    missing = 'volumegroupsnapshotclass.groupsnapshot.storage.k8s.io "groupclass" not found'
    assert ("GroupSnapshotContentCheckandUpdateFailed", True) == (
        event,
        text.endswith(f"snapshot content groupcontent: {missing}"),
    )
    unnamed = a_group_content(source=IMPORTED, volumeGroupSnapshotClassName=None)
    assert why.Asking("g") == decided(unnamed, classes=()).because, "it needs none"


def test_an_imported_group_keeps_its_handle_and_no_members_are_no_list():
    after = answered(a_group_content(source=IMPORTED), ready_to_use=True)
    assert {"volumeGroupSnapshotHandle": "g", "creationTime": "1970-01-01T00:00:00Z", "readyToUse": True} == as_json(after.status)
    assert "g" == as_json(answered(a_group_content(source=IMPORTED), group_snapshot_id="another").status)["volumeGroupSnapshotHandle"]
    assert "without an id" in answered(a_group_content()).failure.error, "one that was made has to have one"


def test_S44_a_group_content_with_a_class_of_another_driver_can_be_deleted_and_no_more():
    others = (a_group_class(driver="other", parameters={"pool": "a"}),)
    decision = decided(a_group_content(), classes=others)
    assert (why.Foreign("groupclass"), True) == (decision.because, "its class groupclass is of driver other" in decision.failure.error)
    going: Json = {"deletionTimestamp": DELETED, "finalizers": [GROUP_CONTENT_FINALIZER]}
    marked = {GROUP_BEING_DELETED: "yes"}
    assert [Delete, Release] == steps(decided(a_group_content(**going, annotations=marked, status=UNREADY), classes=others))
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
    assert (after.status, True, True, None) == (gone.status, gone.unmarks, gone.again, gone.failure), "one that goes is deleted at once"


@pytest.mark.parametrize("status", [None, UNREADY])
def test_a_group_of_other_volumes_is_not_taken(status):
    after = answered(a_group_content(status=status), group_snapshot_id="g", snapshots=snapshots("vol-a", "elsewhere"))
    assert "volumeGroupSnapshotHandle" not in (as_json(after.status) or {})
    assert (True, True, True) == (after.unmarks, after.nothing_made, '"g" is left alone' in after.failure.error)


def test_a_second_handle_does_not_take_the_place_of_the_first():
    after = answered(a_group_content(status=UNREADY), group_snapshot_id="another", snapshots=snapshots("vol-a", "vol-b"))
    assert (None, True) == (after.status, 'had answered with "g"' in after.failure.error)


@pytest.mark.parametrize(
    ("content", "event"),
    [
        (a_group_content(), "GroupSnapshotCreationFailed"),
        (a_group_content(source=IMPORTED), "GroupSnapshotContentCheckandUpdateFailed"),
    ],
    ids=["S36", "S46"],
)
def test_an_answer_about_a_group_that_can_not_be_saved_is_told(content, event):
    failure = after_unsaved(typed(content), "Request entity too large")
    assert (event, True) == (failure.event, failure.error.endswith("the API server refused the driver's answer: Request entity too large"))
