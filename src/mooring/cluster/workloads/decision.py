"""The actions that several kinds of workloads have, for `control/decision.py`."""

from __future__ import annotations

import dataclasses

from mooring.api.pods import Pod


@dataclasses.dataclass(frozen=True, slots=True)
class CreatePods:
    """So many pods of the template."""

    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class DeletePod:
    pod: Pod
