"""The options of node health: kube-controller-manager's flags, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.flagkinds import DURATION, FLOAT, INT
from mooring.base.flags import flag

LIFECYCLE: Final = "node-lifecycle-controller"
EVICTION: Final = "taint-eviction-controller"
POD_GC: Final = "pod-garbage-collector-controller"
PARTS: Final = (LIFECYCLE, EVICTION, POD_GC)
"""The controllers, as kube-controller-manager calls them."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeHealthOptions:
    """The options of the three controllers. Only `parts` and `quarantine_s` have no flag."""

    #: The controllers that run.
    parts: frozenset[str] = frozenset(PARTS)
    node_monitor_grace_period_s: float = flag(
        "node-monitor-grace-period", DURATION, 50.0, "The silence after which a node is unknown."
    )
    node_startup_grace_period_s: float = flag(
        "node-startup-grace-period", DURATION, 60.0, "The grace period before a node's first status."
    )
    node_eviction_rate: float = flag(
        "node-eviction-rate", FLOAT, 0.1, "Nodes a second, in each zone, whose pods begin to be evicted."
    )
    secondary_node_eviction_rate: float = flag(
        "secondary-node-eviction-rate", FLOAT, 0.01, "That rate in a zone where many nodes are not ready."
    )
    large_cluster_size_threshold: int = flag(
        "large-cluster-size-threshold", INT, 50, "In a zone of this many nodes or fewer, the secondary rate is 0."
    )
    #: Fewer than three nodes that are not ready are never many.
    unhealthy_zone_threshold: float = flag(
        "unhealthy-zone-threshold",
        FLOAT,
        0.55,
        "The share of nodes not ready at which a zone takes the secondary rate.",
    )
    terminated_pod_gc_threshold: int = flag(
        "terminated-pod-gc-threshold", INT, 12500, "Pods that have ended and may stay; 0 for any number."
    )
    #: How long a node has to be missing before its pods are removed.
    quarantine_s: float = 40.0
