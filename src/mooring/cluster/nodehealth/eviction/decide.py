"""Whether a pod has to leave its node, and when. Pure.

Source: kube-controller-manager 1.36, pkg/controller/tainteviction. Differs: the time to leave follows when taints or tolerations change
(counted from the first taint; there it stays as it was), a pod that is being deleted is let alone, and one that has to leave at once is not
told first that it may stay.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mooring.api.core import Node, Taint
from mooring.api.matching import tolerates
from mooring.api.meta import is_deleting
from mooring.api.pods import Pod, Toleration
from mooring.base.clock import Instant
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.view import no_execute_taints
from mooring.control.result import Because


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """evict: now. at: when it has to leave, None for never. since: the beginning of that time, None where none runs.

    cancelled: a time was running, and the pod may stay after all.
    """

    because: Because
    evict: bool = False
    at: Instant | None = None
    since: Instant | None = None
    cancelled: bool = False


def decide_eviction(pod: Pod, node: Node | None, since: Instant | None, now: Instant) -> Decision:
    """since: as the last decision about this pod had it. A node that is gone is the pod garbage collector's business."""
    if is_deleting(pod):
        return Decision(why.Leaves())
    taints = no_execute_taints(node)
    if not taints:
        return Decision(why.NoTaint(), cancelled=since is not None and node is not None)
    used = _used(taints, pod.spec.tolerations or ())
    if isinstance(used, Taint):
        return Decision(why.NotTolerated(f"{used.key}:{used.effect}"), evict=True, at=now, since=since)
    limits = [max(0, one.toleration_seconds) for one in used if one.toleration_seconds is not None]
    if not limits:
        return Decision(why.Tolerates(), cancelled=since is not None)
    began, seconds = now if since is None else since, min(limits)
    at = began + seconds
    if now >= at:
        return Decision(why.TimeIsUp(seconds), evict=True, at=at, since=began)
    return Decision(why.ToleratesFor(seconds, round(at - now, 3)), at=at, since=began)


def _used(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Toleration] | Taint:
    """For each taint the first toleration that means it, or the first taint that none means."""
    used = []
    for taint in taints:
        found = next((one for one in tolerations if tolerates(one, taint)), None)
        if found is None:
            return taint
        used.append(found)
    return used
