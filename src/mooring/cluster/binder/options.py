"""The options of the binder, and the names of its parts."""

from __future__ import annotations

import dataclasses
from typing import Final

from mooring.base.flagkinds import DURATION, INT
from mooring.base.flags import flag

BINDER: Final = "persistentvolume-binder-controller"
CLAIM_PROTECTION: Final = "persistentvolumeclaim-protection-controller"
VOLUME_PROTECTION: Final = "persistentvolume-protection-controller"
ATTRIBUTES_PROTECTION: Final = "volumeattributesclass-protection-controller"
EPHEMERAL: Final = "ephemeral-volume-controller"
SCHEDULER: Final = "scheduler"
PARTS: Final = (BINDER, CLAIM_PROTECTION, VOLUME_PROTECTION, ATTRIBUTES_PROTECTION, EPHEMERAL, SCHEDULER)
"""The binder's parts: controllers under kube-controller-manager's names, and the scheduler."""


@dataclasses.dataclass(frozen=True, slots=True)
class BinderOptions:
    """The options of the binder. parts: the parts that run."""

    parts: frozenset[str] = frozenset(PARTS)
    workers: int = flag("workers", INT, 16, "How many workers there are for each: claims, volumes and pods.")
    bind_timeout_s: float = flag(
        "bind-timeout", DURATION, 600.0, "How long a pod waits for its volumes before it is scheduled anew."
    )
    scheduler_name: str = "default-scheduler"
