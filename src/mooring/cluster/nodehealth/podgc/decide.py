"""Which pods are to be removed since no kubelet will do it. Pure.

Source: kube-controller-manager 1.36, pkg/controller/podgc. Differs: by event and not every 20 s, and a pod that
finalizers keep after its removal is not removed again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.core import Node
from mooring.api.meta import is_deleting
from mooring.api.nodes import OUT_OF_SERVICE_TAINT, TRUE, has_taint, readiness
from mooring.api.pods import Pod
from mooring.base.clock import Instant
from mooring.cluster.nodehealth.view import is_terminated
from mooring.control.decision import Decision, Destroys
from mooring.control.reasons import reason
from mooring.control.result import Because

FAILED: Final = "Failed"
FINISHED: Final = ("Succeeded", FAILED)

# -- reasons


@reason("somebody else takes care of it")
class Kept:
    pass


@reason("it was removed by force, and its finalizers keep it")
class Removed:
    pass


@reason("it is being deleted and was never on a node")
class Unscheduled:
    pass


@reason('its node "{node_name}" is gone')
class NodeGone:
    node_name: str


@reason('its node "{node_name}" is not to be seen; it may come within {left_s:g} s')
class NodeMissing:
    node_name: str
    left_s: float


@reason('it is being deleted, and its node "{node_name}" is not ready and out of service')
class OutOfService:
    node_name: str


@reason("{count} pods have ended, and {threshold} may stay")
class TooMany:
    count: int
    threshold: int


@reason("no more pods have ended than may stay")
class FewEnough:
    pass


# -- actions


class Cause(enum.Enum):
    """The cause of a removal, as the metric calls it."""

    ORPHANED = "orphaned"
    OUT_OF_SERVICE = "out-of-service"
    TERMINATED = "terminated"
    UNSCHEDULED = "unscheduled"


class Remove(Destroys, msgspec.Struct, frozen=True):
    """Delete the pod without grace."""

    pod: Pod
    cause: Cause

    @property
    def destroys(self) -> bool:
        """False for a pod that has ended, or was deleted without a node: it runs nowhere."""
        return self.cause in (Cause.ORPHANED, Cause.OUT_OF_SERVICE)


def decide_pod(
    pod: Pod, node: Node | None, missing_since: Instant, now: Instant, quarantine_s: float
) -> Decision[Remove]:
    """Decide about one pod. missing_since: when this process found that there is no node of that name, if so."""
    cause: Cause
    because: Because
    node_name = pod.spec.node_name
    if is_removed(pod):
        return Decision(Removed())
    if not node_name:
        if not is_deleting(pod):
            return Decision(Kept())
        cause, because = Cause.UNSCHEDULED, Unscheduled()
    elif node is not None:
        # A node that is ready ends its pods by itself, whatever a taint says that was left behind.
        if not is_deleting(pod) or readiness(node) == TRUE or not has_taint(node, OUT_OF_SERVICE_TAINT):
            return Decision(Kept())
        cause, because = Cause.OUT_OF_SERVICE, OutOfService(node_name)
    else:
        # A kubelet may register its node once more, or the watch of nodes may be behind that of pods.
        left_s = missing_since + quarantine_s - now
        if left_s > 0:
            return Decision(NodeMissing(node_name, round(left_s, 3)), after_s=left_s)
        cause, because = Cause.ORPHANED, NodeGone(node_name)
    return Decision(because, (Remove(pod, cause),), done="removed by force")


def is_removed(pod: Pod) -> bool:
    """True for a pod that was deleted without grace: only its finalizers keep it."""
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0 and pod.status.phase in FINISHED


def decide_terminated(pods: Iterable[Pod], threshold: int) -> Decision[Remove]:
    """Decide which of the pods that have ended are to go: evicted ones first, then the oldest. threshold: how many may
    stay, 0 for any number.
    """
    ended = [pod for pod in pods if is_terminated(pod)]
    surplus = len(ended) - threshold if threshold > 0 else 0
    if surplus <= 0:
        return Decision(FewEnough())

    def order(pod: Pod) -> tuple[bool, str, str]:
        is_evicted = (pod.status.phase, pod.status.reason) == (FAILED, "Evicted")
        return not is_evicted, pod.metadata.creation_timestamp or "", pod.metadata.name

    # A pod that only its finalizers keep counts: else each of them would cost another pod its place.
    first = sorted(ended, key=order)[:surplus]
    actions = tuple(Remove(pod, Cause.TERMINATED) for pod in first if not is_removed(pod))
    return Decision(TooMany(len(ended), threshold), actions, done=f"removed {len(actions)} pods that had ended")
