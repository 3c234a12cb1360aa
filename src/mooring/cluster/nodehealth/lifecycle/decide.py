"""The life of a node: its last sign of life, and the conditions, taints and labels that follow from what it reports.
Pure.

Only the clock of this process counts: the times in a Lease and a status may come from a wrong clock. Only a Node
without a status counts from its creationTimestamp, which is of the API server's clock.

Source: kube-controller-manager 1.36, pkg/controller/nodelifecycle. Differs: a start of the controller takes no taints
off nodes that are not ready, and taints change by one write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.coordination import Lease
from mooring.api.core import Node
from mooring.api.nodes import FALSE, READY, TRUE, UNKNOWN, condition_of, readiness
from mooring.api.pods import Pod
from mooring.base.clock import Instant, parse_rfc3339
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
from mooring.control.reasons import reason
from mooring.control.result import Because

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
"""The NoSchedule taint of a condition with this status. The taints of Ready also come with NoExecute."""
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"

TaintId: TypeAlias = tuple[str, str]
"""Key and effect: a node has one taint of each. The value does not matter here."""

_SCHEDULING: Final = frozenset((key, NO_SCHEDULE) for key in (*TAINTS.values(), UNSCHEDULABLE_TAINT))
_EVICTING: Final = ((NOT_READY_TAINT, NO_EXECUTE), (UNREACHABLE_TAINT, NO_EXECUTE))

# -- signs of life


class LastHeartbeat(msgspec.Struct, frozen=True):
    """The last sign of life of a node."""

    #: When this process saw it.
    at: Instant
    #: The node has the condition Ready.
    has_ready: bool
    #: The heartbeat of that condition, as last seen.
    heartbeat: str | None = None
    #: The renewTime of the Lease, as last seen.
    renewed: str | None = None


def heartbeat_of_node(before: LastHeartbeat | None, node: Node, now: Instant, wall_s: float) -> LastHeartbeat:
    """Return the last sign of life after a change of the node: a first status, a lost one, and each heartbeat are
    signs. A node that comes without a status counts from its creation.
    """
    ready = condition_of(node, READY)
    has_ready, heartbeat = ready is not None, ready.last_heartbeat_time if ready is not None else None
    if before is None:
        created = node.metadata.creation_timestamp
        age_s = max(0.0, wall_s - parse_rfc3339(created)) if created and not has_ready else 0.0
        return LastHeartbeat(now - age_s, has_ready, heartbeat)
    if (before.has_ready, before.heartbeat) == (has_ready, heartbeat):
        return before
    return LastHeartbeat(now, has_ready, heartbeat, before.renewed)


def heartbeat_of_lease(before: LastHeartbeat, lease: Lease | None, now: Instant) -> LastHeartbeat:
    """Return the last sign of life after a change of the Lease."""
    renewed = lease.spec.renew_time if lease is not None else None
    if renewed is None or renewed == before.renewed:
        return before
    # An earlier renewTime is a sign of life, too: a node's clock may be set back.
    return msgspec.structs.replace(before, at=now, renewed=renewed)


# -- reasons


@reason("nothing was heard of it for {silent_s:g} s")
class Silent:
    """Neither its Lease nor its status has changed."""

    silent_s: float


@reason("its condition Ready is {ready}")
class Is:
    #: "missing" for a node that has none.
    ready: str


@reason(
    "its condition Ready is {ready}, and no node of any zone is ready: that is more likely a broken network, "
    "so no pods are evicted"
)
class AllDown:
    ready: str


@reason('its condition Ready is {ready}; the nodes of zone "{zone}" that are not ready are tainted one after the other')
class WaitsForTurn:
    ready: str
    zone: str


@reason('the Ready condition of its node "{node_name}" is {ready}')
class OnUnwellNode:
    node_name: str
    ready: str


@reason("its node is well, or it is not ready already")
class AsItShouldBe:
    pass


# -- actions


class TurnUnknown(msgspec.Struct, frozen=True):
    """Write these conditions, unless the node or its Lease has changed meanwhile."""

    node: Node
    conditions: tuple[Mapping[str, Any], ...]
    #: The node was ready: users get an event.
    was_ready: bool


class ChangeTaints(msgspec.Struct, frozen=True):
    """Add and remove these taints in one write."""

    node: Node
    added: tuple[TaintId, ...] = ()
    removed: tuple[TaintId, ...] = ()
    #: A NoExecute taint is among the added ones, and takes its zone's turn.
    takes_turn: bool = False


class SetLabels(msgspec.Struct, frozen=True):
    """Set these labels."""

    node: Node
    labels: Mapping[str, str]


Action: TypeAlias = TurnUnknown | ChangeTaints | SetLabels


class MarkUnready(msgspec.Struct, frozen=True):
    """Set the pod's condition Ready to False, unless its kubelet has reported meanwhile."""

    pod: Pod


# -- decisions


def decide_node(
    node: Node,
    last: LastHeartbeat,
    now: Instant,
    options: NodeHealthOptions,
    *,
    turn_s: float = 0.0,
    all_down: bool = False,
) -> Decision[Action]:
    """Decide about one node: first its conditions, since the taints follow from these.

    turn_s: until a node of its zone may get a NoExecute taint. all_down: no node of any zone is ready.
    """
    ready = readiness(node)
    silent_at = last.at + (options.node_monitor_grace_period_s if ready else options.node_startup_grace_period_s)
    if now >= silent_at and ready != UNKNOWN:
        action = TurnUnknown(node, tuple(_unknown_conditions(node)), was_ready=ready == TRUE)
        because: Because = Silent(round(now - last.at, 3))
        return Decision(because, (action,), again=True, done="the conditions are Unknown now")

    # NoSchedule keeps new pods away and harms none that runs, so these taints follow the conditions at once.
    held = {(taint.key, taint.effect) for taint in node.spec.taints or ()}
    wanted = {(TAINTS.get((one.type, one.status), ""), NO_SCHEDULE) for one in node.status.conditions or ()}
    if node.spec.unschedulable:
        wanted.add((UNSCHEDULABLE_TAINT, NO_SCHEDULE))
    added, removed = sorted((wanted & _SCHEDULING) - held), sorted((held & _SCHEDULING) - wanted)

    # NoExecute costs the node its pods, so the nodes of a zone get it in turns. While no node is ready, taints that are
    # there cost no pods either. A node without a status keeps its taint until it has one.
    evicting = ("" if all_down else TAINTS.get((READY, ready), ""), NO_EXECUTE)
    outdated = [one for one in _EVICTING if one in held and one != evicting] if ready or all_down else []
    lacks_it = evicting in _EVICTING and evicting not in held
    # The pods of a node that goes from NotReady to Unknown have to leave already: that is no new turn.
    needs_turn = lacks_it and not outdated
    if lacks_it and (outdated or turn_s <= 0):
        added.append(evicting)
    removed += outdated

    if all_down and ready:
        because = AllDown(ready)
    else:
        because = WaitsForTurn(ready, zone_of(node)) if needs_turn else Is(ready or "missing")
    if added or removed:
        signed = (*(("+", one) for one in added), *(("-", one) for one in removed))
        done = f"changed taints: {', '.join(f'{sign}{key}:{effect}' for sign, (key, effect) in signed)}"
        change = ChangeTaints(node, tuple(added), tuple(removed), takes_turn=needs_turn and turn_s <= 0)
        return Decision(because, (change,), again=True, done=done)
    have = node.metadata.labels or {}
    pairs = ((beta, have.get(stable)) for stable, beta in (OS_LABELS, ARCH_LABELS))
    if labels := {beta: value for beta, value in pairs if value is not None and have.get(beta) != value}:
        return Decision(because, (SetLabels(node, labels),), again=True, done="set the beta labels")

    # Nothing wakes a node that falls silent, so it is due at the moment from which it would be.
    waits_s = [silent_at - now] if ready != UNKNOWN else []
    if needs_turn and turn_s < math.inf:
        waits_s.append(turn_s)
    return Decision(because, after_s=min(waits_s, default=None))


def _unknown_conditions(node: Node) -> Iterator[dict[str, Any]]:
    """Yield the conditions that the kubelet no longer stands for, each as it is to be."""
    for type in POSTED:
        condition = condition_of(node, type)
        if condition is None:
            never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            yield {"type": type, "status": UNKNOWN, **never, "lastHeartbeatTime": node.metadata.creation_timestamp}
        elif condition.status != UNKNOWN:
            stopped = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            yield {"type": type, "status": UNKNOWN, **stopped}


def decide_pod(pod: Pod, node: Node | None) -> Decision[MarkUnready]:
    """Decide about one pod: on a node that is not ready no pod is, since no kubelet would report that it is not."""
    ready = readiness(node)
    reports_ready = any(one.type == READY and one.status != FALSE for one in pod.status.conditions or ())
    if ready in ("", TRUE) or not reports_ready:
        return Decision(AsItShouldBe())
    return Decision(OnUnwellNode(pod.spec.node_name, ready), (MarkUnready(pod),), done="marked as not ready")
