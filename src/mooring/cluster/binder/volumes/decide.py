"""The binder's decisions on one claim, and on one PersistentVolume: the PV controller's syncs, without its polls. Pure.

A claim is in one of three situations: no volume is chosen yet; the user named one; the claim was fully bound once, and
only the loss of its volume is checked.

A volume is released only when the API server itself has said that its claim is gone: a cache that is behind must not
cost data. A claim that names another volume counts at once: its volumeName never changes.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api import binding as names
from mooring.api.binding import (
    claim_key,
    has_annotation,
    has_no_class,
    is_delayed,
    mode_of,
    names_claim,
)
from mooring.api.classes import class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.cluster.binder.match import Fits, best_match, was_made_for, why_unsuited
from mooring.cluster.binder.reasons import Gone, Told
from mooring.cluster.binder.view import BY_OWN, BY_VOLUME, View
from mooring.cluster.binder.volumes import reasons as why
from mooring.cluster.binder.volumes.decision import (
    Absent,
    Action,
    Ask,
    Begin,
    Bind,
    End,
    GiveBack,
    LookUpClaim,
    LookUpClass,
    LookUpVolume,
    SetClaimPhase,
    SetClass,
    SetVolumePhase,
    Step,
    Tell,
    TellClaim,
    WakeClaim,
)
from mooring.control.decision import Decision

# -- claims

NOTHING_ABSENT: Final = Absent()
MISSING_S: Final = 60.0
"""How long a volume that a claim names may be missing without a word: kube-controller-manager never says one."""


def decide_claim(view: View, key: Key, absent: Absent = NOTHING_ABSENT) -> Decision[Action]:
    """The next step for one PersistentVolumeClaim."""
    claim = view.claims.get(key)
    if claim is None:
        return Decision(Gone(str(key)))
    if has_annotation(claim, names.BIND_COMPLETED):
        return _decide_bound(view, claim, absent)
    if claim.spec.volume_name:
        return _decide_named(view, claim)
    return _decide_unbound(view, claim, absent)


def _decide_unbound(view: View, claim: PersistentVolumeClaim, absent: Absent) -> Decision[Action]:
    class_name = class_of(claim)
    storage_class = view.storage_class(class_name)
    delayed, fits = is_delayed(storage_class), _not_taken(view, key_of(claim))
    pv = best_match(view.volumes, claim, delayed=delayed, fits=fits)
    if pv is None and delayed:
        pv = _made_for(view, claim, fits)
    if pv is not None:
        if storage_class is None and class_name not in ("", absent.class_name) and not names_claim(pv, claim):
            return Decision(why.LooksForClass(class_name), (LookUpClass(class_name),), again=True)
        return _bind(pv, claim)
    if has_no_class(claim):
        default = view.default_class()
        if default is not None:
            return Decision(why.GetsDefaultClass(default.metadata.name), (SetClass(default.metadata.name),), again=True)
    if delayed and not has_annotation(claim, names.SELECTED_NODE):
        return _pending(claim, why.WaitsForFirstConsumer(view.waiting_pods(key_of(claim))))
    if not class_name:
        return _pending(claim, why.NothingFits())
    if storage_class is None:
        return _told(why.ClassMissing(class_name))
    return _ask(claim, storage_class.provisioner)


def _made_for(view: View, claim: PersistentVolumeClaim, fits: Fits) -> PersistentVolume | None:
    """The volume that was made for a claim with a selected node and has lost its claimRef since; unless a claim names
    it.
    """
    if not has_annotation(claim, names.SELECTED_NODE):
        return None
    for pv in view.volumes.by(BY_OWN, claim.metadata.uid):
        if was_made_for(claim, pv) and not view.claims.by(BY_VOLUME, pv.metadata.name) and fits(pv):
            return pv
    return None


def _not_taken(view: View, claim: Key) -> Fits:
    return lambda pv: view.taken.get(pv.metadata.name, claim) == claim


def _ask(claim: PersistentVolumeClaim, provisioner: str) -> Decision[Action]:
    """Ask for a volume. The claim's phase is written once it is bound."""
    if provisioner.startswith(names.IN_TREE):
        return _told(why.NoSuchPlugin(provisioner))
    if annotation(claim, names.PROVISIONER) == provisioner:
        return _told(why.WaitsForProvisioner(provisioner))
    return _told(why.WaitsForProvisioner(provisioner, asked=False), Ask(provisioner), Begin("provision", provisioner))


def _decide_named(view: View, claim: PersistentVolumeClaim) -> Decision[Action]:
    pv = view.volumes.get(claim.spec.volume_name)
    if pv is None:
        return _pending(claim, why.VolumeMissing(claim.spec.volume_name), patience_s=MISSING_S)
    if pv.spec.claim_ref is None:
        unsuited = why_unsuited(pv, claim)
        if unsuited:
            return _pending(claim, why.VolumeUnsuited(pv.metadata.name, unsuited))
        return _bind(pv, claim)
    if names_claim(pv, claim):
        return _bind(pv, claim)
    taken = why.VolumeTaken(pv.metadata.name)
    if has_annotation(claim, names.BOUND_BY_CONTROLLER):
        return msgspec.structs.replace(_told(taken), problem=taken)
    return _pending(claim, taken)


def _decide_bound(view: View, claim: PersistentVolumeClaim, absent: Absent) -> Decision[Action]:
    pv_name = claim.spec.volume_name
    if not pv_name:
        return _lost(claim, why.ClaimLost())
    pv = view.volumes.get(pv_name)
    if pv is None:
        if (
            claim.status.phase != names.LOST and pv_name != absent.pv_name
        ):  # the watch of volumes may be behind that of claims
            return Decision(why.LooksForVolume(pv_name), (LookUpVolume(pv_name),), again=True)
        return _lost(claim, why.ClaimLost(pv_name))
    if pv.spec.claim_ref is None or pv.spec.claim_ref.uid == claim.metadata.uid or names_claim(pv, claim):
        return _bind(pv, claim)
    return _lost(claim, why.ClaimMisbound(pv.metadata.name))


def _told(because: Told, *actions: Action, patience_s: float = 0.0, is_old: bool = False) -> Decision[Action]:
    """Users get the reason's event after the actions, unless they got it when the state began (is_old)."""
    return Decision(because, actions if is_old else (*actions, Tell(because.event, patience_s)))


def _pending(claim: PersistentVolumeClaim, because: Told, patience_s: float = 0.0) -> Decision[Action]:
    writes = () if claim.status.phase in ("", names.PENDING) else (SetClaimPhase(names.PENDING),)
    return _told(because, *writes, patience_s=patience_s)


def _lost(claim: PersistentVolumeClaim, because: Told) -> Decision[Action]:
    is_old = claim.status.phase == names.LOST
    return _told(because, *(() if is_old else (SetClaimPhase(names.LOST),)), is_old=is_old)


def _bind(pv: PersistentVolume, claim: PersistentVolumeClaim) -> Decision[Action]:
    steps = steps_to_bind(pv, claim)
    if not steps:
        return Decision(why.Bound(pv.metadata.name))
    return Decision(why.Binding(pv.metadata.name), (Bind(pv.metadata.name, steps), End("provision")))


def steps_to_bind(pv: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[Step, ...]:
    """Return those of the four writes that are missing, in order."""
    ref = pv.spec.claim_ref
    claimed = ref is not None and names_claim(pv, claim) and ref.uid == claim.metadata.uid
    named = claim.spec.volume_name == pv.metadata.name and has_annotation(claim, names.BIND_COMPLETED)
    is_marked = claim.status.phase == names.BOUND and (claim.status.access_modes or ()) == (pv.spec.access_modes or ())
    done = {
        Step.CLAIM_VOLUME: claimed,
        Step.MARK_VOLUME: pv.status.phase == names.BOUND,
        Step.NAME_VOLUME: named,
        Step.MARK_CLAIM: is_marked,
    }
    return tuple(step for step in Step if not done[step])


# -- volumes


def decide_volume(view: View, name: str, gone_uid: str = "") -> Decision[Action]:
    """The next step for one PersistentVolume. gone_uid: the uid of a claim that the API server has just said it does
    not have.
    """
    pv = view.volumes.get(name)
    if pv is None:
        return Decision(Gone(name))
    ref = pv.spec.claim_ref
    if ref is None or not ref.uid:
        owner = _owner(view, pv)
        if owner is not None:
            return Decision(why.ClaimsMove(str(key_of(owner))), (WakeClaim(key_of(owner)),))
        return Decision(why.Free(str(claim_key(ref)) if ref else ""), _phase(pv, names.AVAILABLE))
    claim = view.claims.get(claim_key(ref))
    if claim is None or claim.metadata.uid != ref.uid:
        claim = _bound_to(view, pv, ref.uid)
    if claim is None:
        if pv.status.phase in (names.RELEASED, names.FAILED):
            return _reclaim(pv)
        if gone_uid != ref.uid and ref.namespace and ref.name:  # without them it names no claim that there could be
            return Decision(why.LooksForClaim(str(claim_key(ref))), (LookUpClaim(claim_key(ref), ref.uid),), again=True)
        return _released(pv)
    return _claimed(pv, claim)


def _owner(view: View, pv: PersistentVolume) -> PersistentVolumeClaim | None:
    """The claim that was fully bound to a volume whose claimRef was removed, or its uid: it binds again, and nobody
    else has the volume.
    """
    named = view.claims.by(BY_VOLUME, pv.metadata.name)
    ref = pv.spec.claim_ref
    return next(
        (one for one in named if has_annotation(one, names.BIND_COMPLETED) and (ref is None or names_claim(pv, one))),
        None,
    )


def _bound_to(view: View, pv: PersistentVolume, uid: str) -> PersistentVolumeClaim | None:
    """The claim of this uid, if it names the volume: somebody has damaged the names in claimRef, and the claim's turn
    mends them.
    """
    return next((claim for claim in view.claims.by(BY_VOLUME, pv.metadata.name) if claim.metadata.uid == uid), None)


def _claimed(pv: PersistentVolume, claim: PersistentVolumeClaim) -> Decision[Action]:
    key = key_of(claim)
    if claim.spec.volume_name == pv.metadata.name:
        return Decision(why.InUse(str(key)), _phase(pv, names.BOUND))
    if not claim.spec.volume_name:
        if mode_of(pv) != mode_of(claim):
            differ = why.ModesDiffer(pv.metadata.name, claim.metadata.name)
            return Decision(differ, (Tell(differ.event), TellClaim(differ.of_claim)))
        return Decision(why.ClaimsMove(str(key)), (WakeClaim(key),))
    if has_annotation(pv, names.PROVISIONED_BY) and pv.spec.persistent_volume_reclaim_policy == names.DELETE:
        return _reclaim(pv) if pv.status.phase in (names.RELEASED, names.FAILED) else _released(pv)
    return _given_back(pv, key)


def _given_back(pv: PersistentVolume, claim: Key) -> Decision[Action]:
    actions: tuple[Action, ...] = (
        GiveBack(whole=has_annotation(pv, names.BOUND_BY_CONTROLLER)),
        *_phase(pv, names.AVAILABLE),
    )
    return Decision(why.GivenBack(str(claim)), actions)


def _released(pv: PersistentVolume) -> Decision[Action]:
    provisioner, reclaim = annotation(pv, names.PROVISIONED_BY), _reclaim(pv)
    is_deleted = provisioner and pv.spec.persistent_volume_reclaim_policy == names.DELETE
    begins = (Begin("delete", provisioner),) if is_deleted else ()
    tells = (action for action in reclaim.actions if isinstance(action, Tell))
    return Decision(reclaim.because, (*_phase(pv, names.RELEASED), *begins, *tells), again=True)


def _reclaim(pv: PersistentVolume) -> Decision[Action]:
    """The step for a released volume. The external provisioner deletes it: it acts on the phase."""
    policy = pv.spec.persistent_volume_reclaim_policy
    if policy not in (names.RETAIN, names.DELETE, names.RECYCLE):
        return _told(why.UnknownPolicy(policy), *_phase(pv, names.FAILED), is_old=pv.status.phase == names.FAILED)
    assert pv.spec.claim_ref is not None, "who has no claim is not reclaimed"
    return Decision(why.Released(str(claim_key(pv.spec.claim_ref)), policy))


def _phase(pv: PersistentVolume, phase: str) -> tuple[Action, ...]:
    return () if pv.status.phase == phase else (SetVolumePhase(phase),)
