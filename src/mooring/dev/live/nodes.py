"""The rows of nodes, from the API objects alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mooring.api.core import Node, Taint
from mooring.api.storage import CSINode
from mooring.controllers.binding.names import is_finished
from mooring.dev.live.board import READY, NodeRow, Objects

ZONE: Final = "topology.kubernetes.io/zone"
_STATES: Final = {"True": READY, "False": "NotReady"}
_EFFECTS: Final = ("NoExecute", "NoSchedule", "PreferNoSchedule")
"""The one that hinders most first."""


def node_rows(objects: Objects) -> Iterator[NodeRow]:
    """By name."""
    csi_nodes = {one.metadata.name: one for one in objects.csi_nodes}
    attached = Counter(one.spec.node_name for one in objects.attachments if one.status.attached)
    pods = Counter(pod.spec.node_name for pod in objects.pods if not is_finished(pod))
    for node in sorted(objects.nodes, key=lambda one: one.metadata.name):
        name = node.metadata.name
        csi_node = csi_nodes.get(name)
        yield NodeRow(name, state_of(node), _zone(node, csi_node), attached[name], _limit(csi_node), pods[name], tuple(_taints(node)))


def state_of(node: Node) -> str:
    """As kubectl shows it, but for a silent node: Unknown, which kubectl calls NotReady, too."""
    status = next((one.status for one in node.status.conditions or () if one.type == "Ready"), "")
    return _STATES.get(status, "Unknown")


def _zone(node: Node, csi_node: CSINode | None) -> str:
    """Its zone, or its place in the drivers' own topology."""
    labels = node.metadata.labels or {}
    keys = [ZONE, *(key for driver in (csi_node.spec.drivers if csi_node else None) or () for key in driver.topology_keys or ())]
    places = [labels[key] for key in dict.fromkeys(keys) if key in labels and key != "kubernetes.io/hostname"]
    return "/".join(places[:1] if ZONE in labels else dict.fromkeys(places))


def _limit(csi_node: CSINode | None) -> int | None:
    """Of all drivers together; None where one has no limit."""
    counts = [driver.allocatable.count if driver.allocatable else None for driver in (csi_node.spec.drivers if csi_node else None) or ()]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _taints(node: Node) -> Iterator[str]:
    """Each key once, with the effect that hinders most."""
    effects: dict[str, list[str]] = {}
    for taint in node.spec.taints or ():
        effects.setdefault(_short(taint), []).append(taint.effect)
    for name, given in sorted(effects.items()):
        yield f"{name}:{next((one for one in _EFFECTS if one in given), given[0])}"
    if node.spec.unschedulable and "unschedulable" not in effects:
        yield "unschedulable"


def _short(taint: Taint) -> str:
    """Kubernetes' own without their domain."""
    domain, _, name = taint.key.rpartition("/")
    return name if domain == "node.kubernetes.io" else taint.key
