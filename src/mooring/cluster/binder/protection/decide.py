"""Protection of objects in use: decides on their finalizer. Pure; one function per kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from mooring.api.binding import BOUND, PV_PROTECTION, PVC_PROTECTION, VAC_PROTECTION, claim_name_of, is_finished, owns
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, Object, finalizers_of, is_deleting, key_of
from mooring.api.pods import Pod
from mooring.cluster.binder import reasons as why
from mooring.control.decision import Decision


class AddFinalizer(msgspec.Struct, frozen=True):
    name: str


class RemoveFinalizer(msgspec.Struct, frozen=True):
    name: str


class ListPods(msgspec.Struct, frozen=True):
    """Ask the API server for the pods of the claim's namespace, as they were at this version or later, then decide."""

    version: str


class TellInUse(msgspec.Struct, frozen=True):
    """The claim's event: a pod that has ended keeps it from being deleted."""

    text: str


Finalizing: TypeAlias = AddFinalizer | RemoveFinalizer
ClaimAction: TypeAlias = Finalizing | ListPods | TellInUse

NOTHING: Final = why.Protection("nothing")


def _added(name: str) -> Decision[Any]:
    return Decision(why.Protection("add"), (AddFinalizer(name),), done=f"added the finalizer {name}")


def _removed(name: str) -> Decision[Any]:
    return Decision(why.Protection("remove"), (RemoveFinalizer(name),), done=f"removed the finalizer {name}")


# -- claims


def decide_claim(
    claim: PersistentVolumeClaim, pods: Iterable[Pod], *, is_fresh: bool, again_s: float | None = None
) -> Decision[ClaimAction]:
    """Decide about one claim. pods: those that name it. is_fresh: no pod can be missing among them. again_s: seconds
    until a claim in use is looked at again.
    """
    is_held, uid = PVC_PROTECTION in finalizers_of(claim), claim.metadata.uid
    if not is_deleting(claim):
        return Decision(NOTHING) if is_held else _added(PVC_PROTECTION)
    if not is_held:
        return Decision(NOTHING)
    user = next((pod for pod in pods if uses(pod, claim)), None)
    if user is not None:
        in_use = why.InUse(f'pod "{user.metadata.name}"', is_finished(user))
        tells = (TellInUse(f"the claim stays until it is free: {in_use}"),) if in_use.finished else ()
        return Decision(in_use, tells, after_s=again_s)
    if not is_fresh:
        asks = why.Protection("ask the API server for the pods, then decide")
        return Decision(asks, (ListPods(claim.metadata.resource_version),), again=True, uid=uid)
    return _removed(PVC_PROTECTION)


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


def _is_shut_down(pod: Pod) -> bool:
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0


# -- volumes and attributes classes


def decide_volume(pv: PersistentVolume) -> Decision[Finalizing]:
    is_held = PV_PROTECTION in finalizers_of(pv)
    if not is_deleting(pv):
        return Decision(NOTHING) if is_held else _added(PV_PROTECTION)
    if not is_held:
        return Decision(NOTHING)
    if pv.status.phase == BOUND:
        ref = pv.spec.claim_ref
        return Decision(why.InUse(f'claim "{Key(ref.namespace, ref.name)}"' if ref else "a claim"))
    return _removed(PV_PROTECTION)


def decide_attributes_class(one: Object, holders: Iterable[Object]) -> Decision[Finalizing]:
    """Decide about one VolumeAttributesClass. holders: the claims and volumes that name it. The API server has put the
    finalizer on.
    """
    if not is_deleting(one) or VAC_PROTECTION not in finalizers_of(one):
        return Decision(NOTHING)
    holder = next(iter(holders), None)
    return _removed(VAC_PROTECTION) if holder is None else Decision(why.InUse(f'"{key_of(holder)}"'))
