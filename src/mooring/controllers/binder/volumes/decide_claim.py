"""The binder's decision on one claim: the PV controller's claim sync, without its polls.

Pure. Three situations: no volume is chosen yet; the user named one; the claim was fully bound once, and only the loss of its volume is
checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.api.classes import class_of
from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.controllers.binder.volumes.decision import (
    Absent,
    Ask,
    Bind,
    Decision,
    LookUpClass,
    LookUpVolume,
    Operation,
    SetClaimPhase,
    SetClass,
    Step,
)
from mooring.controllers.binding import reasons as why
from mooring.controllers.binding.match import best_match, why_unsuited
from mooring.controllers.binding.names import (
    BIND_COMPLETED,
    BOUND,
    BOUND_BY_CONTROLLER,
    IN_TREE,
    LOST,
    PENDING,
    PROVISIONER,
    SELECTED_NODE,
    has_annotation,
    has_no_class,
    is_delayed,
    names_claim,
)
from mooring.controllers.binding.view import View

NOTHING_ABSENT: Final = Absent()


def decide_claim(view: View, key: Key, absent: Absent = NOTHING_ABSENT) -> Decision:
    """The next step for one PersistentVolumeClaim."""
    claim = view.claims.get(key)
    if claim is None:
        return Decision(why.Gone(str(key)))
    if has_annotation(claim, BIND_COMPLETED):
        return _decide_bound(view, claim, absent)
    if claim.spec.volume_name:
        return _decide_named(view, claim)
    return _decide_unbound(view, claim, absent)


def _decide_unbound(view: View, claim: PersistentVolumeClaim, absent: Absent) -> Decision:
    class_name = class_of(claim)
    storage_class = view.storage_class(class_name)
    delayed = is_delayed(storage_class)
    pv = best_match(view.volumes, claim, delayed=delayed, fits=_not_taken(view, key_of(claim)))
    if pv is not None:
        if storage_class is None and class_name not in ("", absent.class_name) and not names_claim(pv, claim):
            return Decision(why.LooksForClass(class_name), (LookUpClass(class_name),), again=True)
        return _bind(pv, claim)
    if has_no_class(claim):
        default = view.default_class()
        if default is not None:
            return Decision(why.GetsDefaultClass(default.metadata.name), (SetClass(default.metadata.name),), again=True)
    if delayed and not has_annotation(claim, SELECTED_NODE):
        return _pending(claim, why.WaitsForFirstConsumer(view.waiting_pods(key_of(claim))))
    if not class_name:
        return _pending(claim, why.NothingFits())
    if storage_class is None:
        return Decision(why.ClassMissing(class_name))
    return _ask(claim, storage_class.provisioner)


def _not_taken(view: View, claim: Key) -> Callable[[PersistentVolume], bool]:
    return lambda pv: view.taken.get(pv.metadata.name, claim) == claim


def _ask(claim: PersistentVolumeClaim, provisioner: str) -> Decision:
    """The phase is written when it is bound."""
    if provisioner.startswith(IN_TREE):
        return Decision(why.NoSuchPlugin(provisioner))
    if annotation(claim, PROVISIONER) == provisioner:
        return Decision(why.WaitsForProvisioner(provisioner))
    return Decision(why.WaitsForProvisioner(provisioner, asked=False), (Ask(provisioner),), begins=Operation("provision", provisioner))


def _decide_named(view: View, claim: PersistentVolumeClaim) -> Decision:
    pv = view.volumes.get(claim.spec.volume_name)
    if pv is None:
        return _pending(claim, why.VolumeMissing(claim.spec.volume_name))
    if pv.spec.claim_ref is None:
        unsuited = why_unsuited(pv, claim)
        if unsuited:
            return _pending(claim, why.VolumeUnsuited(pv.metadata.name, unsuited))
        return _bind(pv, claim)
    if names_claim(pv, claim):
        return _bind(pv, claim)
    taken = why.VolumeTaken(pv.metadata.name)
    return Decision(taken, failed=True) if has_annotation(claim, BOUND_BY_CONTROLLER) else _pending(claim, taken)


def _decide_bound(view: View, claim: PersistentVolumeClaim, absent: Absent) -> Decision:
    pv_name = claim.spec.volume_name
    if not pv_name:
        return _lost(claim, why.ClaimLost())
    pv = view.volumes.get(pv_name)
    if pv is None:
        if claim.status.phase != LOST and pv_name != absent.pv_name:  # the watch of volumes may be behind that of claims
            return Decision(why.LooksForVolume(pv_name), (LookUpVolume(pv_name),), again=True)
        return _lost(claim, why.ClaimLost(pv_name))
    if pv.spec.claim_ref is None or pv.spec.claim_ref.uid == claim.metadata.uid:
        return _bind(pv, claim)
    return _lost(claim, why.ClaimMisbound(pv.metadata.name))


def _pending(claim: PersistentVolumeClaim, because: why.Because) -> Decision:
    return Decision(because, () if claim.status.phase in ("", PENDING) else (SetClaimPhase(PENDING),))


def _lost(claim: PersistentVolumeClaim, because: why.Because) -> Decision:
    return Decision(because, quiet=True) if claim.status.phase == LOST else Decision(because, (SetClaimPhase(LOST),))


def _bind(pv: PersistentVolume, claim: PersistentVolumeClaim) -> Decision:
    steps = steps_to_bind(pv, claim)
    if not steps:
        return Decision(why.Bound(pv.metadata.name))
    return Decision(why.Binding(pv.metadata.name), (Bind(pv.metadata.name, steps),), ends=Operation("provision"))


def steps_to_bind(pv: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[Step, ...]:
    """The missing ones of the four writes, in order."""
    ref = pv.spec.claim_ref
    claimed = ref is not None and names_claim(pv, claim) and ref.uid == claim.metadata.uid
    named = claim.spec.volume_name == pv.metadata.name and has_annotation(claim, BIND_COMPLETED)
    is_marked = claim.status.phase == BOUND and (claim.status.access_modes or ()) == (pv.spec.access_modes or ())
    done = {Step.CLAIM_VOLUME: claimed, Step.MARK_VOLUME: pv.status.phase == BOUND, Step.NAME_VOLUME: named, Step.MARK_CLAIM: is_marked}
    return tuple(step for step in Step if not done[step])
