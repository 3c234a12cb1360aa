"""The attacher's flags, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class AttacherOptions:
    """max_entries: a page's size in a drift round, 0 leaves it to the driver."""

    timeout_s: float = 15.0
    worker_threads: int = 10
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    resync_s: float = 600.0
    reconcile_sync_s: float = 60.0
    max_entries: int = 0
    default_fstype: str = ""
    report_error_codes: bool = True  # the gate MutableCSINodeAllocatableCount
