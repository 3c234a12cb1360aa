"""What is written to claims and volumes, as tables: only what differs, and nobody else's conditions."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.csi.errors import DriverError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.expansion import reconcile as growth
from mooring.sidecars.resizer.expansion.decide import After, Mark
from mooring.sidecars.resizer.modification import reconcile as classes
from mooring.sidecars.resizer.modification.decide import decide_after
from mooring.wire.grpc.codes import Code
from tests.support.builders import typed
from tests.support.resizing import INFEASIBLE, NODE_PENDING, PROGRESS, condition
from tests.support.rows import each_row
from tests.unit.resizer.views import claim_body, facts, pv_body

NOW = "2026-01-01T00:00:00Z"
STARTED = {"reason": "ResizeStarted", "message": "Volume pv is to grow to 2Gi"}
RESIZING = condition(names.RESIZING, **STARTED)
TEXT = "failed to expand pvc with rpc error: code = Internal desc = no"
ERROR = condition(names.CONTROLLER_ERROR, reason="Internal", message=TEXT)
INTERNAL = After(error="rpc error: code = Internal desc = no", reason="Internal")
LOOKED_AT = {"type": names.RESIZING, "lastProbeTime": NOW}
TOLD = {"type": names.CONTROLLER_ERROR, "status": "True", "reason": "Internal", "message": TEXT}


def resizing(size: str) -> dict[str, Any]:
    return condition(names.RESIZING, reason="ResizeStarted", message=f"Volume pv is to grow to {size}")


def gone(kind: str) -> dict[str, str]:
    return {"$patch": "delete", "type": kind}


def a_claim(*sizes: Any, **more: Any) -> Any:
    return typed(claim_body(*sizes, **more))


def test_a_size_that_is_asked_for_anew_is_written_also_over_an_old_claim():
    """Strictly: where the claim is infeasible by now, nothing is asked for."""
    claim = typed(claim_body(10, 3, 10, PROGRESS, conditions=[resizing("10Gi")]))
    status = {"allocatedResourceStatuses": {"storage": PROGRESS}, "conditions": [LOOKED_AT]}
    assert status == growth.marked(claim, Mark("10Gi", anew=True), NOW, recover=True)["status"]


@each_row("looked_at", [None, "2025-12-31T23:59:59Z", NOW], ids=["never", "before", "in-this-second"])
def test_R34_a_mark_always_changes_the_claim(looked_at):
    claim = typed(claim_body(2, 1, 2, PROGRESS, conditions=[{**RESIZING, "lastProbeTime": looked_at}]))
    changed = {"type": names.RESIZING, "lastProbeTime": None if looked_at == NOW else NOW}
    assert {"status": {"conditions": [changed]}} == growth.marked(claim, Mark("2Gi", anew=False), NOW, recover=True)
    shown = condition(names.MODIFYING, message='Modifying volume to "b" is in progress.', lastProbeTime=looked_at)
    claim = typed(claim_body(vac="b", ms="InProgress", target="b", conditions=[shown]))
    assert [{**changed, "type": names.MODIFYING}] == classes.marked(claim, "b", NOW)["status"]["conditions"]


def test_a_mark_says_size_step_and_condition():
    status = {
        "allocatedResources": {"storage": "2Gi"},
        "allocatedResourceStatuses": {"storage": PROGRESS},
        "conditions": [{"type": names.RESIZING, "status": "True", **STARTED, "lastTransitionTime": NOW}],
    }
    assert {"status": status} == growth.marked(a_claim(2, 1), Mark("2Gi", anew=True), NOW, recover=True)


def test_27c2_what_a_former_process_or_the_go_peer_said_of_resizing_is_brought_up_to_date():
    (said,) = growth.marked(a_claim(2, 1, conditions=[resizing("5Gi")]), Mark("2Gi", anew=False), NOW, recover=True)[
        "status"
    ]["conditions"]
    assert {"type": names.RESIZING, "status": "True", **STARTED} == said, "it has been so since then"
    bare = a_claim(2, 1, conditions=[condition(names.RESIZING)])
    (said,) = growth.marked(bare, Mark("2Gi", anew=False), NOW, recover=True)["status"]["conditions"]
    assert {"type": names.RESIZING, "status": "True", **STARTED, "lastTransitionTime": NOW} == said


def test_R20_a_mark_for_another_size_drops_what_was_told_of_the_former_one():
    claim = a_claim(5, 3, 10, INFEASIBLE, conditions=[resizing("5Gi"), ERROR])
    body = growth.marked(claim, Mark("5Gi", anew=True), NOW, recover=True)
    assert [LOOKED_AT, gone(names.CONTROLLER_ERROR)] == body["status"]["conditions"], (
        "Resizing is as it was, with its time"
    )


def test_R21_a_mark_that_only_says_the_size_keeps_why_it_waits():
    claim = a_claim(5, 3, 10, PROGRESS, conditions=[resizing("5Gi"), ERROR])
    status = {
        "allocatedResources": {"storage": "5Gi"},
        "allocatedResourceStatuses": {"storage": PROGRESS},
        "conditions": [LOOKED_AT],
    }
    assert {"status": status} == growth.marked(claim, Mark("5Gi", anew=True, keeps_error=True), NOW, recover=True)


@each_row("recover", [True, False])
def test_R32_a_mark_of_what_is_marked_drops_the_annotation_and_without_recovery_leaves_it(recover):
    claim = a_claim(2, 1, 2, PROGRESS, conditions=[resizing("2048Mi")], annotations={names.NOT_REQUIRED: "true"})
    body = growth.marked(claim, Mark("2048Mi", anew=False), NOW, recover=recover)
    note = {"metadata": {"annotations": {names.NOT_REQUIRED: None}}} if recover else {}
    assert {**note, "status": {"conditions": [LOOKED_AT]}} == body


def test_R1_the_nodes_turn_is_told_beside_resizing_and_ends_the_error():
    claim = a_claim(2, 1, 2, PROGRESS, conditions=[RESIZING, ERROR])
    pending = {"type": names.FS_PENDING, "status": "True", "message": "m", "lastTransitionTime": NOW}
    status = {
        "allocatedResourceStatuses": {"storage": NODE_PENDING},
        "conditions": [pending, gone(names.CONTROLLER_ERROR)],
    }
    assert {"status": status} == growth.node_next(claim, "2Gi", "2Gi", "m", NOW, recover=True)


def test_the_nodes_turn_comes_with_the_size_on_a_claim_that_does_not_say_it():
    """An API server was set back during the call: the node's turn without a size would be for the one that the claim
    asks for by now.
    """
    body = growth.node_next(a_claim(5, 1), "2Gi", "2Gi", "m", NOW, recover=True)
    assert {"storage": "2Gi"} == body["status"]["allocatedResources"]
    assert "allocatedResources" not in growth.node_next(a_claim(5, 1), "2Gi", "2Gi", "m", NOW, recover=False)["status"]
    assert (
        "allocatedResources" not in growth.node_next(a_claim(5, 1, 3), "2Gi", "2Gi", "m", NOW, recover=True)["status"]
    ), "never down again"


def test_without_recovery_the_nodes_turn_replaces_resizing():
    claim = a_claim(2, 1, conditions=[RESIZING])
    pending = {"type": names.FS_PENDING, "status": "True", "message": "m", "lastTransitionTime": NOW}
    assert {"status": {"conditions": [pending, gone(names.RESIZING)]}} == growth.node_next(
        claim, "2Gi", "2Gi", "m", NOW, recover=False
    )


def test_R2_the_end_has_the_size_and_no_step_and_no_condition():
    """The answer to the write of a condition may have been lost: also those go that the claim in hand lacks."""
    claim = a_claim(2, 1, 2, PROGRESS, conditions=[RESIZING])
    status = {
        "capacity": {"storage": "2Gi"},
        "allocatedResourceStatuses": None,
        "conditions": [*map(gone, names.RESIZE_CONDITIONS)],
    }
    assert {"metadata": {"annotations": {names.NOT_REQUIRED: "true"}}, "status": status} == growth.done(
        claim, "2Gi", recover=True
    )


def test_M1_the_end_of_a_modification_has_no_condition():
    status = {"modifyVolumeStatus": None, "currentVolumeAttributesClassName": "gold"}
    left = {"conditions": [gone(names.MODIFYING), gone(names.MODIFY_ERROR)]}
    assert {"status": {**status, **left}} == classes.done("gold")


@each_row(
    ("conditions", "after", "expected"),
    [
        pytest.param([RESIZING], INTERNAL, [{**TOLD, "lastTransitionTime": NOW}], id="first"),
        pytest.param([RESIZING, ERROR], INTERNAL, None, id="the-same-again"),
        pytest.param([{**ERROR, "message": "other words"}], INTERNAL, [TOLD], id="other-words-keep-the-time"),
        pytest.param([RESIZING], After(error="e", reason="Aborted", is_final=False), None, id="uncertain"),
        pytest.param(
            [ERROR],
            After(error="e", reason="Aborted", is_final=False),
            [{**TOLD, "reason": "Aborted", "message": "failed to expand pvc with e", "lastTransitionTime": NOW}],
            id="uncertain-after-final",
        ),
    ],
)
def test_a_failure_is_written_when_it_says_something_new(conditions, after, expected):
    body = growth.failed(a_claim(2, 1, 2, PROGRESS, conditions=conditions), after, NOW)
    assert ({} if expected is None else {"status": {"conditions": expected}}) == body


def test_R11_an_infeasible_request_has_its_step():
    after = After(error="e", reason="OutOfRange", is_infeasible=True)
    body = growth.failed(a_claim(2, 1, 2, PROGRESS), after, NOW)
    assert {"storage": INFEASIBLE} == body["status"]["allocatedResourceStatuses"]


@each_row(
    ("pv", "size", "before", "expected"),
    [
        pytest.param(pv_body(1), "2Gi", "", {"spec": {"capacity": {"storage": "2Gi"}}}, id="size"),
        pytest.param(pv_body(2), "2048Mi", "", {}, id="no-change"),
        pytest.param(pv_body(2), "2Gi", "1Gi", {"metadata": {"annotations": {names.PRE_RESIZE: "1Gi"}}}, id="R1"),
        pytest.param(pv_body(2, annotations={names.PRE_RESIZE: "1Gi"}), "2Gi", "1536Mi", {}, id="the-first-size-stays"),
    ],
)
def test_the_volume_gets_its_size_and_the_size_before(pv, size, before, expected):
    assert expected == growth.volume_size(typed(pv), size, before)


def test_the_words_for_a_pending_node_follow_the_driver():
    assert growth.RESTART_A_POD == growth.pending_text(facts()) == growth.pending_text(facts(expands_offline=True))
    assert growth.WHILE_IN_USE == growth.pending_text(facts(expands_online=True, expands_offline=True))


def test_a_class_is_marked_and_an_earlier_error_goes():
    claim = a_claim(
        vac="b", ms="Infeasible", target="b", conditions=[condition(names.MODIFY_ERROR, reason="InvalidArgument")]
    )
    modifying = {"type": names.MODIFYING, "status": "True", "message": 'Modifying volume to "b" is in progress.'}
    status = {
        "modifyVolumeStatus": {"status": "InProgress", "targetVolumeAttributesClassName": "b"},
        "conditions": [{**modifying, "lastProbeTime": NOW, "lastTransitionTime": NOW}, gone(names.MODIFY_ERROR)],
    }
    assert {"status": status} == classes.marked(claim, "b", NOW)


def test_M4_a_refusal_that_stays_is_written_once():
    refused = decide_after("b", DriverError(Code.INTERNAL, "no"))
    body = classes.failed(a_claim(vac="b", ms="InProgress", target="b"), refused, NOW)
    shown = [{**one, "lastTransitionTime": NOW} for one in body["status"]["conditions"]]
    again = a_claim(vac="b", ms="InProgress", target="b", conditions=shown)
    assert ({}, {"conditions"}) == (classes.failed(again, refused, NOW), set(body["status"]))


def test_M8_both_conditions_go():
    claim = a_claim(ms="Infeasible", target="b", conditions=[condition(names.MODIFYING), condition(names.MODIFY_ERROR)])
    assert {"status": {"conditions": [gone(names.MODIFYING), gone(names.MODIFY_ERROR)]}} == classes.cancelled(claim)


def test_a_volume_that_has_its_class_is_not_written():
    assert {} == classes.volume_class(typed(pv_body(1, volumeAttributesClassName="b")), "b")
    assert {"spec": {"volumeAttributesClassName": "c"}} == classes.volume_class(
        typed(pv_body(1, volumeAttributesClassName="b")), "c"
    )
