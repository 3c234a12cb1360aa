"""The fields and indexes that the caches of node health keep, and the facts that its decisions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.api.core import Node, Taint
from mooring.api.nodes import READY, TRUE, readiness
from mooring.api.pods import Pod
from mooring.control.reasons import reason
from mooring.control.slim import items, only, slim

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
NOT_READY_TAINT: Final = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT: Final = "node.kubernetes.io/unreachable"
DISRUPTION_TARGET: Final = "DisruptionTarget"
POD_SCHEDULED: Final = "PodScheduled"
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
ARCH_LABELS: Final = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
_ZONES: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGIONS: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")

NODE: Final = slim(
    metadata=slim("creation_timestamp", labels=only(EXCLUDED, *OS_LABELS, *ARCH_LABELS, *_ZONES, *_REGIONS)),
    spec=slim("taints", "unschedulable"),
    status=slim("conditions"),
)
LEASE: Final = slim(metadata=slim(), spec=slim("renew_time"))
POD: Final = slim(
    metadata=slim("creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds", "generation"),
    spec=slim("node_name", "tolerations"),
    status=slim("phase", "reason", conditions=items(lambda one: one.type in (READY, DISRUPTION_TARGET, POD_SCHEDULED))),
)

BY_NODE: Final = "nodehealth/node"
TERMINATED: Final = "nodehealth/terminated"
YES: Final = "yes"
POD_INDEXES: Final[Mapping[str, Callable[[Pod], Iterable[str]]]] = {
    BY_NODE: lambda pod: (pod.spec.node_name,) if pod.spec.node_name else (),
    TERMINATED: lambda pod: (YES,) if is_terminated(pod) else (),
}


@reason('"{name}" does not exist: nothing to do')
class Gone:
    name: str


def is_terminated(pod: Pod) -> bool:
    return pod.status.phase not in ("Pending", "Running", "Unknown")


def no_execute_taints(node: Node | None) -> tuple[Taint, ...]:
    """The taints that cost the node its pods. Those of node health do not on a node that is ready: they are about to
    go, and where no process took them off, the time that pods tolerate them may be over.
    """
    found = (one for one in (node.spec.taints if node is not None else None) or () if one.effect == NO_EXECUTE)
    return tuple(one for one in found if one.key not in (NOT_READY_TAINT, UNREACHABLE_TAINT) or readiness(node) != TRUE)


def zone_of(node: Node) -> str:
    """Region and zone of the node's labels, "" for a node without either."""
    labels = node.metadata.labels or {}
    region, zone = (next((labels[name] for name in names if name in labels), "") for names in (_REGIONS, _ZONES))
    return f"{region}/{zone}" if region or zone else ""
