"""The alerts. Each has a page docs/runbooks/NAME.md, and a test that makes it fire by a fault (tests/unit/monitoring).

They go by job and container, since a ServiceMonitor gives all sidecars of a pod one job. A threshold is well beyond
anything that heals by itself: back-off ends at five minutes, and a node has six before its volumes are detached by
force.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

MINUTE: Final = 60
HOUR: Final = 3600

_OF_CSI: Final = (
    '{__name__=~"mooring_build_info|csi_sidecar_operations_seconds_count|snapshot_controller_operations_in_flight"}'
)
"""The programs of the CSI control plane: others have queues as well."""


@dataclasses.dataclass(frozen=True, slots=True)
class Alert:
    """expr: true is bad. after: how long, as Prometheus writes it. summary, description: with its templates.

    go_too: the Go sidecars, or kube-controller-manager, have the metric as well.
    """

    name: str
    expr: str
    after: str
    severity: str
    summary: str
    description: str
    go_too: bool = False

    @property
    def runbook(self) -> str:
        """The page's path in this project."""
        return f"docs/runbooks/{self.name}.md"

    def rule(self) -> Mapping[str, Any]:
        """As Prometheus reads it."""
        notes = {"summary": self.summary, "description": self.description, "runbook_url": self.runbook}
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.after,
            "labels": {"severity": self.severity},
            "annotations": notes,
        }


ALERTS: Final = (
    Alert(
        "MooringDriverLost",
        "min by (namespace, pod, driver_name) (mooring_driver_connected) == 0",
        "2m",
        "critical",
        "{{ $labels.pod }} has lost its CSI driver",
        "Pod {{ $labels.namespace }}/{{ $labels.pod }} has no connection to driver {{ $labels.driver_name }}: "
        "it makes, attaches, grows "
        "and deletes no volume. (unknown-driver: it has not been reached since the pod started.)",
    ),
    Alert(
        "MooringNoLeader",
        "max by (namespace, job, container, lease) (mooring_leader) == 0\n"
        'or (max by (namespace, job, container) (leader_election_master_status{name=""}) == 0'
        " unless on (namespace, job, container) mooring_leader)",
        "3m",
        "critical",
        "Nobody leads {{ $labels.job }} {{ $labels.container }}",
        "All replicas of {{ $labels.job }} {{ $labels.container }} in {{ $labels.namespace }} stand by"
        "{{ with $labels.lease }} for Lease {{ . }}{{ end }}: its work is left undone.",
        go_too=True,
    ),
    Alert(
        "MooringWatchBroken",
        "min by (namespace, pod, container, resource) (mooring_watch_healthy) == 0",
        "10m",
        "critical",
        "{{ $labels.pod }} {{ $labels.container }} does not see {{ $labels.resource }}",
        "Pod {{ $labels.namespace }}/{{ $labels.pod }} can't list or watch {{ $labels.resource }}: it acts on "
        "what it knew before, or not "
        "at all.",
    ),
    Alert(
        "MooringQueueStuck",
        "max by (namespace, job, container, name) (workqueue_longest_running_processor_seconds"
        f" and on (namespace, job, container) {_OF_CSI}) > {15 * MINUTE}",
        "1m",
        "critical",
        "A worker of {{ $labels.name }} hangs",
        "A worker of queue {{ $labels.name }} in {{ $labels.job }} has one key for {{ $value | "
        "humanizeDuration }}. No call to a driver or "
        "an API server takes that long.",
        go_too=True,
    ),
    Alert(
        "MooringKeyStuck",
        f"max by (namespace, job, container, name) (mooring_oldest_key_seconds) > {30 * MINUTE}",
        "5m",
        "warning",
        "Something in {{ $labels.name }} has failed for {{ $value | humanizeDuration }}",
        "The oldest key of queue {{ $labels.name }} in {{ $labels.job }} has failed, or waited for a worker, for "
        "{{ $value | humanizeDuration }} without a success.",
    ),
    Alert(
        "MooringCallsFail",
        "sum by (namespace, job, container, driver_name, method_name, grpc_status_code) (\n"
        '  increase(csi_sidecar_operations_seconds_count{grpc_status_code!~"OK|Aborted"}[15m])\n'
        '  or increase(csi_operations_seconds_count{grpc_status_code!~"OK|Aborted"}[15m])\n'
        ") >= 5",
        "5m",
        "warning",
        "{{ $labels.method_name }} fails with {{ $labels.grpc_status_code }}",
        "Driver {{ $labels.driver_name }} has refused {{ $labels.method_name }} {{ $value | humanize }} times "
        "in 15 minutes with "
        "{{ $labels.grpc_status_code }}, asked by {{ $labels.job }}.",
        go_too=True,
    ),
    Alert(
        "MooringIntentsOld",
        f"max by (namespace, job, container) (mooring_provisioner_intents_oldest_seconds) > {15 * MINUTE}",
        "1m",
        "warning",
        "A volume is in the making for {{ $value | humanizeDuration }}",
        "{{ $labels.job }} has asked for a volume {{ $value | humanizeDuration }} ago, and does not know yet "
        "whether it exists. If its "
        "claim goes, the volume may be left behind.",
    ),
    Alert(
        "MooringIntentsNotStored",
        "max by (namespace, job, container) (mooring_provisioner_intents_in_memory) == 1",
        "5m",
        "warning",
        "{{ $labels.job }} {{ $labels.container }} has no right to store its intents",
        "The provisioner in {{ $labels.namespace }} keeps in memory which volumes are in the making. If its "
        "process is killed meanwhile, a "
        "volume may be left behind.",
    ),
    Alert(
        "MooringMultiAttachBlocked",
        "sum by (namespace, job, container, class) (multi_attach_blocked) > 0",
        "10m",
        "warning",
        "{{ $value }} volumes wait for another node to let go",
        "{{ $value }} volumes are wanted on a node while another one has them, and that does not end by "
        "itself. Kind of holder: "
        "{{ $labels.class }}.",
    ),
    Alert(
        "MooringGrowthStuck",
        "max by (namespace, job, container, waits_for) "
        f'(mooring_resizer_growths_oldest_seconds{{waits_for!="node"}}) > {15 * MINUTE}\n'
        "or max by (namespace, job, container, waits_for) "
        f'(mooring_resizer_growths_oldest_seconds{{waits_for="node"}}) > {HOUR}',
        "5m",
        "warning",
        "A volume does not grow for {{ $value | humanizeDuration }}",
        "A claim waits for {{ $value | humanizeDuration }} for its growth. The move is up to: {{ $labels.waits_for }}.",
    ),
    Alert(
        "MooringSnapshotStuck",
        "max by (namespace, job, container, operation_name)"
        f' (mooring_snapshot_oldest_seconds{{operation_name!~".*AndReady"}}) > {15 * MINUTE}\n'
        "or max by (namespace, job, container, operation_name)"
        f' (mooring_snapshot_oldest_seconds{{operation_name=~".*AndReady"}}) > {6 * HOUR}',
        "5m",
        "warning",
        "{{ $labels.operation_name }} takes {{ $value | humanizeDuration }}",
        "The oldest {{ $labels.operation_name }} is under way for {{ $value | humanizeDuration }}.",
    ),
)
