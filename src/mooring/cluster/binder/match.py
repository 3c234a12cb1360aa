"""The best volume for a claim: the binder's choice, and the scheduler's for a node."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.binding import (
    PROVISIONED_BY,
    capacity_of,
    claim_uid_in,
    has_annotation,
    mode_of,
    names_claim,
    request_of,
)
from mooring.api.classes import volume_class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.matching import selects
from mooring.api.meta import is_deleting, key_of
from mooring.cluster.binder.available_volumes import is_free, shape_of_claim, shape_of_volume
from mooring.cluster.binder.view import BY_CLAIM, Volumes

Fits = Callable[[PersistentVolume], bool]
"""Whether a volume may be used: on the node, and not taken by another claim a moment ago."""


def best_match(
    volumes: Volumes, claim: PersistentVolumeClaim, *, delayed: bool, fits: Fits, on_node: bool = False
) -> PersistentVolume | None:
    """The volume to bind, None when there is none.

    A volume that is reserved for the claim is taken, whatever its phase, class and labels; if it does not fit, nothing
    does. delayed: the claim waits for its pod; then no other volume is considered unless for a node.
    """
    reserved = reserved_for(volumes, claim)
    if reserved is not None:
        return reserved if fits(reserved) else None
    if delayed and not on_node:
        return None
    modes = frozenset(claim.spec.access_modes or ())
    for group in volumes.available.fitting(shape_of_claim(claim), modes, request_of(claim)):
        for name in group:
            pv = volumes.get(name)  # while our own write to it is under way, the index is behind the cache
            if pv is not None and is_free(pv) and _selected(claim, pv) and fits(pv):
                return pv
    return None


def reserved_for(volumes: Volumes, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The volume whose claimRef names this claim and that could be bound to it; fewest access modes, then smallest
    first.
    """
    found = [pv for pv in volumes.by(BY_CLAIM, str(key_of(claim))) if names_claim(pv, claim) and _could_hold(pv, claim)]
    return min(found, key=lambda pv: (len(pv.spec.access_modes or ()), capacity_of(pv)), default=None)


def was_made_for(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    """True for a free volume that was provisioned for this claim: somebody took its claimRef, and no other will be made
    for the claim.
    """
    return (
        claim_uid_in(pv.metadata.name) == claim.metadata.uid
        and has_annotation(pv, PROVISIONED_BY)
        and is_free(pv)
        and could_take(claim, pv)
    )


def could_take(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    """True for a free volume of the claim's class that fits it."""
    return shape_of_claim(claim) == shape_of_volume(pv) and _could_hold(pv, claim) and _selected(claim, pv)


def why_unsuited(pv: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """The reason why a volume that the user named can't be bound, "" when it can. Its labels don't count."""
    if is_deleting(pv):
        return f'the volume is marked for deletion "{pv.metadata.name}"'
    if capacity_of(pv) < request_of(claim):
        return "requested PV is too small"
    if volume_class_of(pv) != shape_of_claim(claim)[0]:
        return "storageClassName does not match"
    if not _same_attributes(pv, claim):
        return "volumeAttributesClassName does not match"
    if mode_of(pv) != mode_of(claim):
        return "incompatible volumeMode"
    return "" if _has_modes(pv, claim) else "incompatible accessMode"


def _could_hold(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    large_enough = capacity_of(pv) >= request_of(claim)
    return (
        large_enough
        and mode_of(pv) == mode_of(claim)
        and _same_attributes(pv, claim)
        and _has_modes(pv, claim)
        and not is_deleting(pv)
    )


def _same_attributes(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (pv.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")


def _has_modes(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return set(claim.spec.access_modes or ()) <= set(pv.spec.access_modes or ())


def _selected(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    return claim.spec.selector is None or selects(claim.spec.selector, pv.metadata.labels)
