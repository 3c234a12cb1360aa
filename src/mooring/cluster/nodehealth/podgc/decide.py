"""Which pods are to be removed since no kubelet will do it. Pure.

Source: kube-controller-manager 1.36, pkg/controller/podgc. Differs: by event and not every 20 s, and a pod that finalizers keep after its
removal is not removed again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from mooring.api.core import Node
from mooring.api.meta import is_deleting
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, TRUE, has_taint, readiness
from mooring.api.pods import Pod
from mooring.base.clock import Instant
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.view import is_terminated
from mooring.control.decision import Decision
from mooring.control.result import Because

FINISHED = ("Succeeded", "Failed")


class Cause(enum.Enum):
    """As the metric calls it."""

    ORPHANED = "orphaned"
    OUT_OF_SERVICE = "out-of-service"
    TERMINATED = "terminated"
    UNSCHEDULED = "unscheduled"


class Absence(msgspec.Struct, frozen=True):
    """The absence of a node that pods name. since: when this process found it missing.

    confirmed: the uids of the pods that were known when the API server was asked, and did not have the node either. A pod that comes
    later may be on a new node of that name, which the cache does not show yet.
    """

    since: Instant
    confirmed: frozenset[str] = frozenset()


class Remove(msgspec.Struct, frozen=True):
    """By force."""

    pod: Pod
    cause: Cause


class AskForNode(msgspec.Struct, frozen=True):
    """Whether the API server has the node that the cache lacks."""

    name: str


Action: TypeAlias = Remove | AskForNode


def decide_pod(
    pod: Pod, node: Node | None, absence: Absence | None, now: Instant, quarantine_s: float
) -> Decision[Action]:
    """absence: of the pod's node, where there is no node."""
    node_name = pod.spec.node_name
    if is_removed(pod):
        return Decision(why.Removed())
    if not node_name:
        return _removed(pod, Cause.UNSCHEDULED, why.Unscheduled()) if is_deleting(pod) else Decision(why.Kept())
    if node is not None:
        return _on_node(pod, node)
    assert absence is not None
    if pod.metadata.uid in absence.confirmed:
        return _removed(pod, Cause.ORPHANED, why.NodeGone(node_name))
    left_s = absence.since + quarantine_s - now
    if left_s > 0:
        return Decision(why.NodeMissing(node_name, round(left_s, 3)), after_s=left_s)
    return Decision(why.NodeMissing(node_name, 0.0), (AskForNode(node_name),), again=True)


def _on_node(pod: Pod, node: Node) -> Decision[Action]:
    if is_deleting(pod) and readiness(node) != TRUE and has_taint(node, OUT_OF_SERVICE_TAINT):
        return _removed(pod, Cause.OUT_OF_SERVICE, why.OutOfService(node.metadata.name))
    return Decision(why.Kept())


def _removed(pod: Pod, cause: Cause, because: Because) -> Decision[Action]:
    return Decision(because, (Remove(pod, cause),), done="removed by force")


def is_removed(pod: Pod) -> bool:
    """True for a pod that was deleted without grace: only its finalizers keep it."""
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0 and pod.status.phase in FINISHED


def decide_terminated(pods: Iterable[Pod], threshold: int) -> Decision[Remove]:
    """The pods that have ended and are to go: evicted ones first, then the oldest. One that only its finalizers keep counts, and stays."""
    ended = [pod for pod in pods if is_terminated(pod)]
    surplus = len(ended) - threshold if threshold > 0 else 0
    if surplus <= 0:
        return Decision(why.FewEnough())
    actions = tuple(Remove(pod, Cause.TERMINATED) for pod in sorted(ended, key=_order)[:surplus] if not is_removed(pod))
    return Decision(why.TooMany(len(ended), threshold), actions, done=f"removed {surplus} pods that had ended")


def _order(pod: Pod) -> tuple[bool, str, str]:
    is_evicted = (pod.status.phase, pod.status.reason) == ("Failed", "Evicted")
    return not is_evicted, pod.metadata.creation_timestamp or "", pod.metadata.name
