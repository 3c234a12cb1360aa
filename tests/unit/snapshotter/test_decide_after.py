"""What follows from the driver's answers, as a table. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.snapshot_names import BEING_CREATED, BEING_DELETED, GROUP_HANDLE
from mooring.csi.errors import NON_FINAL, DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.sidecars.snapshotter.creation import GIVE_UP_S, NEXT, State, event_of
from mooring.sidecars.snapshotter.decide_after import (
    after_asked,
    after_believed,
    after_created,
    after_refused,
    after_unsaved,
    as_json,
)
from mooring.sidecars.snapshotter.requests import CreateOrder
from mooring.wire.grpc.codes import Code
from tests.support.builders import DELETED, typed
from tests.support.rows import each_row
from tests.unit.snapshotter.situations import CREATED_NS, CUT, UNREADY, a_made_content

NOW_NS = 42
ORDER = CreateOrder("snapshot-uid", ("vol",), {})
ERROR = {"time": "2026-01-01T00:00:00Z", "message": "no"}


def snapshot(**fields: Any) -> csi.Snapshot:
    made = csi.Snapshot(
        **{"snapshot_id": "h", "source_volume_id": "vol", "size_bytes": 1 << 30, "ready_to_use": True, **fields}
    )
    if "creation_time" not in fields:
        made.creation_time.seconds = CREATED_NS // 10**9
    return made


def created(said: csi.Snapshot, status: Any = None) -> Any:
    return after_created(typed(a_made_content(status=status)), said, NOW_NS)


def refused(error: DriverError, *, going: bool = False, state: State = State.FIRST, deletion_s: float = 0.0) -> Any:
    notes = {BEING_CREATED: "yes", **({BEING_DELETED: "yes"} if going else {})}
    content = a_made_content(annotations=notes, **({"deletionTimestamp": DELETED} if going else {}))
    outcome = NEXT[state, event_of(error, deletion_s if going else None)].outcome
    return after_refused(typed(content), ORDER, error, outcome)


def test_S33_a_ready_snapshot_is_told_of_and_unmarked():
    after = created(snapshot())
    assert (CUT, True, None) == (as_json(after.status), after.unmarks, after.failure)


def test_S34_an_unready_one_is_unmarked_too_and_asked_for_later():
    after = created(snapshot(ready_to_use=False))
    assert (UNREADY, True, True, True) == (as_json(after.status), after.unmarks, after.polls, after.news)
    again = created(snapshot(ready_to_use=False), UNREADY)
    assert (None, True, False) == (again.status, again.polls, again.news)


def test_S38_a_snapshot_that_is_given_up_is_not_waited_for():
    content = typed(a_made_content(annotations={BEING_CREATED: "yes", BEING_DELETED: "yes"}, deletionTimestamp=DELETED))
    after = after_created(content, snapshot(ready_to_use=False), NOW_NS)
    assert (True, False) == (after.again, after.polls)
    by_hand = typed(a_made_content(annotations={BEING_CREATED: "yes"}, deletionTimestamp=DELETED))
    assert after_created(by_hand, snapshot(ready_to_use=False), NOW_NS).polls


def test_S34_time_size_and_handle_are_written_once():
    later = snapshot(size_bytes=7)
    later.creation_time.seconds += 5
    assert CUT == as_json(created(later, UNREADY).status)


def test_an_error_goes_with_the_first_good_answer():
    assert UNREADY == as_json(created(snapshot(ready_to_use=False), {"readyToUse": False, "error": ERROR}).status)


@each_row(
    ("said", "changes"),
    [
        (snapshot(size_bytes=0), {"restoreSize": None}),
        (snapshot(size_bytes=-1), {"restoreSize": None}),
        (snapshot(creation_time=None), {"creationTime": NOW_NS}),
    ],
)
def test_what_the_driver_does_not_say_is_not_made_up(said, changes):
    """But a time is needed: that of the answer, where 1970 would be read from a missing one."""
    if "creationTime" in changes:
        said.ClearField("creation_time")
    wanted = {key: value for key, value in {**CUT, **changes}.items() if value is not None}
    assert wanted == as_json(created(said).status)


def test_a_time_that_does_not_fit_is_none():
    said = snapshot()
    said.creation_time.seconds = 253_402_300_799
    assert NOW_NS == as_json(created(said).status)["creationTime"]


def test_an_answer_without_id_leaves_the_outcome_open():
    after = created(snapshot(snapshot_id=""))
    assert (None, False) == (after.status, after.unmarks)
    assert "without snapshot_id" in after.failure.error


@each_row("told", ["other", "VOL", "", "a/path/of/vol", "0f3a"])
def test_the_snapshot_is_the_contents_whatever_the_driver_names_as_its_source(told):
    for after in (
        created(snapshot(source_volume_id=told)),
        after_asked(typed(a_made_content(status=UNREADY)), "h", snapshot(source_volume_id=told), NOW_NS),
    ):
        assert (CUT, None) == (as_json(after.status), after.failure)


def test_an_import_keeps_its_handle_however_the_driver_spells_it():
    after = after_asked(typed(a_made_content(handle="h")), "h", snapshot(snapshot_id="H"), NOW_NS)
    assert "h" == as_json(after.status)["snapshotHandle"]


def test_a_driver_may_answer_again_in_another_spelling_and_the_first_handle_stays():
    after = created(snapshot(snapshot_id="ANOTHER", ready_to_use=True), UNREADY)
    assert (None, UNREADY["snapshotHandle"], True) == (
        after.failure,
        after.status.snapshot_handle,
        after.status.ready_to_use,
    )


@each_row("code", [code for code in Code if code not in NON_FINAL and code is not Code.OK])
def test_S36_a_final_refusal_ends_the_doubt(code):
    after = refused(DriverError(code, "no"))
    text = f'Failed to create snapshot: failed to take snapshot of the volume vol: "{DriverError(code, "no")}"'
    assert (True, "SnapshotCreationFailed", text) == (after.unmarks, after.failure.event, after.failure.error)


@each_row("code", sorted(NON_FINAL))
def test_S37_an_open_one_keeps_the_mark(code):
    after = refused(DriverError(code, "perhaps"), going=True)
    assert (False, False, True) == (after.unmarks, after.again, after.failure is not None)


def test_S38_a_final_refusal_lets_a_deleted_content_go():
    after = refused(DriverError(Code.INTERNAL, "no"), going=True)
    assert (True, True, None) == (after.unmarks, after.again, after.failure)


@each_row("code", [code for code in Code if code not in NON_FINAL and code is not Code.OK])
@each_row("going", [False, True])
def test_S36_S38_a_refusal_says_nothing_of_the_request_before(code, going):
    """Drivers judge a request before they look up its name."""
    after = refused(DriverError(code, "no"), going=going, state=State.PERHAPS)
    assert (False, False) == (after.unmarks, after.again)
    assert str(DriverError(code, "no")) in after.failure.error
    assert going == (f"take the annotation {BEING_CREATED} off" in after.failure.error)


def test_S38_a_refusal_that_can_not_be_read_keeps_the_mark():
    """The driver said OK."""
    assert not refused(DriverError(Code.INTERNAL, "unreadable", answered=True), going=True).unmarks


def test_S38_what_nobody_will_find_out_is_given_up_with_a_warning():
    after = refused(DriverError(Code.NOT_FOUND, "no"), going=True, state=State.PERHAPS, deletion_s=GIVE_UP_S)
    assert (True, True, None) == (after.unmarks, after.again, after.failure)
    assert (
        'an earlier request may have made snapshot "snapshot-uid" of the volume vol, which is not deleted' in after.kept
    )


def test_S45_a_driver_that_can_not_be_asked_is_believed():
    after = after_believed(typed(a_made_content(handle="h")), "h", NOW_NS)
    assert {"snapshotHandle": "h", "readyToUse": True, "creationTime": NOW_NS} == as_json(after.status)


def test_S46_a_snapshot_that_the_driver_does_not_know():
    after = after_asked(typed(a_made_content(handle="h")), "h", None, NOW_NS)
    assert "Failed to check and update snapshot content: can not find snapshot for snapshotID h" == after.failure.error
    assert CUT == as_json(after_asked(typed(a_made_content(handle="h")), "h", snapshot(), NOW_NS).status)


@each_row(
    ("content", "group"),
    [
        pytest.param(a_made_content(handle="h"), "g", id="imported"),
        pytest.param(
            a_made_content(handle="h", status={**UNREADY, "volumeGroupSnapshotHandle": "before"}), "before", id="known"
        ),
        pytest.param(a_made_content(status=UNREADY, annotations={GROUP_HANDLE: "g"}), "g", id="member"),
        pytest.param(a_made_content(status=UNREADY), None, id="made alone"),
    ],
)
def test_the_group_of_a_listed_snapshot_is_learnt(content, group):
    after = after_asked(typed(content), "h", snapshot(group_snapshot_id="g"), NOW_NS)
    assert {**CUT, **({"volumeGroupSnapshotHandle": group} if group else {})} == as_json(after.status)


@each_row(
    ("content", "event"),
    [(a_made_content(), "SnapshotCreationFailed"), (a_made_content(handle="h"), "SnapshotContentCheckandUpdateFailed")],
    ids=["S36", "S46"],
)
def test_an_answer_that_can_not_be_saved_is_told(content, event):
    failure = after_unsaved(typed(content), "Request entity too large")
    assert (event, True) == (
        failure.event,
        failure.error.endswith("the API server refused the driver's answer: Request entity too large"),
    )
