"""The judgement on nodes, by the ids of docs/behaviours/node-health.md."""

from __future__ import annotations

from typing import Any

from mooring.cluster.nodehealth.lifecycle.decide import (
    Action,
    ChangeTaints,
    LastHeartbeat,
    MarkUnready,
    SetLabels,
    TaintId,
    TurnUnknown,
    decide_node,
    decide_pod,
    heartbeat_of_lease,
    heartbeat_of_node,
)
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.control.decision import Decision
from tests.support.builders import Json, a_lease, a_node, a_pod, typed
from tests.support.rows import each_row

CREATED = "2026-01-01T00:00:00Z"
BEATS = "2026-01-01T00:00:10Z"
OPTIONS = NodeHealthOptions(node_monitor_grace_period_s=50, node_startup_grace_period_s=60)
READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


def node(spec: Json | None = None, labels: Json | None = None, **conditions: str) -> Any:
    """conditions: statuses by type."""
    given = [{"type": type, "status": status, "lastHeartbeatTime": BEATS} for type, status in conditions.items()]
    return typed(a_node("n", spec, conditions=given or None, creationTimestamp=CREATED, labels=labels or {}))


def tainted(*taints: tuple[str, str]) -> Json:
    return {"taints": [{"key": key, "effect": effect} for key, effect in taints]}


def decided(given: Any, *, silent_s: float = 1.0, turn_s: float = 0.0, all_down: bool = False) -> Decision[Action]:
    return decide_node(
        given, LastHeartbeat(100.0, has_ready=True), 100.0 + silent_s, OPTIONS, turn_s=turn_s, all_down=all_down
    )


def unknown(decision: Decision[Action]) -> TurnUnknown:
    (action,) = decision.actions
    assert isinstance(action, TurnUnknown)
    return action


def taints_of(decision: Decision[Action]) -> ChangeTaints:
    """Without any, an empty change."""
    return next((one for one in decision.actions if isinstance(one, ChangeTaints)), ChangeTaints(node()))


def shown(taints: tuple[TaintId, ...]) -> set[tuple[str, str]]:
    return {(key.removeprefix("node.kubernetes.io/"), effect) for key, effect in taints}


# -- silence


def test_NL1_silence_turns_all_conditions_of_a_kubelet_unknown() -> None:
    given = node(
        Ready="True", MemoryPressure="False", DiskPressure="True", PIDPressure="False", NetworkUnavailable="False"
    )
    decision = decided(given, silent_s=50)
    action = unknown(decision)
    assert action.was_ready
    assert ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] == [one["type"] for one in action.conditions]
    assert {("Unknown", *STOPPED)} == {(one["status"], one["reason"], one["message"]) for one in action.conditions}
    assert "nothing was heard of it for 50 s" == str(decision.because)


def test_NL1_not_before_the_grace_is_over() -> None:
    decision = decided(node(Ready="True"), silent_s=49.9)
    assert () == decision.actions
    assert decision.after_s is not None
    assert 0.1 == round(decision.after_s, 6)


def test_NL2_conditions_that_were_never_posted() -> None:
    action = unknown(decided(node(Ready="False"), silent_s=50))
    assert not action.was_ready
    assert [STOPPED, NEVER, NEVER, NEVER] == [(one["reason"], one["message"]) for one in action.conditions]
    assert [None, CREATED, CREATED, CREATED] == [one.get("lastHeartbeatTime") for one in action.conditions]


def test_NL2_a_node_without_a_status_has_the_startup_grace() -> None:
    assert ((), 1.0) == (decided(node(), silent_s=59).actions, decided(node(), silent_s=59).after_s)
    assert {NEVER} == {(one["reason"], one["message"]) for one in unknown(decided(node(), silent_s=60)).conditions}


def test_a_node_that_is_unknown_is_left_at_that() -> None:
    there = tainted((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"))
    decision = decided(node(there, Ready="Unknown", MemoryPressure="False"), silent_s=1000)
    assert ((), None) == (decision.actions, decision.after_s)


# -- taints


ROWS: dict[str, tuple[Any, set[tuple[str, str]], set[tuple[str, str]], str]] = {
    "well": (node(Ready="True"), set(), set(), ""),
    "NL3-not-ready": (node(Ready="False"), {("not-ready", "NoSchedule")}, set(), "not-ready"),
    "NL3-unknown": (node(Ready="Unknown"), {("unreachable", "NoSchedule")}, set(), "unreachable"),
    "NL3-tainted-already": (
        node(tainted((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")), Ready="Unknown"),
        set(),
        set(),
        "",
    ),
    "NL4-back": (
        node(tainted((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute"), ("user", "NoExecute")), Ready="True"),
        set(),
        {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")},
        "",
    ),
    "NL5-other-taint-at-once": (
        node(tainted((READY, "NoSchedule"), (READY, "NoExecute")), Ready="Unknown"),
        {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")},
        {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")},
        "",
    ),
    "NL3-no-status-yet": (node(tainted((READY, "NoSchedule"))), set(), {("not-ready", "NoSchedule")}, ""),
    "NL3-no-status-and-evicting": (node(tainted((READY, "NoExecute"))), set(), set(), ""),
    "NL6-pressure": (
        node(Ready="True", MemoryPressure="True", DiskPressure="True", PIDPressure="True", NetworkUnavailable="True"),
        {(key, "NoSchedule") for key in ("memory-pressure", "disk-pressure", "pid-pressure", "network-unavailable")},
        set(),
        "",
    ),
    "NL6-pressure-unknown": (
        node(Ready="True", MemoryPressure="Unknown", NetworkUnavailable="False"),
        set(),
        set(),
        "",
    ),
    "NL6-cordoned": (node({"unschedulable": True}, Ready="True"), {("unschedulable", "NoSchedule")}, set(), ""),
    "NL6-uncordoned": (
        node(tainted(("node.kubernetes.io/unschedulable", "NoSchedule")), Ready="True"),
        set(),
        {("unschedulable", "NoSchedule")},
        "",
    ),
    "others-taints-stay": (
        node(
            tainted(
                ("node.kubernetes.io/out-of-service", "NoExecute"), ("node.kubernetes.io/unschedulable", "NoExecute")
            ),
            Ready="True",
        ),
        set(),
        set(),
        "",
    ),
}


@each_row(("given", "added", "removed", "evicting"), ROWS.values(), ids=ROWS)
def test_taints(given: Any, added: set[tuple[str, str]], removed: set[tuple[str, str]], evicting: str) -> None:
    """evicting: the key of the NoExecute taint that has to wait for its zone's turn, and takes it."""
    waits, goes = taints_of(decided(given, turn_s=9.0)), taints_of(decided(given))
    turn = {(evicting, "NoExecute")} if evicting else set()
    assert (added, removed, False) == (shown(waits.added), shown(waits.removed), waits.takes_turn)
    assert (added | turn, removed) == (shown(goes.added), shown(goes.removed))
    assert bool(evicting) is goes.takes_turn


@each_row(("turn_s", "after_s"), [(9.0, 9.0), (90.0, 49.0), (float("inf"), 49.0)])
def test_NL3_a_node_that_waits_for_its_zones_turn_is_looked_at_then_and_when_it_would_be_silent(
    turn_s: float, after_s: float
) -> None:
    decision = decided(node(tainted((READY, "NoSchedule")), Ready="False"), turn_s=turn_s)
    assert ((), after_s) == (decision.actions, decision.after_s)
    assert "are tainted one after the other" in str(decision.because)


def test_NL7_no_evicting_taints_while_no_node_is_ready() -> None:
    decision = decided(
        node(tainted((UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")), Ready="Unknown"), all_down=True
    )
    change = taints_of(decision)
    assert {("unreachable", "NoExecute")} == shown(change.removed)
    assert ((), False) == (change.added, change.takes_turn)
    assert "no node of any zone is ready" in str(decision.because)


@each_row(
    ("labels", "expected"),
    [
        (
            {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
            {"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"},
        ),
        ({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "plan9"}, {"beta.kubernetes.io/os": "linux"}),
        ({"beta.kubernetes.io/os": "linux"}, {}),
    ],
)
def test_NL8_beta_labels_follow(labels: Json, expected: Json) -> None:
    decision = decided(node(labels=labels, Ready="True"))
    assert [expected] * bool(expected) == [one.labels for one in decision.actions if isinstance(one, SetLabels)]


# -- signs of life


def test_NL9_signs_of_life_are_counted_by_our_own_clock() -> None:
    first = heartbeat_of_node(None, node(Ready="True"), 7.0, 0.0)
    assert LastHeartbeat(7.0, has_ready=True, heartbeat=BEATS) == first
    assert first == heartbeat_of_node(first, node(Ready="False"), 8.0, 0.0), "the status alone is no heartbeat"
    later = typed(
        a_node("n", conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": "1999-01-01T00:00:00Z"}])
    )
    assert 9.0 == heartbeat_of_node(first, later, 9.0, 0.0).at


def test_NL9_a_lease_that_changes_is_a_sign_even_where_its_clock_goes_back() -> None:
    known = LastHeartbeat(1.0, has_ready=True)
    renewed = heartbeat_of_lease(known, typed(a_lease("n", renewTime="2026-01-01T00:00:10.000000Z")), 2.0)
    assert 2.0 == renewed.at
    assert renewed == heartbeat_of_lease(renewed, typed(a_lease("n", renewTime="2026-01-01T00:00:10.000000Z")), 3.0)
    assert 4.0 == heartbeat_of_lease(renewed, typed(a_lease("n", renewTime="2025-01-01T00:00:10.000000Z")), 4.0).at
    assert renewed == heartbeat_of_lease(renewed, None, 5.0)
    assert renewed == heartbeat_of_lease(renewed, typed(a_lease("n")), 5.0)


def test_NL2_a_node_without_a_status_counts_from_its_creation() -> None:
    created_s = 1_767_225_600.0
    assert 70.0 == heartbeat_of_node(None, node(), 100.0, created_s + 30).at
    assert 100.0 == heartbeat_of_node(None, node(), 100.0, created_s - 30).at, "its clock is ahead of ours"
    first = heartbeat_of_node(None, node(), 100.0, created_s)
    assert 105.0 == heartbeat_of_node(first, node(Ready="False"), 105.0, created_s).at
    without_time = typed(a_node("n", conditions=[{"type": "Ready", "status": "True"}]))
    assert 105.0 == heartbeat_of_node(first, without_time, 105.0, created_s).at, (
        "a status is a sign, with a heartbeat or not"
    )
    with_status = heartbeat_of_node(first, node(Ready="True"), 105.0, created_s)
    assert 106.0 == heartbeat_of_node(with_status, node(), 106.0, created_s).at, "the condition was taken away"


# -- pods


@each_row(
    ("pod_ready", "node_ready", "expected"),
    [
        ("True", "Unknown", True),
        ("True", "False", True),
        ("Unknown", "Unknown", True),
        ("False", "Unknown", False),
        ("", "Unknown", False),
        ("True", "True", False),
        ("True", "", False),
    ],
)
def test_NL10_pods_that_say_they_are_ready(pod_ready: str, node_ready: str, expected: bool) -> None:
    body = a_pod(node="n")
    body["status"]["conditions"] = [{"type": "Ready", "status": pod_ready}] if pod_ready else []
    pod = typed(body)
    assert (MarkUnready(pod),) * expected == decide_pod(
        pod, node(**({"Ready": node_ready} if node_ready else {}))
    ).actions
    assert () == decide_pod(pod, None).actions
