"""The options of the attach/detach controller."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from mooring.base.flagkinds import BOOL, DURATION, INT
from mooring.base.flags import flag

FORCE_AFTER_S: Final = 360.0
ATTACH_TIMEOUT_S: Final = 120.0
NEVER: Final = math.inf
"""The time until a detach that is never forced."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttachDetachOptions:
    """force_after_s: may be NEVER."""

    workers: int = flag("workers", INT, 64, "How many volumes are worked on at once.")
    force_after_s: float = flag(
        "force-detach-after",
        DURATION,
        FORCE_AFTER_S,
        "How long a volume that no pod wants stays on a node that is not ready and has it mounted. "
        "The annotation mooring.dev/force-detach-after of a StorageClass or CSIDriver counts first, for CSI volumes.",
    )
    disable_force_detach: bool = flag(
        "disable-force-detach-on-timeout",
        BOOL,
        False,
        "Never force a detach because of --force-detach-after: only the out-of-service taint does.",
    )
    attach_timeout_s: float = ATTACH_TIMEOUT_S
