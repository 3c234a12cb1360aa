"""The options of the binder, and the names of its parts."""

from __future__ import annotations

import dataclasses
from typing import Final

BINDER: Final = "persistentvolume-binder-controller"
CLAIM_PROTECTION: Final = "persistentvolumeclaim-protection-controller"
VOLUME_PROTECTION: Final = "persistentvolume-protection-controller"
ATTRIBUTES_PROTECTION: Final = "volumeattributesclass-protection-controller"
EPHEMERAL: Final = "ephemeral-volume-controller"
SCHEDULER: Final = "scheduler"
PARTS: Final = (BINDER, CLAIM_PROTECTION, VOLUME_PROTECTION, ATTRIBUTES_PROTECTION, EPHEMERAL, SCHEDULER)
"""As kube-controller-manager calls them, and the scheduler."""


@dataclasses.dataclass(frozen=True, slots=True)
class BinderOptions:
    """parts: those that run. workers: of claims, and as many of volumes. bind_timeout_s: how long a pod waits for its volumes."""

    parts: frozenset[str] = frozenset(PARTS)
    workers: int = 16
    bind_timeout_s: float = 600.0
    scheduler_name: str = "default-scheduler"
