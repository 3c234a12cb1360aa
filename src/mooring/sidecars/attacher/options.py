"""The attacher's flags, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses

from mooring.base.flagkinds import DURATION, INT, STRING, UINT, GateStage
from mooring.base.flags import flag, gate


@dataclasses.dataclass(frozen=True, slots=True)
class AttacherOptions:
    """The options of one attacher."""

    timeout_s: float = flag("timeout", DURATION, 15.0, "Timeout for waiting for attaching or detaching the volume.")
    worker_threads: int = flag("worker-threads", UINT, 10, "How many calls to the driver run at once at the most.")
    retry_interval_start_s: float = flag(
        "retry-interval-start",
        DURATION,
        1.0,
        "Initial retry interval of failed attach or detach. It doubles with each failure.",
    )
    retry_interval_max_s: float = flag(
        "retry-interval-max", DURATION, 300.0, "Maximum retry interval of failed attach or detach."
    )
    resync_s: float = flag("resync", DURATION, 600.0, "How often all attachments and volumes are looked at again.")
    reconcile_sync_s: float = flag(
        "reconcile-sync", DURATION, 60.0, "How often attachments are compared with the driver's ListVolumes."
    )
    max_entries: int = flag(
        "max-entries", INT, 0, "The most entries in a page of ListVolumes; 0 leaves it to the driver."
    )
    default_fstype: str = flag(
        "default-fstype", STRING, "", "The filesystem type of volumes whose PersistentVolume names none."
    )
    #: The attachError of an attachment has the gRPC code of its failure.
    report_error_codes: bool = gate("MutableCSINodeAllocatableCount", GateStage.GA, True)
