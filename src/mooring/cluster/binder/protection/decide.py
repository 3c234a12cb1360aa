"""Protection of objects in use: decides on their finalizer. Pure; one function per kind."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable

from mooring.api.binding import BOUND, PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION, claim_name_of, is_finished, owns
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, finalizers_of, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.cluster.binder import reasons as why


class Guard(enum.Enum):
    """The next step for the finalizer."""

    ADD = "add"
    KEEP = "keep"
    REMOVE = "remove"
    ASK = "ask the API server for the pods, then decide"
    NOTHING = "nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Decision:
    """holder_finished: the user that keeps the object from being deleted is a pod that has ended."""

    guard: Guard
    because: why.Protection | why.InUse
    holder_finished: bool = False

    @property
    def writes(self) -> bool:
        """True when the object is to be changed."""
        return self.guard in (Guard.ADD, Guard.REMOVE)


def _decided(guard: Guard) -> Decision:
    return Decision(guard, why.Protection(guard.value))


def _in_use(holder: str, *, finished: bool = False) -> Decision:
    return Decision(Guard.KEEP, why.InUse(holder, finished), finished)


def decide_claim(claim: PersistentVolumeClaim, pods: Iterable[Pod], *, pods_are_fresh: bool) -> Decision:
    """pods: those that name the claim. pods_are_fresh: none can be missing."""
    held = PVC_PROTECTION in finalizers_of(claim)
    if not is_deleting(claim):
        return _decided(Guard.NOTHING if held else Guard.ADD)
    if not held:
        return _decided(Guard.NOTHING)
    user = next((pod for pod in pods if uses(pod, claim)), None)
    if user is not None:
        return _in_use(f'pod "{user.metadata.name}"', finished=is_finished(user))
    return _decided(Guard.REMOVE if pods_are_fresh else Guard.ASK)


def uses(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """True for a pod on a node that names the claim, a finished one, too: its volume may still be mounted."""
    if not pod.spec.node_name or pod.metadata.namespace != claim.metadata.namespace:
        return False
    for volume in pod.spec.volumes or ():
        if claim_name_of(pod, volume) != claim.metadata.name:
            continue
        if volume.persistent_volume_claim is not None or (owns(pod, claim) and not _is_shut_down(pod)):
            return True
    return False


def decide_volume(pv: PersistentVolume) -> Decision:
    held = PV_PROTECTION in finalizers_of(pv)
    if not is_deleting(pv):
        return _decided(Guard.NOTHING if held else Guard.ADD)
    if not held:
        return _decided(Guard.NOTHING)
    if pv.status.phase == BOUND:
        ref = pv.spec.claim_ref
        return _in_use(f'claim "{Key(ref.namespace, ref.name)}"' if ref else "a claim")
    return _decided(Guard.REMOVE)


def decide_attributes_class(one: Object, holders: Iterable[Object]) -> Decision:
    """holders: the claims and volumes that name it. The API server has put the finalizer on."""
    if not is_deleting(one) or VAC_PROTECTION not in finalizers_of(one):
        return _decided(Guard.NOTHING)
    holder = next(iter(holders), None)
    return _decided(Guard.REMOVE) if holder is None else _in_use(f'"{key_of(holder)}"')


def _is_shut_down(pod: Pod) -> bool:
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0
