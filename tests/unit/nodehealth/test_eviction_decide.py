"""The judgement on pods of nodes with NoExecute taints, by the ids of docs/behaviours/node-health.md."""

from __future__ import annotations

from typing import Any

from mooring.api.core import Taint
from mooring.api.matching import tolerates
from mooring.api.pods import Toleration
from mooring.cluster.nodehealth.eviction.decide import Action, Beginnings, Cancel, Evict, Stay, decide_eviction
from mooring.control.decision import Decision
from tests.support.builders import Json, a_pod, a_ready_node, typed
from tests.support.rows import each_row

GONE, HERE = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"
NOW = 1000.0


def a_tainted_node(*keys: str, effect: str = "NoExecute", ready: bool = False) -> Any:
    return typed(a_ready_node(ready=ready, taints=tuple({"key": key, "effect": effect} for key in keys)))


def tolerating(**seconds: int | None) -> Any:
    """By taint, for how long; None for ever."""
    keys = {"gone": GONE, "here": HERE}
    tolerations = [
        {
            "key": keys[name],
            "operator": "Exists",
            "effect": "NoExecute",
            **({} if limit is None else {"tolerationSeconds": limit}),
        }
        for name, limit in seconds.items()
    ]
    return typed(a_pod(node="n1", tolerations=tolerations))


# pod, node, since when its time runs → evict, at, since, cancelled
ROWS: dict[str, tuple[Any, Any, float | None, tuple[bool, float | None, float | None, bool]]] = {
    "no-taint": (tolerating(), a_tainted_node(), None, (False, None, None, False)),
    "no-schedule-alone": (tolerating(), a_tainted_node(GONE, effect="NoSchedule"), None, (False, None, None, False)),
    "TE1-not-tolerated": (tolerating(here=300), a_tainted_node(GONE), None, (True, NOW, None, False)),
    "TE1-one-of-two": (tolerating(gone=300), a_tainted_node(GONE, HERE), None, (True, NOW, None, False)),
    "TE1-not-tolerated-any-more": (tolerating(gone=300), a_tainted_node(GONE, HERE), 900.0, (True, NOW, 900.0, False)),
    "TE2-for-a-time": (tolerating(gone=300), a_tainted_node(GONE), None, (False, 1300.0, NOW, False)),
    "TE2-time-runs": (tolerating(gone=300), a_tainted_node(GONE), 800.0, (False, 1100.0, 800.0, False)),
    "TE2-time-is-up": (tolerating(gone=300), a_tainted_node(GONE), 700.0, (True, 1000.0, 700.0, False)),
    "TE2-the-shortest-counts": (
        tolerating(gone=300, here=60),
        a_tainted_node(GONE, HERE),
        None,
        (False, 1060.0, NOW, False),
    ),
    "TE2-no-time-at-all": (tolerating(gone=0), a_tainted_node(GONE), None, (True, NOW, NOW, False)),
    "TE2-less-than-none": (tolerating(gone=-5), a_tainted_node(GONE), None, (True, NOW, NOW, False)),
    "TE3-for-ever": (tolerating(gone=None), a_tainted_node(GONE), None, (False, None, None, False)),
    "TE3-for-ever-and-for-a-time": (
        tolerating(gone=None, here=60),
        a_tainted_node(GONE, HERE),
        None,
        (False, 1060.0, NOW, False),
    ),
    "TE4-taint-gone": (tolerating(gone=300), a_tainted_node(), 900.0, (False, None, None, True)),
    "TE4-ready-again": (tolerating(gone=300), a_tainted_node(GONE, ready=True), 700.0, (False, None, None, True)),
    "TE4-ready-with-a-user's-taint": (tolerating(), a_tainted_node("k", ready=True), None, (True, NOW, None, False)),
    "TE4-tolerates-for-ever-now": (tolerating(gone=None), a_tainted_node(GONE), 900.0, (False, None, None, True)),
    "TE5-another-taint-in-its-place": (
        tolerating(gone=300, here=300),
        a_tainted_node(HERE),
        800.0,
        (False, 1100.0, 800.0, False),
    ),
    "TE5-a-shorter-time": (tolerating(gone=60), a_tainted_node(GONE), 970.0, (False, 1030.0, 970.0, False)),
    "TE5-a-shorter-time-that-is-up": (tolerating(gone=60), a_tainted_node(GONE), 800.0, (True, 860.0, 800.0, False)),
    "node-gone": (tolerating(gone=300), None, 900.0, (False, None, None, False)),
    "TE6-deleted": (typed(a_pod(node="n1", deleting=True)), a_tainted_node(GONE), 900.0, (False, None, None, False)),
}


@each_row(("pod", "node", "since", "expected"), ROWS.values(), ids=ROWS)
def test_pods(
    pod: Any, node: Any, since: float | None, expected: tuple[bool, float | None, float | None, bool]
) -> None:
    assert expected == told(judged(pod, node, None if since is None else {HERE: since}))


def judged(pod: Any, node: Any, since: Beginnings | None = None) -> Decision[Action]:
    return decide_eviction(pod, node, since, NOW, NOW)


def told(decision: Decision[Action]) -> tuple[bool, float | None, float | None, bool]:
    match decision.actions:
        case (Evict(_, _, at, since),):
            return True, at, None if since is None else since[HERE], False
        case (Stay(_, at, since),):
            assert at - NOW == decision.after_s
            return False, at, since[HERE], False
    assert decision.after_s is None
    return False, None, None, any(isinstance(one, Cancel) for one in decision.actions)


def test_TE3_the_first_toleration_that_means_a_taint_counts() -> None:
    both = [{"operator": "Exists"}, {"key": GONE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]
    assert judged(typed(a_pod(node="n1", tolerations=both)), a_tainted_node(GONE)).after_s is None
    assert 5.0 == judged(typed(a_pod(node="n1", tolerations=both[::-1])), a_tainted_node(GONE)).after_s


def test_TE5_a_second_taint_has_a_time_of_its_own() -> None:
    """A pod may stay for a month with a taint of its owner's; ten days later its node is not ready for a moment."""
    day_s = 86_400
    month = {"key": "dedicated", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30 * day_s}
    minutes = {"key": GONE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    pod = typed(a_pod(node="n1", tolerations=[month, minutes]))
    began = {"dedicated": NOW - 10 * day_s}
    assert 20 * day_s == judged(pod, a_tainted_node("dedicated"), began).after_s
    assert 300 == judged(pod, a_tainted_node("dedicated", GONE), began).after_s
    assert 20 * day_s == judged(pod, a_tainted_node("dedicated"), {**began, HERE: NOW - 299}).after_s


def test_the_reason_says_how_long() -> None:
    def because(decision: Decision[Action]) -> str:
        return str(decision.because)

    pod = tolerating(gone=300)
    assert "it tolerates the taints of its node for 300 s, and 100 s are left" == because(
        judged(pod, a_tainted_node(GONE), {HERE: 800.0})
    )
    assert f"it does not tolerate {HERE}:NoExecute" == because(judged(pod, a_tainted_node(HERE)))


TAINT = Taint(key="k", value="v", effect="NoExecute")


@each_row(
    ("fields", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, False),
        ({"key": "k", "value": "v", "operator": "Gt"}, False),
        ({"key": "k", "value": "v", "operator": "Lt"}, False),
        ({"value": "v"}, False),
    ],
)
def test_which_toleration_means_a_taint(fields: Json, expected: bool) -> None:
    assert expected is tolerates(Toleration(**fields), TAINT)
