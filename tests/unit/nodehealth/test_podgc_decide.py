"""The judgement on pods that no kubelet removes, by the ids of docs/behaviours/node-health.md."""

from __future__ import annotations

from typing import Any

from mooring.cluster.nodehealth.podgc.decide import Cause, Remove, decide_pod, decide_terminated
from tests.support.builders import Json, a_pod, a_ready_node, typed
from tests.support.rows import each_row

NOW, QUARANTINE_S = 1000.0, 40.0
OUT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
LEAVING = typed(a_pod(uid="leaves", node="n1", phase="Running", deleting=True, deletionGracePeriodSeconds=30))
STAYING = typed(a_pod(uid="stays", node="n1", phase="Running"))


def a_node(*, ready: bool | None = False, taints: tuple[Json, ...] = (OUT,)) -> Any:
    return typed(a_ready_node(ready=ready, taints=taints))


# pod, node, since when it is missing → remove, after_s
ROWS: dict[str, tuple[Any, Any, float, tuple[Cause | None, float | None]]] = {
    "PG1-missing-since-now": (STAYING, None, NOW, (None, 40.0)),
    "PG1-missing-for-a-while": (STAYING, None, NOW - 30, (None, 10.0)),
    "PG1-gone": (STAYING, None, NOW - 40, (Cause.ORPHANED, None)),
    "PG1-gone-and-leaving": (LEAVING, None, NOW - 40, (Cause.ORPHANED, None)),
    "PG2-out-of-service": (LEAVING, a_node(), NOW, (Cause.OUT_OF_SERVICE, None)),
    "PG2-no-status": (LEAVING, a_node(ready=None), NOW, (Cause.OUT_OF_SERVICE, None)),
    "PG2-any-effect": (
        LEAVING,
        a_node(taints=({**OUT, "effect": "NoSchedule"},)),
        NOW,
        (Cause.OUT_OF_SERVICE, None),
    ),
    "PG2-ready": (LEAVING, a_node(ready=True), NOW, (None, None)),
    "PG2-in-service": (LEAVING, a_node(taints=()), NOW, (None, None)),
    "PG2-not-leaving": (STAYING, a_node(), NOW, (None, None)),
    "PG3-never-on-a-node": (typed(a_pod(deleting=True)), None, NOW, (Cause.UNSCHEDULED, None)),
    "PG3-waits-for-a-node": (typed(a_pod()), None, NOW, (None, None)),
    "PG4-finalizers": (
        typed(a_pod(phase="Failed", deleting=True, deletionGracePeriodSeconds=0, finalizers=["kit/hold"])),
        None,
        NOW,
        (None, None),
    ),
    "PG4-removed-but-not-failed-yet": (
        typed(a_pod(phase="Pending", deleting=True, deletionGracePeriodSeconds=0, finalizers=["kit/hold"])),
        None,
        NOW,
        (Cause.UNSCHEDULED, None),
    ),
}


@each_row(("pod", "node", "missing_since", "expected"), ROWS.values(), ids=ROWS)
def test_pods(pod: Any, node: Any, missing_since: float, expected: tuple[Cause | None, float | None]) -> None:
    decision = decide_pod(pod, node, missing_since, NOW, QUARANTINE_S)
    removed = [one.cause for one in decision.actions if isinstance(one, Remove)]
    assert expected == (next(iter(removed), None), decision.after_s)


def ended(name: str, minute: int, phase: str = "Succeeded", reason: str = "") -> Any:
    body = a_pod(name, phase=phase, creationTimestamp=f"2026-01-01T00:{minute:02}:00Z")
    body["status"]["reason"] = reason
    return typed(body)


def test_PG5_the_oldest_of_those_that_have_ended_and_evicted_ones_first() -> None:
    pods = [
        ended("b", 1),
        ended("a", 1, "Failed"),
        ended("young", 9),
        ended("evicted", 8, "Failed", "Evicted"),
        ended("runs", 0, "Running"),
        ended("waits", 0, "Pending"),
    ]
    assert ["evicted", "a", "b"] == [one.pod.metadata.name for one in decide_terminated(pods, 1).actions]
    assert () == decide_terminated(pods, 4).actions
    assert () == decide_terminated(pods, 0).actions, "0 is no limit"
