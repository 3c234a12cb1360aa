"""Whether a pod may be on a node at all, whatever its volumes. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.core import Node, Taint
from mooring.api.matching import node_matches
from mooring.api.pods import Pod, Toleration
from mooring.controllers.scheduler import reasons as why
from mooring.controllers.scheduler.view import is_ready

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def why_not_here(pod: Pod, node: Node) -> str:
    """What keeps the pod from this node, "" for nothing. Resources, ports and the company of other pods don't count here."""
    tolerations = pod.spec.tolerations or ()
    if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE, tolerations):
        return why.UNSCHEDULABLE
    if any(taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(taint, tolerations) for taint in node.spec.taints or ()):
        return why.TAINTED
    if not is_ready(node):
        return why.NOT_READY
    return "" if _wanted(pod, node) else why.SELECTOR


def _wanted(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels or {}
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or node_matches(required, labels, node.metadata.name)


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(one, taint) for one in tolerations)


def _tolerates(one: Toleration, taint: Taint) -> bool:
    if one.effect and one.effect != taint.effect:
        return False
    if one.key and one.key != taint.key:
        return False
    if not one.key and one.operator != "Exists":
        return False
    return one.operator == "Exists" or one.value == taint.value
