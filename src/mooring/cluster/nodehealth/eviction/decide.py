"""Whether a pod has to leave its node, and when. Pure.

Source: kube-controller-manager 1.36, pkg/controller/tainteviction. Differs: each taint has a time of its own, which
follows when tolerations change (there, one time stays as it was) and begins by the objects' times (there, whenever the
process begins), a pod that is being deleted is let alone, and one that has to leave at once gets no event that it may
stay first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from mooring.api.core import Node, Taint
from mooring.api.matching import tolerates
from mooring.api.meta import is_deleting
from mooring.api.pods import Pod, Toleration
from mooring.base.clock import Instant, seconds_of
from mooring.cluster.nodehealth.view import NOT_READY_TAINT, POD_SCHEDULED, UNREACHABLE_TAINT, no_execute_taints
from mooring.control.decision import Decision
from mooring.control.reasons import reason

# -- reasons


@reason("it is being deleted already")
class Leaves:
    pass


@reason("its node has no NoExecute taint")
class NoTaint:
    pass


@reason("it tolerates the taints of its node for ever")
class Tolerates:
    pass


@reason("it does not tolerate {taint}")
class NotTolerated:
    #: Key and effect.
    taint: str


@reason("it tolerates the taints of its node for {seconds} s, and {left_s:g} s are left")
class ToleratesFor:
    seconds: int
    left_s: float


@reason("it has tolerated the taints of its node for {seconds} s, as long as it may")
class TimeIsUp:
    seconds: int


Beginnings: TypeAlias = Mapping[str, Instant]
"""The beginning of the time that a pod tolerates each taint, by the taint's key; not-ready and unreachable are one: a
node that goes from NotReady to Unknown has the other of them then."""

# -- actions


class Evict(msgspec.Struct, frozen=True):
    """The pod leaves now."""

    pod: Pod
    #: The node with the taints, as they were seen.
    node: Node
    #: The moment at which the pod had to leave.
    at: Instant
    #: None where no time ran.
    since: Beginnings | None


class Stay(msgspec.Struct, frozen=True):
    """The pod may stay for a while."""

    pod: Pod
    #: The end of the pod's time.
    at: Instant
    since: Beginnings


class Cancel(msgspec.Struct, frozen=True):
    """A time was running, and the pod may stay after all."""

    pod: Pod


Action: TypeAlias = Evict | Stay | Cancel


def decide_eviction(
    pod: Pod, node: Node | None, since: Beginnings | None, now: Instant, wall_s: float
) -> Decision[Action]:
    """Decide about one pod. since: as the last decision about it had that; None for the first. wall_s: now, by the
    clock of the objects.
    """
    if is_deleting(pod):
        return Decision(Leaves())
    if node is None:
        # No event says that the pod may stay: the pod garbage collector will remove it, unless the node comes back.
        return Decision(NoTaint())
    stays = () if since is None else (Cancel(pod),)
    taints = no_execute_taints(node)
    if not taints:
        return Decision(NoTaint(), stays)
    began: dict[str, Instant] = {}
    ends = []
    for taint in taints:
        toleration = _toleration_of(pod, taint)
        if toleration is None:
            because = NotTolerated(f"{taint.key}:{taint.effect}")
            return Decision(because, (Evict(pod, node, now, since),), done="evicted")
        if toleration.toleration_seconds is not None:
            key = NOT_READY_TAINT if taint.key == UNREACHABLE_TAINT else taint.key
            began.setdefault(key, (since or {}).get(key, now - _age_s(pod, taint, wall_s)))
            limit_s = max(0, toleration.toleration_seconds)
            ends.append((began[key] + limit_s, limit_s))
    if not ends:
        return Decision(Tolerates(), stays)
    at, limit_s = min(ends)
    if now >= at:
        return Decision(TimeIsUp(limit_s), (Evict(pod, node, at, began),), done="evicted")
    return Decision(ToleratesFor(limit_s, round(at - now, 3)), (Stay(pod, at, began),), after_s=at - now)


def _age_s(pod: Pod, taint: Taint, wall_s: float) -> float:
    """Seconds since the taint came, or since the pod came to the node that had it, as the objects say."""
    came = [one.last_transition_time for one in pod.status.conditions or () if one.type == POD_SCHEDULED]
    came_s = max(map(seconds_of, (pod.metadata.creation_timestamp, *came)))
    return max(0.0, wall_s - max(seconds_of(taint.time_added) or wall_s, came_s))


def _toleration_of(pod: Pod, taint: Taint) -> Toleration | None:
    """The first toleration that means the taint: as in kube-controller-manager it alone counts, even where a later one
    gives less time.
    """
    return next((one for one in pod.spec.tolerations or () if tolerates(one, taint)), None)
