"""The snapshotter's judgement as tables: one situation, one decision. Ids: docs/behaviours/snapshotter.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.api.snapshot_names import (
    BEING_CREATED,
    BEING_DELETED,
    CONTENT_FINALIZER,
    GROUP_HANDLE,
    SECRET_NAME,
    SECRET_NAMESPACE,
)
from mooring.control.decision import Decision
from mooring.sidecars.snapshotter import reasons as why
from mooring.sidecars.snapshotter.creation import FOREIGN_S, SECRET_GRACE_S, Event, Memory
from mooring.sidecars.snapshotter.decide_deletion import LINGER_S
from mooring.sidecars.snapshotter.decision import (
    Action,
    Ask,
    ClearStatus,
    Create,
    Delete,
    Failure,
    LoadSecret,
    LookUpClass,
    Mark,
    Release,
    Tell,
    Unmark,
    Way,
)
from mooring.sidecars.snapshotter.requests import CreateOrder, Made, snapshot_name
from tests.support.builders import DELETED, a_group_content, a_snapshot_class
from tests.support.rows import each_row
from tests.unit.snapshotter.situations import CUT, UNREADY, a_made_content, decided, steps, the

SECRET = {SECRET_NAME: "s", SECRET_NAMESPACE: "ns"}
PREFIX = "csi.storage.k8s.io/"
ERROR = {"readyToUse": False, "error": {"time": "2026-01-01T00:00:00Z", "message": "no"}}


def error_of(decision: Decision[Action]) -> tuple[str, str]:
    assert isinstance(decision.problem, Failure)
    assert not {Mark, Create, Ask, Delete} & set(steps(decision))
    return decision.problem.event, decision.problem.error


# -- creation


def test_S33_the_mark_comes_before_the_call():
    decision = decided(a_made_content(), classes=[a_snapshot_class(parameters={"colour": "red"})])
    assert (Mark(), Create(CreateOrder("snapshot-uid-snap", ("vol",), {"colour": "red"}))) == decision.actions


def test_S33_a_content_that_was_born_with_the_mark_saves_a_write():
    assert [Create] == steps(decided(a_made_content(annotations={BEING_CREATED: "yes"})))


def test_S33_reserved_parameters_are_kept_back():
    kinds = ("snapshotter", "snapshotter-list", "group-snapshotter", "group-snapshotter-get")
    ours = {f"{PREFIX}{kind}-secret-{what}": "x" for kind in kinds for what in ("name", "namespace")}
    decision = decided(a_made_content(), classes=[a_snapshot_class(parameters={**ours, "colour": "red"})])
    assert {"colour": "red"} == the(decision, Create).order.parameters


def test_S34_a_snapshot_that_is_not_ready_is_asked_for_by_the_same_name():
    assert [Create] == steps(decided(a_made_content(status=UNREADY)))


@each_row(
    ("able", "way"),
    [(["lists"], Way.LIST), (["gets"], Way.GET), (["gets", "lists"], Way.GET)],
)
def test_S34_or_by_a_question_where_the_driver_has_one(able, way):
    able = {f"{verb}_snapshots": True for verb in able}
    assert (Ask(Made("h"), way),) == decided(a_made_content(status=UNREADY), **able).actions
    assert [Mark, Create] == steps(decided(a_made_content(status=ERROR), **able)), (
        "without a handle there is nothing to ask for"
    )


def test_S34_a_snapshot_that_is_not_in_the_list_is_asked_for_by_its_name_again():
    memory = Memory()
    memory.change("content-uid", by_name=True)
    assert [Create] == steps(decided(a_made_content(status=UNREADY), lists_snapshots=True, memory=memory))


def test_S35_the_secret_is_read_before_the_mark():
    decision = decided(a_made_content(annotations=SECRET))
    assert [LoadSecret, Mark, Create] == steps(decision)
    assert SecretReference(name="s", namespace="ns") == the(decision, LoadSecret).ref


@each_row("notes", [{SECRET_NAME: "", SECRET_NAMESPACE: "ns"}, {SECRET_NAME: "s", SECRET_NAMESPACE: ""}])
def test_S35_an_empty_annotation_is_an_error(notes):
    event, text = error_of(decided(a_made_content(annotations=notes)))
    assert ("SnapshotCreationFailed", True) == (
        event,
        text.startswith("Failed to create snapshot: failed to get input parameters"),
    )


def test_S35_one_annotation_alone_names_no_secret():
    assert [Mark, Create] == steps(decided(a_made_content(annotations={SECRET_NAME: "s"})))


def test_a_missing_class_is_looked_up_and_told_without_a_mark():
    decision = decided(a_made_content(), classes=[])
    assert [LookUpClass] == steps(decision)
    assert 'volumesnapshotclass.snapshot.storage.k8s.io "snapclass" not found' in error_of(decision)[1]


@each_row("more", [{}, {"status": UNREADY}], ids=["nothing is known", "not ready"])
def test_a_content_of_no_snapshot_is_told_without_a_call(more):
    event, text = error_of(decided(a_made_content(ref_uid=None, **more)))
    assert ("SnapshotCreationFailed", True) == (
        event,
        text.endswith("snapshot content content is not bound to a snapshot"),
    )


def test_S44_a_class_of_another_driver():
    others, memory = [a_snapshot_class(driver="other")], Memory()
    first = decided(a_made_content(), classes=others, memory=memory)
    assert (why.Foreign("snapclass"), None, FOREIGN_S) == (first.because, first.problem, first.after_s)
    memory.note_class("content-uid", 0.0, is_foreign=True)
    memory.note_class("content-uid", 5.0, is_foreign=True)
    decision = decided(a_made_content(), classes=others, memory=memory, now=FOREIGN_S)
    assert (why.Foreign("snapclass"), True) == (
        decision.because,
        "its class snapclass is of driver other" in error_of(decision)[1],
    )
    memory.note_class("content-uid", FOREIGN_S, is_foreign=False)
    assert decided(a_made_content(), classes=others, memory=memory, now=FOREIGN_S + 1.0).problem is None
    assert decided(a_made_content(status={"snapshotHandle": "h", "readyToUse": True}), classes=others).problem is None


def test_S44_the_mark_of_a_creation_goes_whatever_has_become_of_the_class():
    content = a_made_content(status=CUT, annotations={BEING_CREATED: "yes"})
    assert [Unmark] == steps(decided(content, classes=[a_snapshot_class(driver="other")]))


def test_S44_such_a_content_can_be_deleted():
    """Nobody else would; and what became of its creation is found out without the other driver's parameters."""
    others = [a_snapshot_class(driver="other", parameters={"pool": "a"})]
    assert (Delete(Made("h")),) == decided(going(), classes=others).actions
    content = going(status=None, annotations={BEING_CREATED: "yes"})
    assert (Create(CreateOrder("snapshot-uid-snap", ("vol",), {})),) == decided(content, classes=others).actions
    unbound = imported(
        ref_uid=None, deletionTimestamp=DELETED, finalizers=["others"], status=CUT, volumeSnapshotClassName="snapclass"
    )
    assert (Delete(Made("h")),) == decided(unbound, classes=others).actions


def test_an_empty_handle_is_none():
    content = imported()
    content["spec"]["source"]["volumeHandle"] = ""
    assert [Ask] == steps(decided(content))
    content["spec"]["source"]["snapshotHandle"] = ""
    assert why.BadSource() == decided(content).because


def test_S48_the_names_of_the_objects_go_to_the_driver_on_request():
    parameters = the(decided(a_made_content(), extra_create_metadata=True), Create).order.parameters
    expected = {
        "volumesnapshot/name": "snap",
        "volumesnapshot/namespace": "default",
        "volumesnapshotcontent/name": "content",
    }
    assert {f"{PREFIX}{key}": value for key, value in expected.items()} == parameters


@each_row(
    ("length", "name"), [(-1, "p-01234567-89ab"), (8, "p-01234567"), (10, "p-0123456789"), (99, "p-0123456789ab")]
)
def test_S49_the_name_has_as_much_of_the_uid_as_is_wanted(length, name):
    assert name == snapshot_name("p", length, "01234567-89ab")


def test_S52_a_left_over_mark_goes_without_a_call():
    assert (Unmark(),) == decided(a_made_content(status=CUT, annotations={BEING_CREATED: "yes"})).actions
    assert () == decided(a_made_content(status=CUT)).actions


def test_S59_an_unknown_reserved_key_is_told_without_a_mark():
    decision = decided(a_made_content(), classes=[a_snapshot_class(parameters={f"{PREFIX}foo": "x"})])
    assert f'found unknown parameter key "{PREFIX}foo" with reserved namespace {PREFIX}' in error_of(decision)[1]
    assert () == decision.actions


# -- contents that were there before


def imported(**more: Any) -> Any:
    return a_made_content(**{"handle": "h", "volumeSnapshotClassName": None, **more})


@each_row(("able", "way"), [({}, Way.NONE), ({"lists_snapshots": True}, Way.LIST)])
def test_S45_S46_an_imported_snapshot_is_asked_for_as_far_as_the_driver_can(able, way):
    """And its capabilities are read anew each time."""
    assert (Ask(Made("h"), way, learn=True),) == decided(imported(), **able).actions


def test_S47_the_list_secret_is_that_of_the_class():
    named, placed = (f"{PREFIX}snapshotter-list-secret-{what}" for what in ("name", "namespace"))
    parameters = {named: "${volumesnapshotcontent.name}", placed: "ns"}
    content = imported(volumeSnapshotClassName="snapclass")
    decision = decided(content, classes=[a_snapshot_class(parameters=parameters)], lists_snapshots=True)
    assert SecretReference(name="content", namespace="ns") == the(decision, LoadSecret).ref
    broken = {**parameters, named: "${volumesnapshot.name}"}
    event, text = error_of(decided(content, classes=[a_snapshot_class(parameters=broken)], lists_snapshots=True))
    assert ("SnapshotContentCheckandUpdateFailed", True) == (event, "invalid tokens" in text)
    assert "failed to get snapshot class" in error_of(decided(content, classes=[], lists_snapshots=True))[1]


def test_a_mark_whose_removal_was_not_answered_is_set_again():
    memory, content = Memory(), a_made_content(annotations={BEING_CREATED: "yes"})
    assert Mark not in steps(decided(content, memory=memory))
    memory.change(content["metadata"]["uid"], mark_lost=True)
    assert [Mark, Create] == steps(decided(content, memory=memory))


# -- deletion


def going(**more: Any) -> Any:
    notes = {BEING_DELETED: "yes", **more.pop("annotations", {})}
    return a_made_content(**{"status": CUT, "annotations": notes, "deletionTimestamp": DELETED, **more})


def let_go(content: Any, waited_s: float = LINGER_S) -> Decision[Action]:
    """The decision so long after the driver has deleted the snapshot."""
    memory = Memory()
    memory.advance("content-uid", Event.DELETED, 100.0)
    return decided(content, memory=memory, now=100.0 + waited_s)


def test_S39_the_snapshot_is_deleted_then_the_finalizer_goes():
    assert (Delete(Made("h")),) == decided(going()).actions
    assert (Release(),) == let_go(going()).actions
    held = let_go(going(finalizers=[CONTENT_FINALIZER, "others"]))
    assert (ClearStatus(), Release()) == held.actions, "a status that stays must not name what is no more"
    marked = let_go(going(finalizers=[CONTENT_FINALIZER, "others"], annotations={BEING_CREATED: "yes"}))
    assert (Unmark(), ClearStatus(), Release()) == marked.actions, "nor a mark that would have it made once more"


def test_S31_the_content_stays_a_moment_for_those_who_delete_it_at_each_look():
    early = let_go(going(), waited_s=LINGER_S / 4)
    assert ((), pytest.approx(LINGER_S * 3 / 4)) == (early.actions, early.after_s)


def test_S39_secret_and_no_class():
    decision = decided(going(annotations=SECRET), classes=[])
    assert [LoadSecret, Delete] == steps(decision)


@each_row(
    "content",
    [
        pytest.param(going(policy="Retain"), id="S40-retain"),
        pytest.param(going(status=ERROR), id="S40-never-made"),
        pytest.param(
            going(status={**CUT, "volumeGroupSnapshotHandle": "g"}, annotations={GROUP_HANDLE: "g"}), id="S57-member"
        ),
    ],
)
def test_S40_S57_no_call_where_the_snapshot_stays(content):
    assert (Release(),) == decided(content).actions


def test_S39_an_import_that_the_driver_never_told_of_is_left_on_the_storage_and_told():
    decision = decided(going(status=None, handle="h"))
    assert ([Tell, Release], "SnapshotKept") == (steps(decision), the(decision, Tell).reason)


def test_S41_a_secret_that_stays_away_is_done_without_after_a_while():
    memory = Memory()
    memory.change("content-uid", secret_gone_at=100.0)
    content = going(annotations=SECRET)
    assert LoadSecret in steps(decided(content, memory=memory, now=100.0 + SECRET_GRACE_S - 1))
    decision = decided(content, memory=memory, now=100.0 + SECRET_GRACE_S)
    assert ([Tell, Delete], "SnapshotDeletedWithoutSecret") == (steps(decision), the(decision, Tell).reason)


def test_S42_an_unbound_import_goes_at_once():
    content = imported(ref_uid=None, deletionTimestamp=DELETED, finalizers=["others"], status=CUT)
    assert (Delete(Made("h")),) == decided(content).actions
    assert (ClearStatus(),) == let_go(content).actions


def test_S43_a_content_that_was_deleted_by_hand_waits_for_its_snapshot():
    assert () == decided(a_made_content(status=CUT, deletionTimestamp=DELETED)).actions
    assert () == decided(a_made_content(status=CUT, annotations={BEING_DELETED: "yes"})).actions, (
        "and a mark alone deletes nothing"
    )


def test_S38_an_open_outcome_is_found_out_before_the_end():
    content = going(status=None, annotations={BEING_CREATED: "yes"})
    assert (Create(CreateOrder("snapshot-uid-snap", ("vol",), {})),) == decided(content).actions


def test_S38_what_was_deleted_by_a_handle_that_could_not_be_saved_is_not_made_again():
    content, memory = going(status=None, annotations={BEING_CREATED: "yes"}), Memory()
    memory.advance("content-uid", Event.DELETED, 100.0)
    assert [Unmark] == steps(decided(content, memory=memory))
    alive = a_made_content(annotations={BEING_CREATED: "yes"})
    assert [Create] == steps(decided(alive, memory=memory)), "its API server was set back, and it is wanted again"


def test_S39_a_snapshot_that_was_made_once_more_is_deleted_once_more():
    """As after a set-back of the API server: what was deleted in the driver before is another one."""
    content, memory = going(), Memory()
    memory.advance("content-uid", Event.DELETED, 100.0)
    memory.advance("content-uid", Event.SENT, 100.0, {})
    memory.advance("content-uid", Event.ANSWERED, 100.0)
    assert [Delete] == steps(decided(content, memory=memory, now=200.0))


def test_S38_class_and_parameters_may_be_gone_by_then():
    content = going(status=None, annotations={BEING_CREATED: "yes"})
    assert [Create] == steps(decided(content, classes=[]))
    broken = a_snapshot_class(parameters={f"{PREFIX}foo": "x", "colour": "red"})
    assert {"colour": "red"} == the(decided(content, classes=[broken]), Create).order.parameters


def test_S38_and_the_secret_after_a_while():
    memory = Memory()
    memory.change("content-uid", secret_gone_at=0.0)
    content = going(status=None, annotations={BEING_CREATED: "yes", **SECRET})
    assert [LoadSecret, Create] == steps(decided(content, memory=memory, now=1.0))
    assert [Create] == steps(decided(content, memory=memory, now=SECRET_GRACE_S))


def test_S38_what_was_sent_is_sent_again_when_the_class_is_gone():
    content, memory = going(status=None, annotations={BEING_CREATED: "yes"}), Memory()
    memory.advance("content-uid", Event.SENT, 0.0, {"colour": "red"})
    assert {"colour": "red"} == the(decided(content, classes=[], memory=memory), Create).order.parameters
    assert {} == the(decided(content, memory=memory), Create).order.parameters, "the class may have been put right"


def test_S43_a_known_handle_needs_no_finding_out():
    assert (Delete(Made("h")),) == decided(going(annotations={BEING_CREATED: "yes"})).actions


def test_a_member_of_a_group_is_never_made_alone():
    assert why.Member() == decided(a_made_content(annotations={GROUP_HANDLE: "g"})).because


@each_row(
    ("shown", "expected"),
    [
        pytest.param([], why.Member(), id="not in the cache yet"),
        pytest.param([False], why.Member(), id="not ready"),
        pytest.param([True, False], why.Member(), id="one of two"),
        pytest.param([True], why.Checking("h", Way.NONE.value), id="ready"),
    ],
)
def test_S34_a_member_that_can_not_be_asked_for_waits_for_its_group(shown, expected):
    status = {**UNREADY, "volumeGroupSnapshotHandle": "g"}
    groups = [
        a_group_content(f"g{i}", status={"volumeGroupSnapshotHandle": "g", "readyToUse": ready})
        for i, ready in enumerate(shown)
    ]
    member = a_made_content(annotations={GROUP_HANDLE: "g"}, status=status)
    assert expected == decided(member, group_contents=groups, groups=True).because
    assert (
        why.Checking("h", Way.GET.value)
        == decided(member, group_contents=groups, groups=True, gets_snapshots=True).because
    )
