"""The actions that several kinds of workloads have, for `control/decision.py`."""

from __future__ import annotations

import msgspec

from mooring.api.pods import Pod


class CreatePods(msgspec.Struct, frozen=True):
    """Create so many pods from the template."""

    count: int


class DeletePod(msgspec.Struct, frozen=True):
    pod: Pod
