"""The life of a node: when was it last heard of, and which conditions, taints and labels follow from what it says. Pure.

Only the clock of this process counts: what a Lease and a status say of time may come from a wrong clock.

Source: kube-controller-manager 1.36, pkg/controller/nodelifecycle. Differs: a start of the controller takes no taints off nodes that are
not ready, and taints change by one write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.coordination import Lease
from mooring.api.core import Node, Taint
from mooring.api.nodes import FALSE, READY, TRUE, UNKNOWN, condition_of, has_taint, readiness
from mooring.api.pods import Pod
from mooring.base.clock import Instant, parse_rfc3339
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.options import NodeHealthOptions
from mooring.cluster.nodehealth.view import (
    ARCH_LABELS,
    NO_EXECUTE,
    NO_SCHEDULE,
    NOT_READY_TAINT,
    OS_LABELS,
    UNREACHABLE_TAINT,
    zone_of,
)
from mooring.control.decision import Decision
from mooring.control.result import Because


class LastHeartbeat(msgspec.Struct, frozen=True):
    """at: when the last sign of life was seen. has_ready, heartbeat, renewed: the condition Ready, its heartbeat and the Lease's renewTime
    as they were seen.
    """

    at: Instant
    has_ready: bool
    heartbeat: str | None = None
    renewed: str | None = None


def heartbeat_of_node(before: LastHeartbeat | None, node: Node, now: Instant, wall_s: float) -> LastHeartbeat:
    """A node without a status counts from its creation; a first status, a lost one, and each heartbeat are signs of life."""
    ready = condition_of(node, READY)
    heartbeat = ready.last_heartbeat_time if ready is not None else None
    if before is None:
        return LastHeartbeat(now if ready is not None else now - _age_s(node, wall_s), ready is not None, heartbeat)
    is_sign = before.has_ready != (ready is not None) or before.heartbeat != heartbeat
    return msgspec.structs.replace(
        before, at=now if is_sign else before.at, has_ready=ready is not None, heartbeat=heartbeat
    )


def heartbeat_of_lease(before: LastHeartbeat, lease: Lease | None, now: Instant) -> LastHeartbeat:
    """Any other renewTime is a sign of life, an earlier one, too: a node's clock may be set back."""
    renewed = lease.spec.renew_time if lease is not None else None
    if renewed is None or renewed == before.renewed:
        return before
    return msgspec.structs.replace(before, at=now, renewed=renewed)


def _age_s(node: Node, wall_s: float) -> float:
    created = node.metadata.creation_timestamp
    return max(0.0, wall_s - parse_rfc3339(created)) if created else 0.0


UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
POSTED: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet posts."""
TAINTS: Final[Mapping[tuple[str, str], str]] = {
    (READY, FALSE): NOT_READY_TAINT,
    (READY, UNKNOWN): UNREACHABLE_TAINT,
    ("MemoryPressure", TRUE): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", TRUE): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", TRUE): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", TRUE): "node.kubernetes.io/pid-pressure",
}
"""The NoSchedule taint of a condition with this status."""
_SCHEDULING_KEYS: Final = frozenset({*TAINTS.values(), UNSCHEDULABLE_TAINT})
_EVICTING_KEYS: Final = (NOT_READY_TAINT, UNREACHABLE_TAINT)


class TurnUnknown(msgspec.Struct, frozen=True):
    """The conditions to be written, once the API server has said that the node's Lease is as we know it. was_ready: users hear of it."""

    node: Node
    last: LastHeartbeat
    conditions: tuple[Mapping[str, Any], ...]
    was_ready: bool


class ChangeTaints(msgspec.Struct, frozen=True):
    """evicting: the NoExecute taint among the added ones that takes its zone's turn, None for none."""

    node: Node
    added: tuple[Taint, ...] = ()
    removed: tuple[Taint, ...] = ()
    evicting: Taint | None = None


class SetLabels(msgspec.Struct, frozen=True):
    node: Node
    labels: Mapping[str, str]


Action: TypeAlias = TurnUnknown | ChangeTaints | SetLabels


def decide_node(
    node: Node,
    last: LastHeartbeat,
    now: Instant,
    options: NodeHealthOptions,
    *,
    turn_s: float = 0.0,
    all_down: bool = False,
) -> Decision[Action]:
    """turn_s: until a node of its zone may get a NoExecute taint. all_down: no node of any zone is ready."""
    ready = readiness(node)
    silent_at = last.at + (options.node_monitor_grace_period_s if ready else options.node_startup_grace_period_s)
    if now >= silent_at and ready != UNKNOWN:
        action = TurnUnknown(node, last, tuple(_unknown(node)), was_ready=ready == TRUE)
        return Decision(
            why.Silent(round(now - last.at, 3)), (action,), again=True, done="the conditions are Unknown now"
        )
    wanted, outdated = _evicting_taint(node, ready, all_down=all_down)
    has_turn = wanted is not None and not outdated
    because = _reason(node, ready, waits=has_turn, all_down=all_down)
    taints = _taints(node, wanted if outdated or turn_s <= 0 else None, outdated)
    if taints.added or taints.removed:
        evicting = wanted if has_turn and turn_s <= 0 else None
        changed = msgspec.structs.replace(taints, evicting=evicting)
        return Decision(because, (changed,), again=True, done=_shown(changed))
    if labels := dict(_labels(node)):
        return Decision(because, (SetLabels(node, labels),), again=True, done="set the beta labels")
    waits = [
        *((max(0.0, silent_at - now),) if ready != UNKNOWN else ()),
        *((turn_s,) if has_turn and turn_s < math.inf else ()),
    ]
    return Decision(because, after_s=min(waits, default=None))


def _taints(node: Node, evicting: Taint | None, outdated: tuple[Taint, ...]) -> ChangeTaints:
    """All taints that change now. evicting: to be added. outdated: NoExecute taints that go."""
    wanted = _scheduling_taints(node)
    held = {
        taint.key for taint in node.spec.taints or () if taint.effect == NO_SCHEDULE and taint.key in _SCHEDULING_KEYS
    }
    added = tuple(Taint(key=key, effect=NO_SCHEDULE) for key in sorted(wanted - held))
    removed = tuple(Taint(key=key, effect=NO_SCHEDULE) for key in sorted(held - wanted))
    return ChangeTaints(node, (*added, *((evicting,) if evicting is not None else ())), (*removed, *outdated))


def _shown(change: ChangeTaints) -> str:
    signed = (*(("+", one) for one in change.added), *(("-", one) for one in change.removed))
    return f"changed taints: {', '.join(f'{sign}{one.key}:{one.effect}' for sign, one in signed)}"


class MarkUnready(msgspec.Struct, frozen=True):
    """Unless the pod's kubelet has spoken meanwhile."""

    pod: Pod


def decide_pod(pod: Pod, node: Node | None) -> Decision[MarkUnready]:
    """A pod is marked as not ready that says that it is, where its node is not."""
    says_ready = any(one.type == READY and one.status != FALSE for one in pod.status.conditions or ())
    if node is None or not says_ready or readiness(node) in ("", TRUE):
        return Decision(why.AsItShouldBe())
    return Decision(
        why.OnUnwellNode(pod.spec.node_name, readiness(node)), (MarkUnready(pod),), done="marked as not ready"
    )


def _unknown(node: Node) -> Iterator[dict[str, Any]]:
    """The conditions that the kubelet no longer stands for, each as it is to be."""
    for type in POSTED:
        condition = condition_of(node, type)
        if condition is None:
            never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            yield {"type": type, "status": UNKNOWN, **never, "lastHeartbeatTime": node.metadata.creation_timestamp}
        elif condition.status != UNKNOWN:
            stopped = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            yield {"type": type, "status": UNKNOWN, **stopped}


def _scheduling_taints(node: Node) -> frozenset[str]:
    of_conditions = {TAINTS.get((one.type, one.status), "") for one in node.status.conditions or ()}
    return frozenset((of_conditions | ({UNSCHEDULABLE_TAINT} if node.spec.unschedulable else set())) - {""})


def _evicting_taint(node: Node, ready: str, *, all_down: bool) -> tuple[Taint | None, tuple[Taint, ...]]:
    """The NoExecute taint that the node lacks, and those that are to go."""
    held = [key for key in _EVICTING_KEYS if has_taint(node, key, NO_EXECUTE)]
    wanted = "" if all_down else TAINTS.get((READY, ready), "")
    gone = tuple(Taint(key=key, effect=NO_EXECUTE) for key in held if key != wanted) if ready or all_down else ()
    return (Taint(key=wanted, effect=NO_EXECUTE) if wanted and wanted not in held else None), gone


def _labels(node: Node) -> Iterator[tuple[str, str]]:
    """The beta labels follow the stable ones."""
    have = node.metadata.labels or {}
    for stable, beta in (OS_LABELS, ARCH_LABELS):
        if stable in have and have.get(beta) != have[stable]:
            yield beta, have[stable]


def _reason(node: Node, ready: str, *, waits: bool, all_down: bool) -> Because:
    if all_down and ready:
        return why.AllDown(ready)
    return why.WaitsForTurn(ready, zone_of(node)) if waits else why.Is(ready or "missing")
