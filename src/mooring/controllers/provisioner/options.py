"""The provisioner's flags, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses

from mooring.control.queue import BackOff, retry_backoff


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The flags and gates that judgements depend on, under their names."""

    volume_name_prefix: str = "pvc"
    volume_name_uuid_length: int = -1
    default_fstype: str = ""
    extra_create_metadata: bool = False
    strict_topology: bool = False
    immediate_topology: bool = True
    controller_publish_readonly: bool = False
    prevent_volume_mode_conversion: bool = True
    topology: bool = True
    volume_attributes_class: bool = True
    cross_namespace_data_source: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class NodeOptions:
    """Distributed provisioning. node_name: of the node that this instance serves."""

    node_name: str
    immediate_binding: bool = True
    base_delay_s: float = 20.0
    max_delay_s: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class CapacityOptions:
    """Storage capacity objects. namespace, pod_name: where this process runs. owner_level: -1 for no owner.

    qps, burst: the limit of requests that publish; None for no limit.
    """

    namespace: str
    pod_name: str = ""
    threads: int = 1
    poll_interval_s: float = 60.0
    for_immediate_binding: bool = False
    owner_level: int = 1
    qps: float | None = None
    burst: int = 5


@dataclasses.dataclass(frozen=True, slots=True)
class ProvisionerOptions:
    """capacity, node: None when they are off."""

    rules: Rules = Rules()
    timeout_s: float = 10.0
    worker_threads: int = 100
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    resync_s: float = 900.0
    cloning_protection_threads: int = 1
    snapshot_orphan_sweep_interval_s: float = 300.0
    capacity: CapacityOptions | None = None
    node: NodeOptions | None = None

    @property
    def backoff(self) -> BackOff:
        """Of every queue: the intervals that the flags say."""
        return retry_backoff(self.retry_interval_start_s, self.retry_interval_max_s)
