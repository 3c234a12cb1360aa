"""What a pod that has all its volumes says of itself. Pure."""

from __future__ import annotations

from typing import Final

from mooring.api.pods import Pod
from mooring.base.clock import rfc3339

READY: Final = "Ready"
_KINDS: Final = ("Initialized", "ContainersReady", READY)


def is_said_unready(pod: Pod) -> bool:
    """True where somebody else has said so, mostly node health while the node was silent: no kubelet leaves it at that."""
    return any(one.type == READY and one.status == "False" for one in pod.status.conditions or ())


def running_conditions(pod: Pod, now: float) -> list[dict[str, str]]:
    """Those of a pod that runs; one that was otherwise says since when. now: seconds since the epoch."""
    changed = {one.type for one in pod.status.conditions or () if one.status != "True"}
    return [{"type": kind, "status": "True", **({"lastTransitionTime": rfc3339(now)} if kind in changed else {})} for kind in _KINDS]
