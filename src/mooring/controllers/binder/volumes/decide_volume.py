"""The binder's decision on one PersistentVolume: whether it is free, bound, or released.

Pure. A volume is released only when the API server itself has said that its claim is gone: a cache that is behind must not cost data.
A claim that names another volume counts at once: its volumeName never changes.
"""

from __future__ import annotations

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.controllers.binder.volumes.decision import Action, Decision, GiveBack, LookUpClaim, Operation, SetVolumePhase, WakeClaim
from mooring.controllers.binding import reasons as why
from mooring.controllers.binding.names import (
    AVAILABLE,
    BOUND,
    BOUND_BY_CONTROLLER,
    DELETE,
    FAILED,
    PROVISIONED_BY,
    RECYCLE,
    RELEASED,
    RETAIN,
    claim_key,
    has_annotation,
    mode_of,
)
from mooring.controllers.binding.view import View


def decide_volume(view: View, name: str, gone_uid: str = "") -> Decision:
    """The next step for one PersistentVolume. gone_uid: of a claim that the API server has just said it does not have."""
    pv = view.volumes.get(name)
    if pv is None:
        return Decision(why.Gone(name))
    ref = pv.spec.claim_ref
    if ref is None or not ref.uid:
        return Decision(why.Free(str(claim_key(ref)) if ref else ""), _phase(pv, AVAILABLE))
    claim = view.claims.get(claim_key(ref))
    if claim is None or claim.metadata.uid != ref.uid:
        if pv.status.phase in (RELEASED, FAILED):
            return _reclaim(pv)
        if gone_uid != ref.uid:
            return Decision(why.LooksForClaim(str(claim_key(ref))), (LookUpClaim(claim_key(ref), ref.uid),), again=True)
        return _released(pv)
    return _claimed(pv, claim)


def _claimed(pv: PersistentVolume, claim: PersistentVolumeClaim) -> Decision:
    key = key_of(claim)
    if claim.spec.volume_name == pv.metadata.name:
        return Decision(why.InUse(str(key)), _phase(pv, BOUND))
    if not claim.spec.volume_name:
        if mode_of(pv) != mode_of(claim):
            differ = why.ModesDiffer(pv.metadata.name, claim.metadata.name)
            return Decision(differ, tells_claim=differ.of_claim)
        return Decision(why.ClaimsMove(str(key)), (WakeClaim(key),))
    if has_annotation(pv, PROVISIONED_BY) and pv.spec.persistent_volume_reclaim_policy == DELETE:
        return _reclaim(pv) if pv.status.phase in (RELEASED, FAILED) else _released(pv)
    return _given_back(pv, key)


def _given_back(pv: PersistentVolume, claim: Key) -> Decision:
    actions: tuple[Action, ...] = (GiveBack(whole=has_annotation(pv, BOUND_BY_CONTROLLER)), *_phase(pv, AVAILABLE))
    return Decision(why.GivenBack(str(claim)), actions)


def _released(pv: PersistentVolume) -> Decision:
    provisioner = annotation(pv, PROVISIONED_BY)
    deleted = provisioner and pv.spec.persistent_volume_reclaim_policy == DELETE
    begins = Operation("delete", provisioner) if deleted else None
    return Decision(_reclaim(pv).because, _phase(pv, RELEASED), again=True, begins=begins)


def _reclaim(pv: PersistentVolume) -> Decision:
    """Deleting is the external provisioner's: it acts on the phase."""
    policy = pv.spec.persistent_volume_reclaim_policy
    if policy not in (RETAIN, DELETE, RECYCLE):
        return Decision(why.UnknownPolicy(policy), _phase(pv, FAILED), quiet=pv.status.phase == FAILED)
    assert pv.spec.claim_ref is not None, "who has no claim is not reclaimed"
    return Decision(why.Released(str(claim_key(pv.spec.claim_ref)), policy))


def _phase(pv: PersistentVolume, phase: str) -> tuple[Action, ...]:
    return () if pv.status.phase == phase else (SetVolumePhase(phase),)
