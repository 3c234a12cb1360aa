"""The flags of snapshot-controller, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses

from mooring.base.flagkinds import BOOL, DURATION, INT, GateStage
from mooring.base.flags import flag, gate


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotControllerOptions:
    """The options of the snapshot controller. groups: whether group snapshots are taken care of."""

    worker_threads: int = flag(
        "worker-threads", INT, 10, "How many workers there are for each: snapshots, contents and claims."
    )
    retry_interval_start_s: float = flag(
        "retry-interval-start",
        DURATION,
        1.0,
        "Initial retry interval of a write that failed. It doubles with each failure.",
    )
    retry_interval_max_s: float = flag(
        "retry-interval-max", DURATION, 300.0, "Maximum retry interval of a write that failed."
    )
    resync_s: float = flag(
        "resync-period", DURATION, 900.0, "How often all snapshots and contents are looked at again."
    )
    distributed: bool = flag(
        "enable-distributed-snapshotting",
        BOOL,
        False,
        "Label each content with a node that reaches its volume.",
    )
    prevent_volume_mode_conversion: bool = flag(
        "prevent-volume-mode-conversion",
        BOOL,
        True,
        "Write the volume's mode on its contents, so that it is not restored in another one.",
    )
    groups: bool = gate("CSIVolumeGroupSnapshot", GateStage.BETA, False)
