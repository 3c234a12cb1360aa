"""What a pod says of itself: one that has all its volumes, and one that was deleted. Pure."""

from __future__ import annotations

from typing import Final

from mooring.api.meta import finalizers_of
from mooring.api.nodes import FALSE, READY, TRUE
from mooring.api.pods import Pod
from mooring.base.clock import rfc3339
from mooring.node.volumes.view import FINISHED

_KINDS: Final = ("Initialized", "ContainersReady", READY)


def is_said_unready(pod: Pod) -> bool:
    """True where somebody else has said so, mostly node health while the node was silent: no kubelet leaves it at that."""
    return any(one.type == READY and one.status == FALSE for one in pod.status.conditions or ())


def is_kept_unended(pod: Pod) -> bool:
    """True for a deleted pod that stays for its finalizers, and does not say that it has ended: whoever holds it may wait for that.

    A kubelet says so of each pod that it has ended; one that nobody holds goes in the next moment.
    """
    return bool(finalizers_of(pod)) and pod.status.phase not in FINISHED


def running_conditions(pod: Pod, now: float) -> list[dict[str, str]]:
    """Those of a pod that runs; one that was otherwise says since when. now: seconds since the epoch."""
    changed = {one.type for one in pod.status.conditions or () if one.status != TRUE}
    return [{"type": kind, "status": TRUE, **({"lastTransitionTime": rfc3339(now)} if kind in changed else {})} for kind in _KINDS]
