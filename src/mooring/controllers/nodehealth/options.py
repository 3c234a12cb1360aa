"""The options of node health: kube-controller-manager's flags, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses
from typing import Final

LIFECYCLE: Final = "node-lifecycle-controller"
EVICTION: Final = "taint-eviction-controller"
POD_GC: Final = "pod-garbage-collector-controller"
PARTS: Final = (LIFECYCLE, EVICTION, POD_GC)
"""As kube-controller-manager calls them."""


@dataclasses.dataclass(frozen=True, slots=True)
class NodeHealthOptions:
    """parts: those that run. node_monitor_grace_period_s: the silence after which a node is unknown; before its first status
    node_startup_grace_period_s.

    node_eviction_rate: nodes a second that get a NoExecute taint, in each zone. Where at least three nodes and unhealthy_zone_threshold
    of a zone are not ready it is secondary_node_eviction_rate, or 0 in a zone of large_cluster_size_threshold nodes or fewer.
    terminated_pod_gc_threshold: pods that have ended and may stay, 0 or less for any number. quarantine_s: how long a node has to be
    missing before its pods are removed.
    """

    parts: frozenset[str] = frozenset(PARTS)
    node_monitor_grace_period_s: float = 50.0
    node_startup_grace_period_s: float = 60.0
    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55
    terminated_pod_gc_threshold: int = 12500
    quarantine_s: float = 40.0
