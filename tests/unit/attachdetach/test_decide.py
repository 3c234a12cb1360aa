"""The judgement about one volume as tables: one situation, one step. Situations that whole lives go through are in the
other files.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from mooring.api.core import AttachedVolume, ObjectReference
from mooring.api.storage import VolumeAttachment
from mooring.cluster.attachdetach.decide import decide
from mooring.cluster.attachdetach.decide_report import is_current, report_of
from mooring.cluster.attachdetach.decision import (
    Action,
    CheckNode,
    Create,
    Delete,
    EndWait,
    Fence,
    LookUpAttachment,
    LookUpClass,
    MarkReport,
    MarkWait,
    NoteBlock,
    Tell,
)
from mooring.cluster.attachdetach.facts import NodeFacts, Place, Volume, Wish
from mooring.cluster.attachdetach.memory import Deletion, NodeRecord, Record
from mooring.cluster.attachdetach.options import NEVER, AttachDetachOptions
from mooring.cluster.attachdetach.release import Rules, is_to_be_reported
from mooring.cluster.attachdetach.silence import WAITS_SINCE
from mooring.control.decision import Decision
from tests.support.builders import a_node, a_va, typed
from tests.support.rows import each_row

NOW = 1000.0
UNIQUE = "kubernetes.io/csi/csi.test^h"
READ, UNREAD = NodeRecord(is_read=True), NodeRecord()
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
    """Of an attachment that this process has made, on a node that it has read."""
    return Place(
        NodeFacts(node) if isinstance(node, str) else node,
        **{"node_record": READ, "record": Record(fenced_uid="uid"), **facts},
    )


def decided(
    here: Place,
    *rivals: Place,
    options: AttachDetachOptions | None = None,
    classes: dict[str, Any] | None = None,
    **volume: Any,
) -> Decision[Action]:
    found = Volume(UNIQUE, "csi.test", "h", here, rivals=rivals, **volume)
    return decide(found, Rules(options or AttachDetachOptions(), classes or {}), NOW)


def actions(decision: Decision[Action]) -> list[type]:
    """Without what concerns the report."""
    return [type(action) for action in decision.actions if not isinstance(action, MarkReport)]


FAILED = attachment(attachError={"message": "boom", "time": "t"})
LONG, YOUNG = {"mounted": True, "waited_s": 400.0}, {"mounted": True, "waited_s": 300.0}
MARKED = typed(
    a_va("va", "pv", "n1", attacher="csi.test", uid="uid", status={"attached": True}, annotations={WAITS_SINCE: "then"})
)

ROWS: dict[str, tuple[Place, list[type]]] = {
    "wanted": (place(wishes=(wish(),)), [Create]),
    "wanted-post-unanswered": (place(wishes=(wish(),), record=Record(creating=True)), [LookUpAttachment]),
    "unwanted-post-unanswered": (place(record=Record(creating=True)), [LookUpAttachment]),
    "may-be-wanted": (place(doubts=(wish().ref,)), []),
    "attaching": (place(wishes=(wish(),), attachment=ATTACHING, record=Record(waiting_since=NOW - 119)), []),
    "attaching-too-long": (
        place(wishes=(wish(),), attachment=ATTACHING, record=Record(waiting_since=NOW - 120)),
        [Tell],
    ),
    "attached": (
        place(wishes=(wish(),), attachment=ATTACHED, record=Record(waiting_since=NOW - 1, fenced_uid="uid")),
        [EndWait],
    ),
    "attached-before": (place(wishes=(wish(),), attachment=ATTACHED), []),
    "failed": (place(wishes=(wish(),), attachment=FAILED), [Tell]),
    "failed-in-an-earlier-attempt": (
        place(wishes=(wish(),), attachment=FAILED, record=Record(old_error="t boom", seen_since=NOW - 1)),
        [],
    ),
    "blocked-no-longer": (place(wishes=(wish(),), record=Record(blocked_by="pod")), [NoteBlock, Create]),
    "wanted-while-it-ends": (place(wishes=(wish(),), attachment=ENDING), [Tell]),
    "wanted-while-our-delete-is-not-seen-yet": (
        place(wishes=(wish(),), attachment=ATTACHED, deletion=Deletion(NOW, answered=True)),
        [Tell],
    ),
    "wanted-and-found": (place(wishes=(wish(),), attachment=ATTACHED, record=Record()), [Fence]),
    "may-be-wanted-and-found": (place(doubts=(wish().ref,), attachment=ATTACHED, record=Record()), [Fence]),
    "wanted-and-found-reported": (place(wishes=(wish(),), attachment=ATTACHED, record=Record(), reported=True), []),
    "wanted-and-found-not-attached": (place(wishes=(wish(),), attachment=ATTACHING, record=Record()), []),
    "wanted-delete-unanswered": (
        place(wishes=(wish(),), attachment=ATTACHED, record=Record(), deletion=Deletion(NOW)),
        [Fence],
    ),
    "wanted-delete-unanswered-reported-since": (
        place(wishes=(wish(),), attachment=ATTACHED, record=Record(), reported=True, deletion=Deletion(NOW)),
        [Fence],
    ),
    "unwanted-delete-unanswered": (place(attachment=ATTACHED, record=Record(), deletion=Deletion(NOW)), [Delete]),
    "unwanted-delete-unanswered-mounted-since": (
        place(attachment=ATTACHED, record=Record(), mounted=True, deletion=Deletion(NOW)),
        [Fence],
    ),
    "unwanted-delete-by-force-unanswered": (
        place(DEAD, attachment=ATTACHED, record=Record(), deletion=Deletion(NOW), **LONG),
        [Delete],
    ),
    "wanted-of-another-volume": (place(wishes=(wish(),), attachment=ATTACHED, intact=False), [Tell]),
    "unwanted-of-another-volume": (place(attachment=ATTACHED, intact=False), []),
    "unwanted": (place(attachment=ATTACHED), [Delete]),
    "unwanted-never-attached": (place(attachment=ATTACHING), [Delete]),
    "unwanted-reported": (place(attachment=ATTACHED, reported=True), []),
    "unwanted-report-unanswered": (place(attachment=ATTACHED, node_record=NodeRecord(is_read=True, unsure=True)), []),
    "unwanted-report-under-way": (place(attachment=ATTACHED, node_record=NodeRecord(is_read=True, writing=True)), []),
    "unwanted-node-not-read": (place(attachment=ATTACHED, node_record=UNREAD), [CheckNode]),
    "unwanted-node-gone": (place(GONE, attachment=ATTACHED), [Delete]),
    "unwanted-mounted": (place(attachment=ATTACHED, **LONG), []),
    "unwanted-mounted-and-marked": (place(attachment=MARKED, mounted=True), [MarkWait]),
    "unwanted-mounted-dead-unmarked": (place(DEAD, attachment=ATTACHED, mounted=True), [MarkWait]),
    "wanted-and-marked": (place(wishes=(wish(),), attachment=MARKED, mounted=True), [MarkWait]),
    "unwanted-mounted-dead": (
        place(DEAD, attachment=ATTACHED, node_record=UNREAD, **LONG),
        [Delete],
    ),
    "unwanted-mounted-dead-and-reported": (
        place(DEAD, attachment=ATTACHED, reported=True, **LONG),
        [],
    ),
    "unwanted-mounted-dead-not-long": (place(DEAD, attachment=ATTACHED, **YOUNG), []),
    "unwanted-mounted-gone": (place(GONE, attachment=ATTACHED, **LONG), [Delete]),
    "unwanted-mounted-tainted": (
        place(TAINTED, attachment=ATTACHED, mounted=True),
        [Delete],
    ),
    "wanted-mounted-tainted": (place(TAINTED, wishes=(wish(),), attachment=ATTACHED, mounted=True), []),
    "may-be-wanted-and-attached": (place(doubts=(wish().ref,), attachment=ATTACHED), []),
    "ending": (place(attachment=ENDING), []),
    "ending-by-our-delete": (place(attachment=ATTACHED, deletion=Deletion(NOW, answered=True)), []),
    "foreign": (place(foreign=("by-hand",)), []),
}


@each_row(("here", "expected"), ROWS.values(), ids=ROWS)
def test_the_step_of_one_node(here: Place, expected: list[type]) -> None:
    decision = decided(here)
    assert expected == actions(decision)
    assert str(decision.because)


def test_a_forced_delete_says_why() -> None:
    for node, why in ((DEAD, "timeout"), (TAINTED, "out-of-service")):
        assert (Delete(ATTACHED, why),) == decided(place(node, attachment=ATTACHED, **LONG)).actions
    decision = decided(place(DEAD, attachment=ATTACHED, waited_s=400.0))
    assert (Delete(ATTACHED, ""),) == decision.actions, "what is not mounted is not forced, however long unwanted"


HOLDERS = {
    "attached": place("n2", wishes=(wish("b"),), attachment=attachment("n2", attached=True)),
    "unwanted": place("n2", attachment=attachment("n2", attached=True), mounted=True),
    "not-attached-yet": place("n2", wishes=(wish("b"),), attachment=attachment("n2")),
    "failed-to-detach": place("n2", attachment=attachment("n2", deleting=True, detachError={"message": "busy"})),
    "made-by-others": place("n2", foreign=("by-hand",)),
    "post-unanswered": place("n2", record=Record(creating=True)),
}


@each_row("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_volume_for_one_node_waits_for_any_other_that_has_it_or_may_have_it(holder: Place) -> None:
    waiting = place(wishes=(wish("a", created="1"),))
    assert [NoteBlock, Tell] == actions(decided(waiting, holder))


WAITS: dict[str, tuple[dict[str, Any], float | None]] = {
    "flag": ({}, 60.0),
    "no-flag": ({"options": AttachDetachOptions(force_after_s=NEVER)}, None),
    "driver": ({"driver_wait_s": 310.0}, 10.0),
    "class": ({"class_names": ("sc",), "classes": {"sc": (320.0, NOW)}, "driver_wait_s": 310.0}, 20.0),
    "class-says-nothing": ({"class_names": ("sc",), "classes": {"sc": (None, NOW)}, "driver_wait_s": 310.0}, 10.0),
    "class-never": ({"class_names": ("sc",), "classes": {"sc": (math.inf, NOW)}}, 61.0),
    "switched-off": ({"options": AttachDetachOptions(disable_force_detach=True), "driver_wait_s": 310.0}, None),
}


@each_row(("more", "wake_s"), WAITS.values(), ids=WAITS)
def test_the_time_until_a_detach_is_forced(more: dict[str, Any], wake_s: float | None) -> None:
    decision = decided(place(DEAD, attachment=ATTACHED, **YOUNG), **more)
    assert ((), wake_s) == (decision.actions, decision.after_s)


@each_row(
    ("read_at", "waited", "expected"),
    [
        (NOW - 60, YOUNG, []),
        (NOW - 61, YOUNG, [LookUpClass]),
        (None, YOUNG, [LookUpClass]),
        (NOW - 600, LONG, [Delete]),
        (None, LONG, [LookUpClass]),
    ],
)
def test_the_class_is_asked_before_a_node_that_is_not_ready_loses_a_volume(
    read_at: float | None, waited: dict[str, Any], expected: list[type]
) -> None:
    """Before the DELETE it is read once more, however long ago that was."""
    classes = {} if read_at is None else {"sc": (None, read_at)}
    dead = place(DEAD, attachment=ATTACHED, **waited)
    assert expected == actions(decided(dead, class_names=("sc",), classes=classes))


REPORTS = {
    "wanted": (place(wishes=(wish(),), attachment=ATTACHED), True),
    "may-be-wanted": (place(doubts=(wish().ref,), attachment=ATTACHED), True),
    "not-attached": (place(wishes=(wish(),), attachment=ATTACHING), False),
    "none": (place(wishes=(wish(),)), False),
    "ending": (place(wishes=(wish(),), attachment=ENDING), False),
    "our-delete-under-way": (
        place(wishes=(wish(),), attachment=ATTACHED, record=Record(), deletion=Deletion(NOW)),
        False,
    ),
    "found": (place(wishes=(wish(),), attachment=ATTACHED, record=Record()), False),
    "of-another-volume": (place(wishes=(wish(),), attachment=ATTACHED, intact=False), False),
    "unwanted": (place(attachment=ATTACHED, reported=True), False),
    "unwanted-mounted": (place(attachment=ATTACHED, reported=True, mounted=True), True),
    "unwanted-mounted-not-reported": (place(attachment=ATTACHED, mounted=True), False),
    "unwanted-mounted-forced": (place(TAINTED, attachment=ATTACHED, reported=True, mounted=True), False),
}


@each_row(("here", "expected"), REPORTS.values(), ids=REPORTS)
def test_a_node_reports_what_is_attached_and_wanted_or_in_use(here: Place, expected: bool) -> None:
    volume, rules = Volume(UNIQUE, "csi.test", "h", here), Rules(AttachDetachOptions())
    assert expected is is_to_be_reported(volume, rules)
    assert (expected != here.reported) == (MarkReport() in decide(volume, rules, NOW).actions)
    assert not is_to_be_reported(msgspec.structs.replace(volume, handle=""), rules), "a volume whose name is lost"


def test_a_report_keeps_others_and_drops_what_has_no_attachment() -> None:
    listed = [
        {"name": name, "devicePath": path}
        for name, path in (("kubernetes.io/iscsi/x", "/dev/x"), ("kubernetes.io/csi/d^gone", ""))
    ]
    node = typed(a_node("n1", volumesAttached=listed))
    volume = Volume(UNIQUE, "csi.test", "h", REPORTS["wanted"][0])
    report = report_of(node, [volume], [], Rules(AttachDetachOptions()))
    assert (AttachedVolume(UNIQUE), AttachedVolume("kubernetes.io/iscsi/x", "/dev/x")) == report
    assert not is_current(node, report)
    turned = typed(a_node("n1", volumesAttached=[listed[0], {"name": UNIQUE, "devicePath": ""}]))
    assert is_current(turned, report), "the order of a Node's list tells nothing"
