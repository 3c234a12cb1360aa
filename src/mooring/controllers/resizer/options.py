"""The resizer's flags and gates, under their names. Durations in seconds."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class ResizerOptions:
    """workers: of each of the two controllers. The last three are feature gates.

    recover: a claim may go back to a smaller size (RecoverVolumeExpansionFailure). annotate: the size before goes on the volume
    (AnnotateFsResize). modify: there are VolumeAttributesClasses.
    """

    timeout_s: float = 10.0
    workers: int = 10
    resync_s: float = 600.0
    retry_interval_start_s: float = 1.0
    retry_interval_max_s: float = 300.0
    handle_volume_inuse_error: bool = True
    extra_modify_metadata: bool = False
    recover: bool = True
    annotate: bool = False
    modify: bool = True
