"""The flags of snapshot-controller, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotControllerOptions:
    """groups: whether group snapshots are taken care of."""

    worker_threads: int = 10
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    resync_s: float = 900.0
    distributed: bool = False
    prevent_volume_mode_conversion: bool = True
    groups: bool = False
