"""The provisioner's flags, under their names. Durations in seconds.

Only one of these classes has slots: the table of the program's flags inherits all of them.
"""

from __future__ import annotations

import dataclasses

from mooring.base.backoff import BackOff, retry_backoff
from mooring.base.flagkinds import BOOL, DURATION, INT, STRING, UINT, GateStage
from mooring.base.flags import flag, gate


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The flags and gates that judgements depend on, under their names."""

    volume_name_prefix: str = flag("volume-name-prefix", STRING, "pvc", "Prefix of the name of a created volume.")
    volume_name_uuid_length: int = flag(
        "volume-name-uuid-length",
        INT,
        -1,
        "Characters of the claim's uid in the name of a created volume; -1 takes it as it is.",
    )
    default_fstype: str = flag(
        "default-fstype", STRING, "", "The filesystem type of volumes whose StorageClass names none."
    )
    extra_create_metadata: bool = flag(
        "extra-create-metadata",
        BOOL,
        False,
        "Tell the driver the names of claim and volume, as parameters of CreateVolume.",
    )
    strict_topology: bool = flag(
        "strict-topology", BOOL, False, "With a selected node, ask for a volume there and nowhere else."
    )
    immediate_topology: bool = flag(
        "immediate-topology",
        BOOL,
        True,
        "Without a selected node, ask for a volume anywhere in the cluster; false: send no topology.",
    )
    controller_publish_readonly: bool = flag(
        "controller-publish-readonly",
        BOOL,
        False,
        "Mark volumes with ReadOnlyMany as their only access mode as read-only.",
    )
    prevent_volume_mode_conversion: bool = flag(
        "prevent-volume-mode-conversion",
        BOOL,
        True,
        "Refuse to restore a snapshot in another volume mode, unless its content allows it.",
    )
    topology: bool = gate("Topology", GateStage.GA, True)
    volume_attributes_class: bool = gate("VolumeAttributesClass", GateStage.GA, True)
    cross_namespace_data_source: bool = gate("CrossNamespaceVolumeDataSource", GateStage.ALPHA, False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Distributed provisioning."""

    #: The node that this instance serves.
    node_name: str
    immediate_binding: bool = flag(
        "node-deployment-immediate-binding",
        BOOL,
        True,
        "With node-deployment: take claims with immediate binding, too.",
    )
    base_delay_s: float = flag(
        "node-deployment-base-delay",
        DURATION,
        20.0,
        "With node-deployment: the first wait before it takes a claim with immediate binding.",
    )
    max_delay_s: float = flag(
        "node-deployment-max-delay", DURATION, 60.0, "With node-deployment: how long to wait at the most."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CapacityOptions:
    """Storage capacity objects."""

    #: The namespace and the pod that this process runs in.
    namespace: str
    pod_name: str = ""
    threads: int = flag("capacity-threads", UINT, 1, "How many GetCapacity calls run at once at the most.")
    poll_interval_s: float = flag(
        "capacity-poll-interval", DURATION, 60.0, "How often all capacity is asked for again."
    )
    for_immediate_binding: bool = flag(
        "capacity-for-immediate-binding", BOOL, False, "Publish capacity for classes with immediate binding, too."
    )
    owner_level: int = flag(
        "capacity-ownerref-level",
        INT,
        1,
        "The owner of capacity objects: -1 none, 0 the pod, 1 its controller, 2 the controller of that, ...",
    )
    #: The limit of requests that publish, with burst; None for no limit.
    qps: float | None = None
    burst: int = 5


@dataclasses.dataclass(frozen=True)
class ProvisionerOptions:
    """The options of the provisioner."""

    rules: Rules = Rules()
    timeout_s: float = flag("timeout", DURATION, 10.0, "Timeout for waiting for creation or deletion of a volume.")
    worker_threads: int = flag(
        "worker-threads", UINT, 100, "How many volumes are created, and how many deleted, at once at the most."
    )
    retry_interval_start_s: float = flag(
        "retry-interval-start",
        DURATION,
        1.0,
        "Initial retry interval of failed provisioning or deletion. It doubles with each failure.",
    )
    retry_interval_max_s: float = flag(
        "retry-interval-max", DURATION, 300.0, "Maximum retry interval of failed provisioning or deletion."
    )
    resync_s: float = 900.0
    cloning_protection_threads: int = flag(
        "cloning-protection-threads", UINT, 1, "Workers that release the sources of clones."
    )
    snapshot_orphan_sweep_interval_s: float = flag(
        "snapshot-orphan-sweep-interval",
        DURATION,
        300.0,
        "How often snapshots that no claim needs any more are released; 0 is never.",
    )
    #: The options of each part, None when it is off.
    capacity: CapacityOptions | None = None
    node: NodeOptions | None = None

    @property
    def backoff(self) -> BackOff:
        """The back-off of every queue, with the intervals of the flags."""
        return retry_backoff(self.retry_interval_start_s, self.retry_interval_max_s)
