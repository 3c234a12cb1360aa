"""The flags of csi-snapshotter, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotterOptions:
    """node_name: contents of this node alone, in distributed mode; "" for all. groups: whether group snapshots are taken care of."""

    timeout_s: float = 60.0
    worker_threads: int = 10
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    resync_s: float = 900.0
    snapshot_name_prefix: str = "snapshot"
    snapshot_name_uuid_length: int = -1
    groupsnapshot_name_prefix: str = "groupsnapshot"
    groupsnapshot_name_uuid_length: int = -1
    extra_create_metadata: bool = False
    node_name: str = ""
    groups: bool = False
