"""Whether a pod has to leave its node, and when. Pure.

Source: kube-controller-manager 1.36, pkg/controller/tainteviction. Differs: the time to leave follows when taints or tolerations change
(counted from the first taint; there it stays as it was), a pod that is being deleted is let alone, and one that has to leave at once is not
told first that it may stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from mooring.api.core import Node, Taint
from mooring.api.matching import tolerates
from mooring.api.meta import is_deleting
from mooring.api.pods import Pod, Toleration
from mooring.base.clock import Instant
from mooring.cluster.nodehealth import reasons as why
from mooring.cluster.nodehealth.view import no_execute_taints
from mooring.control.decision import Decision


class Evict(msgspec.Struct, frozen=True):
    """The pod leaves now. at: when it had to. since: the beginning of its time, None where none ran."""

    pod: Pod
    node: Node
    at: Instant
    since: Instant | None


class Stay(msgspec.Struct, frozen=True):
    """The pod may stay until `at`; its time began at `since`."""

    pod: Pod
    at: Instant
    since: Instant


class Cancel(msgspec.Struct, frozen=True):
    """A time was running, and the pod may stay after all."""

    pod: Pod


Action: TypeAlias = Evict | Stay | Cancel


def decide_eviction(pod: Pod, node: Node | None, since: Instant | None, now: Instant) -> Decision[Action]:
    """since: as the last decision about this pod had it. A node that is gone is the pod garbage collector's business."""
    if is_deleting(pod):
        return Decision(why.Leaves())
    taints = no_execute_taints(node)
    if node is None or not taints:
        return Decision(why.NoTaint(), _cancel(pod, since if node is not None else None))
    used = _used(taints, pod.spec.tolerations or ())
    if isinstance(used, Taint):
        return Decision(why.NotTolerated(f"{used.key}:{used.effect}"), (Evict(pod, node, now, since),), done="evicted")
    limits = [max(0, one.toleration_seconds) for one in used if one.toleration_seconds is not None]
    if not limits:
        return Decision(why.Tolerates(), _cancel(pod, since))
    began, seconds = now if since is None else since, min(limits)
    at = began + seconds
    if now >= at:
        return Decision(why.TimeIsUp(seconds), (Evict(pod, node, at, began),), done="evicted")
    return Decision(why.ToleratesFor(seconds, round(at - now, 3)), (Stay(pod, at, began),), after_s=at - now)


def _cancel(pod: Pod, since: Instant | None) -> tuple[Cancel, ...]:
    return () if since is None else (Cancel(pod),)


def _used(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> list[Toleration] | Taint:
    """For each taint the first toleration that means it, or the first taint that none means."""
    used = []
    for taint in taints:
        found = next((one for one in tolerations if tolerates(one, taint)), None)
        if found is None:
            return taint
        used.append(found)
    return used
