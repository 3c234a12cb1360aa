"""What each dashboard shows: one for each role, and one for the whole plane. Those of single values stand at the
top.
"""

from __future__ import annotations

from typing import Final

from hack.monitoring.grafana import Dashboard, Panel

_CHOSEN: Final = 'namespace=~"$namespace", job=~"$job", container=~"$container"'
_RATE: Final = "$__rate_interval"


def _p99(metric: str, by: str, more: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({metric}_bucket{{{_CHOSEN}{more}}}[{_RATE}])))"


def _calls(metric: str = "csi_sidecar_operations_seconds") -> tuple[Panel, ...]:
    """The driver's answers."""
    by_code = f"sum by (method_name, grpc_status_code) (rate({metric}_count{{{_CHOSEN}}}[{_RATE}]))"
    return (
        Panel("Calls to the driver", by_code, "{{method_name}} {{grpc_status_code}}", "reqps"),
        Panel("Calls to the driver: 99th percentile", _p99(metric, "method_name"), "{{method_name}}", "s"),
    )


_STATE: Final = (
    Panel(
        "Leaders",
        f"sum(max by (namespace, lease) (mooring_leader{{{_CHOSEN}}}))",
        kind="stat",
        description="Leases that are held.",
    ),
    Panel("Broken watches", f"count(mooring_watch_healthy{{{_CHOSEN}}} == 0) or vector(0)", kind="stat"),
    Panel("Failing keys", f"sum(mooring_failing_keys{{{_CHOSEN}}})", kind="stat"),
)
_DRIVER: Final = Panel(
    "Driver connected",
    f"min(mooring_driver_connected{{{_CHOSEN}}})",
    kind="stat",
    description="0: at least one pod has lost its driver.",
)
_QUEUES: Final = (
    Panel(
        "Oldest key",
        f"max by (name) (mooring_oldest_key_seconds{{{_CHOSEN}}})",
        "{{name}}",
        "s",
        description="Waiting for a worker, in hand, or failing without a success since.",
    ),
    Panel("Failing keys", f"sum by (name) (mooring_failing_keys{{{_CHOSEN}}})", "{{name}}"),
    Panel("Keys that wait", f"sum by (name) (workqueue_depth{{{_CHOSEN}}})", "{{name}}"),
    Panel("Work on a key: 99th percentile", _p99("workqueue_work_duration_seconds", "name"), "{{name}}", "s"),
)
_PROCESS: Final = (
    Panel(
        "Processor", f"rate(process_cpu_seconds_total{{{_CHOSEN}}}[{_RATE}])", "{{pod}} {{container}}", "percentunit"
    ),
    Panel("Memory", f"process_resident_memory_bytes{{{_CHOSEN}}}", "{{pod}} {{container}}", "bytes"),
)
_STEPS: Final = Panel(
    "Attaches and detaches: 99th percentile",
    _p99("storage_operation_duration_seconds", "operation_name"),
    "{{operation_name}}",
    "s",
)

DASHBOARDS: Final = (
    Dashboard(
        "plane",
        "Mooring: the whole plane",
        "mooring_build_info",
        (
            Panel("Programs", f"count(mooring_build_info{{{_CHOSEN}}})", kind="stat"),
            _DRIVER,
            *_STATE[1:],
            Panel(
                "Volumes in the making, oldest",
                f"max by (job) (mooring_provisioner_intents_oldest_seconds{{{_CHOSEN}}})",
                "{{job}}",
                "s",
            ),
            Panel(
                "Volumes that wait for another node",
                f"sum by (class) (multi_attach_blocked{{{_CHOSEN}}}) or vector(0)",
                "{{class}}",
            ),
            Panel(
                "Failed calls",
                "sum by (driver_name, method_name, grpc_status_code) "
                f"(rate(csi_sidecar_operations_seconds_count{{{_CHOSEN}, "
                f'grpc_status_code!="OK"}}[{_RATE}])) or vector(0)',
                "{{driver_name}} {{method_name}} {{grpc_status_code}}",
                "reqps",
            ),
            Panel(
                "Calls",
                f"sum by (method_name) (rate(csi_sidecar_operations_seconds_count{{{_CHOSEN}}}[{_RATE}]))",
                "{{method_name}}",
                "reqps",
            ),
            *_QUEUES[:2],
            Panel("Who leads", f"mooring_leader{{{_CHOSEN}}}", "{{lease}}: {{pod}}"),
            Panel(
                "Builds",
                f"count by (version, python) (mooring_build_info{{{_CHOSEN}}})",
                "{{version}}, Python {{python}}",
            ),
            *_PROCESS,
        ),
    ),
    Dashboard(
        "attacher",
        "Mooring: attacher",
        'workqueue_depth{name="csi-attacher-va"}',
        (_DRIVER, *_STATE, *_calls(), *_QUEUES, *_PROCESS),
    ),
    Dashboard(
        "provisioner",
        "Mooring: provisioner",
        "mooring_provisioner_intents_open",
        (
            _DRIVER,
            *_STATE,
            Panel("Volumes in the making", f"sum by (job) (mooring_provisioner_intents_open{{{_CHOSEN}}})", "{{job}}"),
            Panel(
                "The oldest of them",
                f"max by (job) (mooring_provisioner_intents_oldest_seconds{{{_CHOSEN}}})",
                "{{job}}",
                "s",
            ),
            Panel(
                "Volumes made",
                f"sum by (class) (rate(controller_persistentvolumeclaim_provision_total{{{_CHOSEN}}}[{_RATE}]))",
                "{{class}}",
                "ops",
            ),
            Panel(
                "Volumes deleted",
                f"sum by (class) (rate(controller_persistentvolume_delete_total{{{_CHOSEN}}}[{_RATE}]))",
                "{{class}}",
                "ops",
            ),
            *_calls(),
            *_QUEUES,
            *_PROCESS,
        ),
    ),
    Dashboard(
        "resizer",
        "Mooring: resizer",
        "mooring_resizer_growths_open",
        (
            _DRIVER,
            *_STATE,
            Panel("Growths", f"sum by (waits_for) (mooring_resizer_growths_open{{{_CHOSEN}}})", "{{waits_for}}"),
            Panel(
                "The oldest growth",
                f"max by (waits_for) (mooring_resizer_growths_oldest_seconds{{{_CHOSEN}}})",
                "{{waits_for}}",
                "s",
            ),
            *_calls(),
            *_QUEUES,
            *_PROCESS,
        ),
    ),
    Dashboard(
        "snapshots",
        "Mooring: snapshots",
        'workqueue_depth{name=~"snapshot-controller-.*|csi-snapshotter-.*"}',
        (
            _DRIVER,
            *_STATE,
            Panel("Operations", f"sum(snapshot_controller_operations_in_flight{{{_CHOSEN}}})", "in flight"),
            Panel(
                "The oldest operation",
                f"max by (operation_name) (mooring_snapshot_oldest_seconds{{{_CHOSEN}}})",
                "{{operation_name}}",
                "s",
            ),
            Panel(
                "Operations: 99th percentile",
                _p99("snapshot_controller_operation_total_seconds", "operation_name"),
                "{{operation_name}}",
                "s",
            ),
            Panel(
                "Ended operations",
                "sum by (operation_name, operation_status) "
                f"(rate(snapshot_controller_operation_total_seconds_count{{{_CHOSEN}}}[{_RATE}]))",
                "{{operation_name}} {{operation_status}}",
                "ops",
            ),
            *_calls(),
            *_QUEUES,
            *_PROCESS,
        ),
    ),
    Dashboard(
        "attachdetach",
        "Mooring: attach/detach controller",
        'workqueue_depth{name="attachdetach-volumes"}',
        (
            *_STATE,
            Panel(
                "Forced detaches",
                f"sum(attach_detach_controller_attachdetach_controller_forced_detaches{{{_CHOSEN}}})",
                kind="stat",
            ),
            Panel(
                "Volumes that wait for another node",
                f"sum by (class) (multi_attach_blocked{{{_CHOSEN}}}) or vector(0)",
                "{{class}}",
            ),
            Panel("Volumes", f"sum by (state) (attachdetach_controller_total_volumes{{{_CHOSEN}}})", "{{state}}"),
            _STEPS,
            Panel(
                "Volumes in use", f"sum by (node) (storage_count_attachable_volumes_in_use{{{_CHOSEN}}})", "{{node}}"
            ),
            *_QUEUES,
            *_PROCESS,
        ),
    ),
    Dashboard(
        "node",
        "Mooring: nodes",
        'workqueue_depth{name="node-volumes"}',
        (
            _DRIVER,
            *_STATE[1:],
            Panel("Volumes", f"sum by (state) (volume_manager_total_volumes{{{_CHOSEN}}})", "{{state}}"),
            Panel(
                "Steps: 99th percentile",
                _p99("storage_operation_duration_seconds", "operation_name"),
                "{{operation_name}}",
                "s",
            ),
            Panel(
                "Failed steps",
                "sum by (operation_name) "
                f'(rate(storage_operation_duration_seconds_count{{{_CHOSEN}, status!="success"}}[{_RATE}])) or '
                "vector(0)",
                "{{operation_name}}",
                "ops",
            ),
            Panel(
                "Until a volume is there for a pod: 99th percentile",
                _p99("volume_operation_total_seconds", "operation_name"),
                "{{operation_name}}",
                "s",
            ),
            *_calls("csi_operations_seconds"),
            *_QUEUES,
            *_PROCESS,
        ),
    ),
)
