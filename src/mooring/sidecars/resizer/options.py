"""The resizer's flags and gates, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses

from mooring.base.flagkinds import BOOL, DURATION, INT, GateStage
from mooring.base.flags import flag, gate


@dataclasses.dataclass(frozen=True, slots=True)
class ResizerOptions:
    """recover: a claim may go back to a smaller size. annotate: the size before goes on the volume. modify: there are
    VolumeAttributesClasses.
    """

    timeout_s: float = flag("timeout", DURATION, 10.0, "Timeout for each call to the driver.")
    workers: int = flag("workers", INT, 10, "How many volumes grow, and how many are modified, at once at the most.")
    resync_s: float = flag("resync-period", DURATION, 600.0, "How often all claims are looked at again; 0 is never.")
    retry_interval_start_s: float = flag(
        "retry-interval-start",
        DURATION,
        1.0,
        "Initial retry interval of failed requests. It doubles with each failure.",
    )
    retry_interval_max_s: float = flag(
        "retry-interval-max",
        DURATION,
        300.0,
        "Maximum retry interval of failed requests; also that of infeasible ones.",
    )
    handle_volume_inuse_error: bool = flag(
        "handle-volume-inuse-error",
        BOOL,
        True,
        "After FailedPrecondition don't call the driver again while a pod uses the volume.",
    )
    extra_modify_metadata: bool = flag(
        "extra-modify-metadata",
        BOOL,
        False,
        "Tell the driver the names of claim and volume, as parameters of ControllerModifyVolume.",
    )
    recover: bool = gate("RecoverVolumeExpansionFailure", GateStage.GA, True)
    annotate: bool = gate("AnnotateFsResize", GateStage.ALPHA, False)
    modify: bool = gate("VolumeAttributesClass", GateStage.GA, True)
