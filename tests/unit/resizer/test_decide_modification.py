"""The judgement of a class as tables: one situation, one decision. Ids: docs/behaviours/resizer.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.core import SecretReference
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.sidecars.resizer import decision as both
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret, class_changed, volume_changed
from mooring.sidecars.resizer.modification import decide as why
from mooring.sidecars.resizer.modification.decide import Cancel, Mark, MarkPending, Modify, decide_modification
from tests.support.builders import an_attributes_class
from tests.support.resizing import condition
from tests.support.rows import each_row
from tests.unit.resizer.views import KEY, a_view, claim_body, pv_body

NOW = 1000.0
CLASSES = [an_attributes_class(name, parameters={"class": name}) for name in "abc"]
MODIFYING = condition(names.MODIFYING)


def refused(code: str) -> Any:
    return [MODIFYING, condition(names.MODIFY_ERROR, reason=code)]


INVALID = refused("InvalidArgument")

MARKED = {"marked_from": "0"}


def decided(claim: Any = None, pv: Any = None, **view: Any) -> Decision:
    """A claim on class a that asks for b, unless said otherwise. vac: its wish; current: what it has; ms and target:
    under way.
    """
    claim = claim_body(vac="b", current="a") if claim is None else claim
    pv = pv_body() if pv is None else pv
    return decide_modification(a_view(claim, pv or None, **{"classes": CLASSES, **view}), KEY, NOW)


def steps(decision: Decision) -> list[type]:
    return [type(action) for action in decision.actions]


def order_of(decision: Decision) -> Any:
    return next(action.order for action in decision.actions if isinstance(action, Modify))


def test_M1_the_claim_is_marked_and_the_driver_asked():
    decision = decided()
    assert [Mark, Modify] == steps(decision)
    assert (Mark("b"), "handle", why.Modifying("b")) == (
        decision.actions[0],
        order_of(decision).handle,
        decision.because,
    )
    assert ("handle", {"class": "b"}, None) == (
        order_of(decision).handle,
        order_of(decision).parameters,
        order_of(decision).secret,
    )


@each_row(
    ("claim", "pv", "because"),
    [
        pytest.param(claim_body(vac="a", current="a"), pv_body(), why.Applied("a"), id="same-class"),
        pytest.param(claim_body(), pv_body(), why.Applied(""), id="no-class"),
        pytest.param(claim_body(vac="b", volume=None), pv_body(), both.NoVolume(), id="M11-no-volume"),
        pytest.param(claim_body(vac="b", phase="Pending"), pv_body(), both.NotBound("Pending"), id="M11-unbound"),
        pytest.param(claim_body(vac="b"), pv_body(csi={"driver": "other"}), both.Foreign("csi.test"), id="M11-driver"),
        pytest.param(
            claim_body(vac="b"), pv_body(source={"hostPath": {"path": "/x"}}), both.Foreign("csi.test"), id="M11-no-csi"
        ),
        pytest.param(claim_body(ms="Infeasible", target="b"), pv_body(), why.TakenBack(), id="M8-cancelled-before"),
        pytest.param(claim_body(ms="Pending", target="b"), pv_body(), why.TakenBack(), id="taken-back-while-pending"),
    ],
)
def test_nothing_is_to_be_done(claim, pv, because):
    assert Decision(because) == decided(claim, pv)


def test_M11_a_claim_that_is_gone():
    assert Decision(both.Gone(KEY)) == decide_modification(a_view(None, None), KEY, NOW)


def test_a_missing_volume_is_waited_for():
    assert Decision(both.VolumeMissing("pv"), waits_for=frozenset({volume_changed("pv")})) == decided(pv={})


@each_row(
    ("claim", "remembered", "target", "is_marked"),
    [
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=[MODIFYING]), {}, "b", False, id="M13-R34"
        ),
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=[MODIFYING]),
            *({"marked_from": "1"}, "b", False),
            id="R34-its-own-mark-was-not-done",
        ),
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=refused("Aborted")), MARKED, "b", True, id="M5"
        ),
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=refused("Internal")),
            {"error": "Internal"},
            "c",
            False,
            id="M6",
        ),
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=refused("Internal")),
            {},
            "b",
            False,
            id="M6-restart",
        ),
        pytest.param(
            claim_body(vac="b", ms="InProgress", target="b", conditions=[MODIFYING]),
            *({"error": "InvalidArgument"}, "b", False),
            id="M3-the-cache-shows-an-old-claim",
        ),
        pytest.param(
            claim_body(vac="c", ms="InProgress", target="b", conditions=refused("Internal")),
            *({"error": "Aborted"}, "b", True),
            id="the-answer-to-this-process-counts-more",
        ),
        pytest.param(claim_body(ms="InProgress", target="b", conditions=[MODIFYING]), MARKED, "b", True, id="M7"),
        pytest.param(
            claim_body(ms="InProgress", target="b", conditions=refused("Internal")),
            MARKED,
            "b",
            True,
            id="M7-after-an-error",
        ),
        pytest.param(
            claim_body(vac="b", ms="InProgress", target="b", conditions=refused("Internal")), MARKED, "b", True, id="M4"
        ),
        pytest.param(
            claim_body(vac="c", ms="Infeasible", target="b", conditions=refused("InvalidArgument")),
            {},
            "c",
            False,
            id="M3-another",
        ),
        pytest.param(
            claim_body(vac="b", ms="Infeasible", target="b", conditions=refused("InvalidArgument")),
            {},
            "b",
            False,
            id="M3-again",
        ),
        pytest.param(claim_body(vac="b", ms="Pending", target="a"), {}, "b", False, id="M2-the-class-is-there"),
        pytest.param(claim_body(vac="b", ms="InProgress"), {}, "b", False, id="in-progress-towards-nothing"),
    ],
)
def test_the_class_that_is_asked_for(claim, remembered, target, is_marked):
    decision = decided(claim, remembered=remembered)
    assert ([] if is_marked else [Mark(target)]) == [action for action in decision.actions if isinstance(action, Mark)]
    assert {"class": target} == order_of(decision).parameters


def test_M2_a_missing_class_is_pending():
    claim = claim_body(vac="gone", current="a", ms="Infeasible", target="b")
    assert Decision(why.ClassMissing("gone"), (MarkPending(),)) == decided(claim)
    assert [MarkPending] == steps(decided(claim_body(vac="gone", current="a")))


@each_row(
    "claim",
    [claim_body(vac="gone", ms="Pending"), claim_body(ms="InProgress", target="gone")],
    ids=["M2-pending", "M7-in-progress"],
)
def test_a_missing_class_is_told_and_waited_for(claim):
    problem = why.ClassMissing("gone")
    assert Decision(problem, problem=problem, waits_for=frozenset({class_changed("gone")})) == decided(claim)
    assert 'VAC "gone" does not exist.' == problem.error


def test_M8_a_class_that_is_taken_back_is_cancelled():
    claim = claim_body(ms="Infeasible", target="b", conditions=refused("InvalidArgument"))
    assert Decision(why.Cancelling(), (Cancel(),)) == decided(claim)


def test_M9_metadata_goes_with_the_parameters():
    sent = order_of(decided(options={"extra_modify_metadata": True})).parameters
    prefix = "csi.storage.k8s.io/"
    wanted = {"class": "b", f"{prefix}pvc/name": "claim", f"{prefix}pvc/namespace": "default", f"{prefix}pv/name": "pv"}
    assert wanted == sent


def test_M10_the_secret_of_the_annotations_goes_first():
    expand = {"controllerExpandSecretRef": {"name": "e", "namespace": "ns"}}
    notes = {names.MODIFY_SECRET_NAME: "m", names.MODIFY_SECRET_NAMESPACE: "ns"}
    assert LoadSecret(SecretReference("e", "ns")) in decided(pv=pv_body(csi=expand)).actions
    assert LoadSecret(SecretReference("m", "ns")) in decided(pv=pv_body(csi=expand, annotations=notes)).actions


SLOW = {"error": "InvalidArgument", "slow_target": "b", "slow_until": NOW + 200, "looked_at": NOW}
INFEASIBLE = claim_body(vac="b", current="a", ms="Infeasible", target="b", conditions=refused("InvalidArgument"))


def test_M3_an_infeasible_class_waits():
    decision = decided(INFEASIBLE, remembered=SLOW)
    assert Decision(why.Infeasible("b", 200.0), waits_for=frozenset({class_changed("b")}), after_s=200.0) == decision


def test_M3_an_infeasible_class_waits_no_longer_than_that():
    assert [Mark, Modify] == steps(decided(INFEASIBLE, remembered={**SLOW, "slow_until": NOW}))
    other = claim_body(vac="c", current="a", ms="Infeasible", target="b")
    assert [Mark, Modify] == steps(decided(other, remembered=SLOW))


def test_the_secret_of_an_infeasible_class_is_looked_at_now_and_then():
    pv = pv_body(csi={"controllerExpandSecretRef": {"name": "e", "namespace": "ns"}})
    assert [LookAtSecret] == steps(decided(INFEASIBLE, pv, remembered={**SLOW, "looked_at": NOW - 31}))


def test_a_call_for_the_volume_is_waited_for():
    decision = decided(in_flight={"handle": "the grow of default/claim"})
    assert (
        Decision(both.CallInFlight("the grow of default/claim"), waits_for=frozenset({call_over("handle")})) == decision
    )


def test_an_empty_handle_is_told():
    problem = decided(pv=pv_body(csi={"volumeHandle": ""})).problem
    assert problem is not None
    assert "empty volume handle" == problem.error
