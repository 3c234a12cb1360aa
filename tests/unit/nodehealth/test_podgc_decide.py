"""The judgement on pods that no kubelet removes, by the ids of docs/behaviours/node-health.md."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster.nodehealth.podgc.decide import Absence, AskForNode, Cause, Remove, decide_pod, decide_terminated
from tests.support.builders import Json, a_pod, a_ready_node, typed

NOW, QUARANTINE_S = 1000.0, 40.0
OUT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
LEAVING = typed(a_pod(uid="leaves", node="n1", phase="Running", deleting=True, deletionGracePeriodSeconds=30))
STAYING = typed(a_pod(uid="stays", node="n1", phase="Running"))


def a_node(*, ready: bool | None = False, taints: tuple[Json, ...] = (OUT,)) -> Any:
    return typed(a_ready_node(ready=ready, taints=taints))


# pod, node, its absence → remove, asks, after_s
ROWS: dict[str, tuple[Any, Any, Absence | None, tuple[Cause | None, bool, float | None]]] = {
    "PG1-missing-since-now": (STAYING, None, Absence(NOW), (None, False, 40.0)),
    "PG1-missing-for-a-while": (STAYING, None, Absence(NOW - 30), (None, False, 10.0)),
    "PG1-asks-after-quarantine": (STAYING, None, Absence(NOW - 40), (None, True, None)),
    "PG1-gone": (STAYING, None, Absence(NOW - 40, frozenset({"stays"})), (Cause.ORPHANED, False, None)),
    "PG1-gone-and-leaving": (LEAVING, None, Absence(NOW - 40, frozenset({"leaves"})), (Cause.ORPHANED, False, None)),
    "PG1-came-after-the-question": (STAYING, None, Absence(NOW - 40, frozenset({"leaves"})), (None, True, None)),
    "PG2-out-of-service": (LEAVING, a_node(), None, (Cause.OUT_OF_SERVICE, False, None)),
    "PG2-no-status": (LEAVING, a_node(ready=None), None, (Cause.OUT_OF_SERVICE, False, None)),
    "PG2-any-effect": (
        LEAVING,
        a_node(taints=({**OUT, "effect": "NoSchedule"},)),
        None,
        (Cause.OUT_OF_SERVICE, False, None),
    ),
    "PG2-ready": (LEAVING, a_node(ready=True), None, (None, False, None)),
    "PG2-in-service": (LEAVING, a_node(taints=()), None, (None, False, None)),
    "PG2-not-leaving": (STAYING, a_node(), None, (None, False, None)),
    "PG3-never-on-a-node": (typed(a_pod(deleting=True)), None, None, (Cause.UNSCHEDULED, False, None)),
    "PG3-waits-for-a-node": (typed(a_pod()), None, None, (None, False, None)),
    "PG4-finalizers": (
        typed(a_pod(phase="Failed", deleting=True, deletionGracePeriodSeconds=0, finalizers=["kit/hold"])),
        None,
        None,
        (None, False, None),
    ),
    "PG4-removed-but-not-failed-yet": (
        typed(a_pod(phase="Pending", deleting=True, deletionGracePeriodSeconds=0, finalizers=["kit/hold"])),
        None,
        None,
        (Cause.UNSCHEDULED, False, None),
    ),
}


@pytest.mark.parametrize(("pod", "node", "absence", "expected"), ROWS.values(), ids=ROWS)
def test_pods(pod: Any, node: Any, absence: Absence | None, expected: tuple[Cause | None, bool, float | None]) -> None:
    decision = decide_pod(pod, node, absence, NOW, QUARANTINE_S)
    removed = [one.cause for one in decision.actions if isinstance(one, Remove)]
    asks = any(isinstance(one, AskForNode) for one in decision.actions)
    assert expected == (next(iter(removed), None), asks, decision.after_s)


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
