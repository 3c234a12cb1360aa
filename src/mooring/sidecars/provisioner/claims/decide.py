"""The provisioner's decision: the next step for one claim. Pure.

is it ours, and due?            decide_claim: no events, no metrics, nothing is tried
the request                     prepare.py
a dying volume                  its deletion is repeated until the driver has answered: it is not asked for again
an open intent                  its volume may exist: the call is repeated until the driver has answered, even if the claim is gone
an unresolved intent            the driver has refused it, and yet its volume may exist: the call is repeated once nobody waits for it,
                                since the claim is gone, or has another volume
"""

from __future__ import annotations

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import SECRETS, PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.meta import ObjectMeta, annotation, finalizers_of, is_deleting
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, StorageClass
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.control.secrets import SecretError
from mooring.kube.errors import ApiError, NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.decision import (
    Action,
    Begin,
    CleanUp,
    CloseIntent,
    CountFailure,
    Create,
    Fail,
    LeaveToPopulator,
    LookUp,
    ReleaseSource,
)
from mooring.sidecars.provisioner.claims.prepare import (
    LeftToPopulator,
    prepared,
    prepared_again,
    secret_values,
    source_kind,
    volume_name,
)
from mooring.sidecars.provisioner.claims.view import Looked, NotLookedUp, View, Wanted
from mooring.sidecars.provisioner.model import orders, volumes
from mooring.sidecars.provisioner.model.cached import provisioner_of, selected_node
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, State


def decide_claim(view: View, uid: str, now: Instant, looked: Looked) -> Decision[Action]:
    """The next step for the claim of this uid."""
    claim = view.claim(uid)
    if claim is None:
        if uid not in view.intents:
            return Decision(why.Gone(uid))
        return _decide_unawaited(view, uid, now, looked)
    not_due = _not_due(view, claim)
    before = view.intents.get(uid)
    record = view.records.get(uid)
    if before is not None and before.dying_handle:
        return _decide_orphan(view, uid, now, looked)
    is_repeated = before is not None and not record.is_unresolved
    if not_due is not None:
        closes_intent = before is not None and _is_stored(view, before)
        if before is not None and not closes_intent and (is_repeated or ReleaseSource() in not_due.actions):
            return _decide_unawaited(view, uid, now, looked)
        return _closing(not_due) if closes_intent else not_due
    class_name = class_of(claim)
    storage_class = view.storage_class(class_name)
    assert storage_class is not None, "it would not be due"
    kind = source_kind(claim)
    rest = record.rest
    try:
        rests = (
            rest is not None
            and now < rest.until
            and rest.fingerprint == fingerprint(view, claim, storage_class, looked)
        )
    except NotLookedUp as missing:
        return _looking_up(missing)
    if rest is not None and rests:
        return Decision(why.NotYetAgain(rest.error, rest.until - now), after_s=rest.until - now)
    try:
        _check_name(view, claim)
        order = prepared(view, claim, storage_class, looked)
    except NotLookedUp as missing:
        return _looking_up(missing, Begin())
    except LeftToPopulator as other:
        return Decision(why.Populated(other.kind), (Begin(), LeaveToPopulator()))
    except AttemptFailed as failed:
        if is_repeated:
            return _decide_orphan(view, uid, now, looked)
        return _failing(failed.failure, class_name, kind)
    try:
        if before is not None and is_repeated and _differs(before, order.intent, looked):
            return _decide_orphan(view, uid, now, looked, order.intent)
    except NotLookedUp as missing:
        return _looking_up(missing, Begin())
    if before is not None and orders.is_same_call(before, order.intent):
        order = msgspec.structs.replace(order, intent=msgspec.structs.replace(_attended(before), stored_handle=None))
    order = msgspec.structs.replace(order, fingerprint=fingerprint(view, claim, storage_class, looked))
    creating = why.Creating(order.intent.volume_name, before is not None)
    return Decision(creating, (Begin(), Create(order, class_name, kind)))


def fingerprint(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, looked: Looked) -> object:
    """Everything the driver's answer depends on: the claim's spec, node, and annotations that the class names; class, attributes class.

    Raises NotLookedUp.
    """
    named = "".join((storage_class.parameters or {}).values())
    notes = {
        key: value for key, value in (claim.metadata.annotations or {}).items() if f"pvc.annotations['{key}']" in named
    }
    same_class = storage_class.metadata.uid, msgspec.structs.replace(storage_class, metadata=ObjectMeta())
    return claim.spec, selected_node(claim), notes, same_class, _attributes_uid(view, claim, looked)


def _attributes_uid(view: View, claim: PersistentVolumeClaim, looked: Looked) -> str:
    name = claim.spec.volume_attributes_class_name
    if not name or not view.rules.volume_attributes_class:
        return ""
    try:
        uid: str = looked.get(Wanted(VOLUME_ATTRIBUTES_CLASSES, name)).metadata.uid
    except ApiError:
        return ""
    return uid


def is_due(view: View, claim: PersistentVolumeClaim) -> bool:
    """True when a volume is to be made for it, now or after a failure."""
    return _not_due(view, claim) is None


def _not_due(view: View, claim: PersistentVolumeClaim) -> Decision[Action] | None:
    """The decision that nothing is to be done for it, None when its volume is to be made."""
    if claim.spec.volume_name:
        return Decision(why.HasVolume(claim.spec.volume_name), (ReleaseSource(),))
    asked = provisioner_of(claim)
    if not view.driver.is_named(asked) or view.driver.name not in (asked, annotation(claim, names.MIGRATED_TO)):
        return Decision(why.NotAsked(asked))
    node_name = selected_node(claim)
    if view.node_name and node_name not in ("", view.node_name):
        return Decision(why.OfAnotherNode(node_name))
    class_name = class_of(claim)
    storage_class = view.storage_class(class_name)
    if storage_class is None:
        return Decision(why.ClassMissing(class_name), (CountFailure(class_name, source_kind(claim)),))
    waits = storage_class.volume_binding_mode == "WaitForFirstConsumer"
    if waits and not annotation(claim, names.SELECTED_NODE):
        return Decision(why.WaitsForNode())
    if view.node_name and not node_name:
        return Decision(why.OfAnotherNode(""))
    if not view.driver.is_named(storage_class.provisioner):
        return Decision(why.ClassOfAnother(class_name, storage_class.provisioner))
    return _already_there(view, claim)


def _already_there(view: View, claim: PersistentVolumeClaim) -> Decision[Action] | None:
    try:
        name = volume_name(view, claim.metadata.uid)
    except AttemptFailed:
        return None  # the attempt reports it
    if view.records.get(claim.metadata.uid).pending is not None:
        return Decision(why.Saving(name))
    pv = view.volume(name)
    return Decision(why.Provisioned(name), (ReleaseSource(),)) if pv is not None and _may_be_of(pv, claim) else None


def has_object(view: View, claim: PersistentVolumeClaim) -> bool:
    """True when its volume is stored, by whomever: the claim may not be bound to it yet."""
    found = _already_there(view, claim)
    return found is not None and ReleaseSource() in found.actions


def _may_be_of(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref, meta = pv.spec.claim_ref, claim.metadata
    return ref is None or (ref.namespace, ref.name, ref.uid or meta.uid) == (meta.namespace, meta.name, meta.uid)


def _check_name(view: View, claim: PersistentVolumeClaim) -> None:
    """Names cut short can meet. Differs from external-provisioner, which would give two claims one volume. Raises AttemptFailed."""
    name = volume_name(view, claim.metadata.uid)
    pv = view.volume(name)
    if pv is not None and not _may_be_of(pv, claim):
        ref = pv.spec.claim_ref
        assert ref is not None, "it may be of anybody else"
        error = f'PersistentVolume "{name}" belongs to claim "{ref.namespace}/{ref.name}" already: the names of volumes are cut too short'
        raise AttemptFailed(Failure(error, State.FINISHED))


def _is_stored(view: View, intent: Intent) -> bool:
    """True when its volume is stored. The object of another node's provisioner is about another volume, and so is another request's."""
    pv = view.volume(intent.volume_name) if intent.stored_handle is None else None
    return pv is not None and pv.spec.claim_ref is not None and pv.spec.claim_ref.uid == intent.uid and view.is_here(pv)


def _is_going(view: View, intent: Intent) -> bool:
    """True while the claim's own volume is deleted, or may be: a driver could take a call of its name for a wish to have it again."""
    pv = view.volume(intent.volume_name)
    if pv is None:
        return False
    is_released = pv.status.phase == "Released" and pv.spec.persistent_volume_reclaim_policy == "Delete"
    if intent.stored_handle:
        return is_released or is_deleting(pv)
    is_held = names.VOLUME_FINALIZER in finalizers_of(
        pv
    )  # it is deleted; a new process calls once more while its object asks for that
    return is_released and (is_held or not is_deleting(pv))


def _differs(before: Intent, wanted: Intent, looked: Looked) -> bool:
    """True when the call of the open intent is to be repeated as it was. Raises NotLookedUp.

    The driver could refuse another request although the volume exists; with another secret it could make a second one elsewhere.
    """
    if not orders.is_same_request(before.request, wanted.request):
        return True
    return before.secret != wanted.secret and not _is_gone(before.secret, looked)


def _attended(intent: Intent) -> Intent:
    """The intent of a claim that is there: its volume has not been taken out of it."""
    return msgspec.structs.replace(intent, unattended=False) if intent.unattended else intent


def _is_gone(secret: SecretReference | None, looked: Looked) -> bool:
    """True for a Secret that no longer exists. Whatever else keeps it from being read may pass. Raises NotLookedUp."""
    if secret is None:
        return False
    try:
        looked.get(Wanted(SECRETS, secret.name, secret.namespace))
    except (ApiError, SecretError) as error:
        return isinstance(error, NotFound)
    return False


def _decide_unawaited(view: View, uid: str, now: Instant, looked: Looked) -> Decision[Action]:
    """Nobody waits for the volume that may exist: once it is refused, the next call may wait."""
    record = view.records.get(uid)
    rest = record.rest
    if rest is not None and now < rest.until and record.is_unresolved:
        return Decision(why.NotRuledOut(rest.error, rest.until - now), after_s=rest.until - now)
    return _decide_orphan(view, uid, now, looked)


def _decide_orphan(
    view: View, uid: str, now: Instant, looked: Looked, wanted: Intent | None = None
) -> Decision[Action]:
    """The volume of an intent may exist, and its claim is gone or has changed: the call is repeated as it was.

    wanted: the intent of the claim as it is now; its secret is used where the former one is gone.
    """
    record = view.records.get(uid)
    intent = record.unknown[0] if record.is_unresolved else view.intents[uid]
    if record.pending is not None:
        return Decision(why.Saving(intent.volume_name))
    if _is_stored(view, intent):
        return Decision(why.Provisioned(intent.volume_name), (CloseIntent(), ReleaseSource()))
    if intent.stored_handle is not None and _is_going(view, intent):
        return Decision(why.WaitsForDeletion(intent.volume_name))
    class_name, kind = intent.class_name, intent.source_kind
    try:
        if wanted is not None and wanted.secret != intent.secret and _is_gone(intent.secret, looked):
            volume = volumes.with_secrets_of(intent.volume, wanted.volume)
            intent = msgspec.structs.replace(intent, secret=wanted.secret, volume=volume)
        if view.claim(uid) is not None:
            intent = _attended(intent)
        elif intent.unattended:
            intent = msgspec.structs.replace(intent, volume=volumes.retained(intent.volume))
        order = prepared_again(view, intent)
        if record.is_unresolved:  # if there is a volume, it needs its source no more
            order = msgspec.structs.replace(order, source=None)
        if _secret_is_lost(view, intent, now, looked):
            order = msgspec.structs.replace(order, secret_is_lost=True)
        else:
            secret_values(intent.secret, looked)
    except NotLookedUp as missing:
        return _looking_up(missing, Begin())
    except AttemptFailed as failed:
        return _failing(failed.failure, class_name, kind)
    if intent.dying_handle:
        dying = why.CleaningUp(intent.dying_handle)
        return Decision(dying, (Begin(), CleanUp(order, class_name, kind)))
    creating = why.Creating(intent.volume_name, again=True)
    return Decision(creating, (Begin(), Create(order, class_name, kind)))


def _secret_is_lost(view: View, intent: Intent, now: Instant, looked: Looked) -> bool:
    """True when claim and secret are gone, and nobody is about to bring the secret back. Raises NotLookedUp."""
    since = view.records.get(intent.uid).orphaned_at
    if since is None or now < since or view.claim(intent.uid) is not None:
        return False
    return _is_gone(intent.secret, looked)


def _looking_up(missing: NotLookedUp, *begins: Begin) -> Decision[Action]:
    wanted = missing.wanted
    what = (
        f"{wanted.kind.name} {wanted.namespace}/{wanted.name}"
        if wanted.namespace
        else f"{wanted.kind.name} {wanted.name}"
    )
    return Decision(why.LookingUp(what), (*begins, LookUp(wanted)), again=True)


def _failing(failure: Failure, class_name: str, source_kind: str) -> Decision[Action]:
    return Decision(why.Hindered(failure), (Begin(), Fail(failure, class_name, source_kind)))


def _closing(decision: Decision[Action]) -> Decision[Action]:
    """The same with the intent closed, before the source is released."""
    actions = sorted((*decision.actions, CloseIntent()), key=lambda action: action == ReleaseSource())
    return msgspec.structs.replace(decision, actions=tuple(actions))
