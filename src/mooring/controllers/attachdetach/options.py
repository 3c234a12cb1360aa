"""The options of the attach/detach controller."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

FORCE_AFTER_S: Final = 360.0
ATTACH_TIMEOUT_S: Final = 120.0
NEVER: Final = math.inf
"""As a time until a detach is forced."""


@dataclasses.dataclass(frozen=True, slots=True)
class AttachDetachOptions:
    """workers: of volumes. force_after_s: how long a volume that no pod wants stays on a node that is not ready and has it mounted,
    NEVER for ever; an annotation of a StorageClass or CSIDriver says otherwise for its volumes.

    forces: False never forces a detach by time, whatever the annotations say; the out-of-service taint still does.
    own_attachers: the drivers whose attacher runs in this process: their attachments are made with its finalizer and the node's id.
    """

    workers: int = 64
    force_after_s: float = FORCE_AFTER_S
    forces: bool = True
    attach_timeout_s: float = ATTACH_TIMEOUT_S
    own_attachers: frozenset[str] = frozenset()
