"""The judgement about one volume as tables: one situation, one step. Situations that whole lives go through are in the other files."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from mooring.api.core import AttachedVolume, ObjectReference
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.decide import CHECK_FRESH_S, decide_volume
from mooring.cluster.attachdetach.decide_report import is_current, report_of
from mooring.cluster.attachdetach.decision import (
    CheckNode,
    Create,
    Delete,
    LookUpAttachment,
    LookUpClass,
    MarkReports,
    Step,
    TakeSteps,
    Tell,
    VolumeAction,
)
from mooring.cluster.attachdetach.facts import NodeFacts, Place, Volume, Wish
from mooring.cluster.attachdetach.memory import Deletion, NodeRecord, Record, Told
from mooring.cluster.attachdetach.options import NEVER, AttachDetachOptions
from mooring.cluster.attachdetach.release import Rules, is_to_be_reported
from mooring.control.decision import Decision
from tests.support.builders import a_node, a_va, typed

NOW = 1000.0
UNIQUE = "kubernetes.io/csi/csi.test^h"
FRESH, STALE = NodeRecord(checked_at=NOW - CHECK_FRESH_S), NodeRecord(checked_at=NOW - CHECK_FRESH_S - 0.1)
DEAD = NodeFacts("n1", is_healthy=False)
GONE = NodeFacts("n1", is_there=False, is_healthy=False)
TAINTED = NodeFacts("n1", is_healthy=False, is_out_of_service=True)


def wish(name: str = "pod", *, created: str = "1", namespace: str = "default", **more: Any) -> Wish:
    return Wish(ObjectReference("v1", "Pod", namespace, name, f"uid-{name}"), "pv", created, **more)


def attachment(node: str = "n1", *, deleting: bool = False, **status: Any) -> VolumeAttachment:
    found: VolumeAttachment = typed(
        a_va("va", "pv", node, attacher="csi.test", uid="uid", status=status or None, deleting=deleting)
    )
    return found


ATTACHED, ATTACHING, ENDING = attachment(attached=True), attachment(), attachment(attached=True, deleting=True)


def place(node: NodeFacts | str = "n1", **facts: Any) -> Place:
    return Place(NodeFacts(node) if isinstance(node, str) else node, **{"node_record": FRESH, **facts})


def decided(
    *places: Place, options: AttachDetachOptions | None = None, classes: dict[str, Any] | None = None, **volume: Any
) -> Decision[VolumeAction]:
    found = Volume(UNIQUE, "csi.test", "h", places={one.node.name: one for one in places}, **volume)
    return decide_volume(found, Rules(options or AttachDetachOptions(), classes or {}), NOW)


def steps_of(decision: Decision[VolumeAction]) -> tuple[Step, ...]:
    (taken,) = [action for action in decision.actions if isinstance(action, TakeSteps)]
    return taken.steps


def actions(decision: Decision[VolumeAction], node: str = "n1") -> list[type]:
    return [type(action) for step in steps_of(decision) for action in step.actions if step.node == node]


FAILED = attachment(attachError={"message": "boom", "time": "t"})
UNWANTED = Record(unwanted_since=NOW - 400, unhealthy_since=NOW - 400)
YOUNG = Record(unwanted_since=NOW - 400, unhealthy_since=NOW - 300)

ROWS: dict[str, tuple[Place, list[type]]] = {
    "wanted": (place(wishes=(wish(),)), [Create]),
    "wanted-in-back-off": (place(wishes=(wish(),), record=Record(not_before=NOW + 1)), []),
    "wanted-post-unanswered": (place(wishes=(wish(),), record=Record(creating=True)), [LookUpAttachment]),
    "unwanted-post-unanswered": (place(record=Record(creating=True)), [LookUpAttachment]),
    "post-unanswered-in-back-off": (place(record=Record(creating=True, not_before=NOW + 1)), []),
    "wanted-post-may-come": (place(wishes=(wish(),), record=Record(open_posts=1, open_until=NOW + 1)), [Create]),
    "unwanted-post-may-come": (place(record=Record(open_posts=1, open_until=NOW + 1)), []),
    "unwanted-post-comes-no-more": (place(record=Record(open_posts=1, open_until=NOW)), [LookUpAttachment]),
    "may-be-wanted-post-may-come": (place(doubts=(wish().ref,), record=Record(open_posts=1, open_until=NOW + 1)), []),
    "may-be-wanted-post-comes-no-more": (
        place(doubts=(wish().ref,), record=Record(open_posts=1, open_until=NOW)),
        [LookUpAttachment],
    ),
    "may-be-wanted": (place(doubts=(wish().ref,)), []),
    "attaching": (place(wishes=(wish(),), attachment=ATTACHING, record=Record(waiting_since=NOW - 119)), []),
    "attaching-too-long": (
        place(wishes=(wish(),), attachment=ATTACHING, record=Record(waiting_since=NOW - 120)),
        [Tell],
    ),
    "attached": (place(wishes=(wish(),), attachment=ATTACHED, record=Record(waiting_since=NOW - 1)), [Tell]),
    "attached-before": (place(wishes=(wish(),), attachment=ATTACHED), []),
    "failed": (place(wishes=(wish(),), attachment=FAILED), [Tell]),
    "failed-and-told": (
        place(wishes=(wish(),), attachment=FAILED, record=Record(told={"error": Told("t boom", NOW - 599)})),
        [],
    ),
    "wanted-while-it-ends": (place(wishes=(wish(),), attachment=ENDING), [Tell]),
    "wanted-while-our-delete-is-under-way": (
        place(wishes=(wish(),), attachment=ATTACHED, deletion=Deletion("", NOW)),
        [Tell],
    ),
    "wanted-delete-unanswered": (
        place(wishes=(wish(),), attachment=ATTACHED, deletion=Deletion("", NOW, on_its_way=False, unanswered=True)),
        [Delete, Tell],  # an event that finds no room must not hold up the DELETE
    ),
    "wanted-delete-unanswered-reported-since": (
        place(
            wishes=(wish(),),
            attachment=ATTACHED,
            reported=True,
            deletion=Deletion("", NOW, False, True, NOW + 1, was_reported=True),
        ),
        [Tell],
    ),
    "delete-unanswered-mounted-since": (
        place(attachment=ATTACHED, mounted=True, deletion=Deletion("", NOW, False, True, NOW + 1, was_reported=True)),
        [],
    ),
    "delete-unanswered-mounted-since-and-open-no-more": (
        place(attachment=ATTACHED, mounted=True, deletion=Deletion("", NOW, False, True, NOW, was_reported=True)),
        [LookUpAttachment],
    ),
    "delete-unanswered-reported-since-and-let-go": (
        place(attachment=ATTACHED, deletion=Deletion("", NOW, False, True, NOW + 1, was_reported=True)),
        [Delete],
    ),
    "delete-unanswered-in-use-and-not-reported": (
        place(attachment=ATTACHED, mounted=True, deletion=Deletion("", NOW, False, True, NOW + 1)),
        [Delete],
    ),
    "wanted-of-another-volume": (place(wishes=(wish(),), attachment=ATTACHED, intact=False), [Tell]),
    "unwanted-of-another-volume": (place(attachment=ATTACHED, intact=False), []),
    "unwanted": (place(attachment=ATTACHED), [Delete]),
    "unwanted-never-attached": (place(attachment=ATTACHING), [Delete]),
    "unwanted-in-back-off": (place(attachment=ATTACHED, record=Record(not_before=NOW + 1)), []),
    "unwanted-reported": (place(attachment=ATTACHED, reported=True), []),
    "unwanted-report-unanswered": (place(attachment=ATTACHED, node_record=NodeRecord(checked_at=NOW, unsure=True)), []),
    "unwanted-report-under-way": (place(attachment=ATTACHED, node_record=NodeRecord(checked_at=NOW, writing=True)), []),
    "unwanted-not-asked-lately": (place(attachment=ATTACHED, node_record=STALE), [CheckNode]),
    "unwanted-node-gone": (place(GONE, attachment=ATTACHED), [Delete]),
    "unwanted-mounted": (place(attachment=ATTACHED, mounted=True, record=UNWANTED), []),
    "unwanted-mounted-dead": (
        place(DEAD, attachment=ATTACHED, mounted=True, record=UNWANTED, node_record=STALE),
        [Delete],
    ),
    "unwanted-mounted-dead-and-reported": (
        place(DEAD, attachment=ATTACHED, mounted=True, record=UNWANTED, reported=True),
        [],
    ),
    "unwanted-mounted-dead-not-long": (place(DEAD, attachment=ATTACHED, mounted=True, record=YOUNG), []),
    "unwanted-mounted-gone": (place(GONE, attachment=ATTACHED, mounted=True, record=UNWANTED), [Delete]),
    "unwanted-mounted-tainted": (
        place(TAINTED, attachment=ATTACHED, mounted=True, record=Record(unwanted_since=NOW)),
        [Delete],
    ),
    "wanted-mounted-tainted": (place(TAINTED, wishes=(wish(),), attachment=ATTACHED, mounted=True), []),
    "may-be-wanted-and-attached": (place(doubts=(wish().ref,), attachment=ATTACHED), []),
    "ending": (place(attachment=ENDING), []),
    "ending-by-our-delete": (place(attachment=ATTACHED, deletion=Deletion("", NOW)), []),
    "foreign": (place(foreign=("by-hand",)), []),
}


@pytest.mark.parametrize(("here", "expected"), ROWS.values(), ids=ROWS)
def test_the_step_of_one_node(here: Place, expected: list[type]) -> None:
    decision = decided(here)
    assert expected == actions(decision)
    assert str(decision.because)


def test_a_forced_delete_says_why() -> None:
    for node, why in ((DEAD, "timeout"), (TAINTED, "out-of-service")):
        decision = decided(place(node, attachment=ATTACHED, mounted=True, record=UNWANTED))
        assert (Delete("n1", "va", "uid", why),) == steps_of(decision)[0].actions
    (delete,) = steps_of(decided(place(DEAD, attachment=ATTACHED, record=UNWANTED)))[0].actions
    assert "" == delete.forced, "what is not mounted is not forced, however long it was unwanted"  # type: ignore[union-attr]


HOLDERS = {
    "attached": place("n2", wishes=(wish("b"),), attachment=attachment("n2", attached=True)),
    "unwanted": place("n2", attachment=attachment("n2", attached=True), mounted=True),
    "not-attached-yet": place("n2", wishes=(wish("b"),), attachment=attachment("n2")),
    "failed-to-detach": place("n2", attachment=attachment("n2", deleting=True, detachError={"message": "busy"})),
    "made-by-others": place("n2", foreign=("by-hand",)),
    "post-unanswered": place("n2", record=Record(creating=True, not_before=NOW + 1)),
    "post-may-come": place("n2", record=Record(open_posts=1, open_until=NOW + 1)),
    "of-an-older-pod": place("n2", wishes=(wish("b", created="0"),)),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_volume_for_one_node_waits_for_any_other_that_has_it_or_may_have_it(holder: Place) -> None:
    waiting = place(wishes=(wish("a", created="1"),))
    assert [Tell] == actions(decided(waiting, holder))
    if holder is not HOLDERS["of-an-older-pod"]:
        assert [Create] == actions(decided(waiting, holder, single_node=False))


@pytest.mark.parametrize("here", [place(), place(doubts=(wish().ref,))], ids=["unwanted", "may-be-wanted"])
def test_a_post_that_may_come_is_asked_for_when_it_can_not_come_any_more(here: Place) -> None:
    here.record.open_posts, here.record.open_until = 1, NOW + 7
    assert [7.0] == [step.wake_s for step in steps_of(decided(here))]


def test_of_two_nodes_the_one_of_the_older_pod_gets_the_volume() -> None:
    decision = decided(place("n1", wishes=(wish("a", created="2"),)), place("n2", wishes=(wish("b", created="1"),)))
    assert ([Tell], [Create]) == (actions(decision, "n1"), actions(decision, "n2"))


WAITS: dict[str, tuple[dict[str, Any], float | None]] = {
    "flag": ({}, 60.0),
    "no-flag": ({"options": AttachDetachOptions(force_after_s=NEVER)}, None),
    "driver": ({"driver_wait_s": 310.0}, 10.0),
    "class": ({"class_names": ("sc",), "classes": {"sc": (320.0, NOW)}, "driver_wait_s": 310.0}, 20.0),
    "class-says-nothing": ({"class_names": ("sc",), "classes": {"sc": (None, NOW)}, "driver_wait_s": 310.0}, 10.0),
    "class-never": ({"class_names": ("sc",), "classes": {"sc": (math.inf, NOW)}}, 61.0),
    "switched-off": ({"options": AttachDetachOptions(disable_force_detach=True), "driver_wait_s": 310.0}, None),
}


@pytest.mark.parametrize(("more", "wake_s"), WAITS.values(), ids=WAITS)
def test_the_time_until_a_detach_is_forced(more: dict[str, Any], wake_s: float | None) -> None:
    (step,) = steps_of(decided(place(DEAD, attachment=ATTACHED, mounted=True, record=YOUNG), **more))
    assert ((), wake_s) == (step.actions, step.wake_s)


@pytest.mark.parametrize(("read_at", "expected"), [(NOW - 60, []), (NOW - 61, [LookUpClass]), (None, [LookUpClass])])
def test_the_class_is_asked_before_a_node_that_is_not_ready_loses_a_volume(
    read_at: float | None, expected: list[type]
) -> None:
    classes = {} if read_at is None else {"sc": (None, read_at)}
    for record in (YOUNG, UNWANTED):
        dead = place(DEAD, attachment=ATTACHED, mounted=True, record=record)
        found = actions(decided(dead, class_names=("sc",), classes=classes))
        assert (expected or ([] if record is YOUNG else [Delete])) == found


def test_a_class_that_could_not_be_read_is_asked_again_after_a_back_off() -> None:
    record = msgspec.structs.replace(UNWANTED, not_before=NOW + 7)
    (step,) = steps_of(decided(place(DEAD, attachment=ATTACHED, mounted=True, record=record), class_names=("sc",)))
    assert ((), 7.0) == (step.actions, step.wake_s)


REPORTS = {
    "wanted": (place(wishes=(wish(),), attachment=ATTACHED), True),
    "may-be-wanted": (place(doubts=(wish().ref,), attachment=ATTACHED), True),
    "not-attached": (place(wishes=(wish(),), attachment=ATTACHING), False),
    "none": (place(wishes=(wish(),)), False),
    "ending": (place(wishes=(wish(),), attachment=ENDING), False),
    "our-delete-under-way": (place(wishes=(wish(),), attachment=ATTACHED, deletion=Deletion("", NOW)), False),
    "of-another-volume": (place(wishes=(wish(),), attachment=ATTACHED, intact=False), False),
    "unwanted": (place(attachment=ATTACHED, reported=True), False),
    "unwanted-mounted": (place(attachment=ATTACHED, reported=True, mounted=True), True),
    "unwanted-mounted-not-reported": (place(attachment=ATTACHED, mounted=True), False),
    "unwanted-mounted-forced": (place(TAINTED, attachment=ATTACHED, reported=True, mounted=True), False),
}


@pytest.mark.parametrize(("here", "expected"), REPORTS.values(), ids=REPORTS)
def test_a_node_reports_what_is_attached_and_wanted_or_in_use(here: Place, expected: bool) -> None:
    volume, rules = Volume(UNIQUE, "csi.test", "h", places={"n1": here}), Rules(AttachDetachOptions())
    assert expected is is_to_be_reported(volume, here, rules, NOW)
    marks = [action.nodes for action in decide_volume(volume, rules, NOW).actions if isinstance(action, MarkReports)]
    assert ([("n1",)] if expected != here.reported else []) == marks
    assert not is_to_be_reported(msgspec.structs.replace(volume, handle=""), here, rules, NOW), (
        "a volume whose name is lost"
    )


def test_a_report_keeps_others_and_drops_what_has_no_attachment() -> None:
    listed = [
        {"name": name, "devicePath": path}
        for name, path in (("kubernetes.io/iscsi/x", "/dev/x"), ("kubernetes.io/csi/d^gone", ""))
    ]
    node = typed(a_node("n1", volumesAttached=listed))
    volume = Volume(UNIQUE, "csi.test", "h", places={"n1": REPORTS["wanted"][0]})
    report = report_of(node, [volume], Rules(AttachDetachOptions()), NOW)
    assert (AttachedVolume(UNIQUE), AttachedVolume("kubernetes.io/iscsi/x", "/dev/x")) == report
    assert not is_current(node, report)
    turned = typed(a_node("n1", volumesAttached=[listed[0], {"name": UNIQUE, "devicePath": ""}]))
    assert is_current(turned, report), "the order of a Node's list tells nothing"
