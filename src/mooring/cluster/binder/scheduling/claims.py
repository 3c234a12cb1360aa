"""The check of a pod's claims, before any node is considered. Pure.

A pod whose claims are not ready is rejected as a whole, until one of them changes.
"""

from __future__ import annotations

import msgspec

from mooring.api.binding import LOST, claim_name_of, is_delayed, is_finished, is_fully_bound, not_owner_text, owns
from mooring.api.classes import class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, is_deleting, key_of
from mooring.api.pods import Pod, Volume
from mooring.cluster.binder.scheduling.view import View
from mooring.cluster.binder.view import BY_CLAIM

RWOP_MODE = "ReadWriteOncePod"


class PodClaims(msgspec.Struct, frozen=True):
    """A pod's claims. problem: rejects the pod, "" for none. bound: claims with their volumes, None for a missing one.

    delayed: claims that wait for the pod's node. in_use: claims for one pod alone which another pod uses.
    """

    problem: str = ""
    bound: tuple[tuple[PersistentVolumeClaim, PersistentVolume | None], ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    in_use: tuple[Key, ...] = ()


def check_claims(view: View, pod: Pod) -> PodClaims:
    """Sort the pod's claims; the first problem counts."""
    bound: dict[Key, tuple[PersistentVolumeClaim, PersistentVolume | None]] = {}
    delayed: dict[Key, PersistentVolumeClaim] = {}
    unbound_problem = ""
    for volume in pod.spec.volumes or ():
        name = claim_name_of(pod, volume)
        if not name:
            continue
        key = Key(pod.metadata.namespace, name)
        claim = view.claims.get(key)
        problem = _problem(pod, volume, name, claim)
        if problem:
            return PodClaims(problem)
        assert claim is not None
        if is_fully_bound(claim):
            bound[key] = claim, view.volumes.get(claim.spec.volume_name)
        elif is_delayed(view.storage_class(class_of(claim))) and not claim.spec.volume_name:
            delayed[key] = claim
        else:
            unbound_problem = "pod has unbound immediate PersistentVolumeClaims"
    if unbound_problem:
        return PodClaims(unbound_problem)
    used = tuple(key for key in (*bound, *delayed) if _is_taken(view, pod, key))
    return PodClaims("", tuple(bound.values()), tuple(delayed.values()), used)


def _problem(pod: Pod, volume: Volume, name: str, claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        if volume.ephemeral is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if claim.status.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if is_deleting(claim):
        return f'persistentvolumeclaim "{name}" is being deleted'
    if volume.ephemeral is not None and not owns(pod, claim):
        return not_owner_text(pod, claim)
    return ""


def _is_taken(view: View, pod: Pod, key: Key) -> bool:
    claim = view.claims.get(key)
    if claim is None or RWOP_MODE not in (claim.spec.access_modes or ()):
        return False
    return any(_has_node(view, other) and key_of(other) != key_of(pod) for other in view.pods.by(BY_CLAIM, str(key)))


def _has_node(view: View, pod: Pod) -> bool:
    return not is_finished(pod) and (bool(pod.spec.node_name) or view.plans.get(key_of(pod)) is not None)
