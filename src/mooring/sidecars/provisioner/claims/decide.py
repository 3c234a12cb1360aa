"""The provisioner's decisions about a claim. Pure.

`decide_claim` gives the next step. Down: the claim. Across: its open intents (`model/intent.py`), by the state of the
current one, or all refused. Repeated is the very request, whatever the claim says now; "seldom": after a rest.

    claim                     no intent   ASKED, UNKNOWN    MADE      DELETING    all REFUSED
    gone                      -           repeat            (store)   clean up    repeat the first, seldom
    has its volume            -           close, or repeat  (store)   clean up    close, or repeat the first, seldom
    not ours, or not due      -           repeat            (store)   clean up    -
    waits as it was           create      create            (store)   clean up    create
    waits, has changed        create      repeat            (store)   clean up    create
    waits, can't be served    fail        repeat            (store)   clean up    fail

"Close": its PersistentVolume is there. "(store)": nothing here, the pending volume comes by its own queue. What is put
off (`ClaimIntents.is_put_off`) is repeated once both the claim and its own PersistentVolume are gone.

The consequences of an answer are decided in `decide_after.py`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from mooring.api.classes import class_of
from mooring.api.core import SECRETS, PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.meta import ObjectMeta, annotation
from mooring.api.storage import VOLUME_ATTRIBUTES_CLASSES, StorageClass
from mooring.base.clock import Instant
from mooring.control.decision import Decision
from mooring.control.secrets import SecretError
from mooring.kube.errors import ApiError, NotFound
from mooring.sidecars.provisioner import names
from mooring.sidecars.provisioner.claims import reasons as why
from mooring.sidecars.provisioner.claims.prepare import (
    LeftToPopulator,
    prepared,
    prepared_again,
    secret_values,
    source_kind,
    volume_name,
)
from mooring.sidecars.provisioner.claims.view import Looked, NotLookedUp, View, Wanted
from mooring.sidecars.provisioner.model import volumes
from mooring.sidecars.provisioner.model.cached import is_asked, provisioner_of, selected_node
from mooring.sidecars.provisioner.model.intent import ClaimIntents, Intent, IntentState, OwnVolume
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import AttemptFailed, Failure, State

# -- the actions


class Begin(msgspec.Struct, frozen=True):
    """Tell the user that an attempt has begun, once for each."""


class LookUp(msgspec.Struct, frozen=True):
    """Read an object that no cache holds from the API server; then decide again."""

    wanted: Wanted


class LeaveToPopulator(msgspec.Struct, frozen=True):
    """Tell the user that a volume populator fills the volume."""


class Create(msgspec.Struct, frozen=True):
    """Hold the source, write the intent, call CreateVolume, store the volume."""

    order: Order


class CleanUp(msgspec.Struct, frozen=True):
    """Call DeleteVolume again for the volume that the order's intent names."""

    order: Order


class Fail(msgspec.Struct, frozen=True):
    """The attempt failed before the driver was called."""

    failure: Failure
    #: The StorageClass: a label of the metrics, as source_kind is.
    class_name: str
    source_kind: str


class CountFailure(msgspec.Struct, frozen=True):
    """Count a failed attempt in the metrics; users are told nothing."""

    class_name: str
    source_kind: str


class CloseIntent(msgspec.Struct, frozen=True):
    """Close the claim's last intent: its PersistentVolume is stored."""


class ReleaseSource(msgspec.Struct, frozen=True):
    """Release the source: the claim has its volume, which needs no source any more."""


Action: TypeAlias = (
    Begin | LookUp | LeaveToPopulator | Create | CleanUp | Fail | CountFailure | CloseIntent | ReleaseSource
)

# -- the next step


def decide_claim(view: View, uid: str, now: Instant, looked: Looked) -> Decision[Action]:
    """The next step for the claim of this uid."""
    claim, entry = view.claim(uid), view.intents.get(uid)
    current = None if entry is None else entry.current
    if claim is None:
        return Decision(why.Gone(uid)) if entry is None else _repeat(view, entry, now, looked)
    if entry is not None and current is not None and current.state is IntentState.DELETING:
        # First of all: until that volume is gone, the driver may answer CreateVolume with it.
        return _repeat(view, entry, now, looked)
    not_due = _not_due(view, claim)
    if not_due is not None:
        if entry is None or view.records.get(uid).pending is not None:
            # A pending volume closes its intent itself: else it could bring its object back after that was deleted.
            return not_due
        if _is_stored(view, entry):
            # The source is released after the intent is closed.
            others = tuple(one for one in not_due.actions if one != ReleaseSource())
            return msgspec.structs.replace(not_due, actions=(*others, CloseIntent(), ReleaseSource()))
        if current is not None or ReleaseSource() in not_due.actions:
            return _repeat(view, entry, now, looked)
        return not_due
    class_name, kind = class_of(claim), source_kind(claim)
    storage_class = view.storage_class(class_name)
    assert storage_class is not None, "it would not be due"
    rest = view.records.get(uid).rest
    if rest is not None and now < rest.until:
        try:
            is_same = rest.fingerprint == fingerprint(view, claim, storage_class, looked)
        except NotLookedUp as missing:
            return _looking_up(missing)  # no Begin: a claim that rests tells its user nothing
        if is_same:
            return Decision(why.NotYetAgain(rest.error, rest.until - now), after_s=rest.until - now)
    try:
        _check_name(view, claim)
        order = prepared(view, claim, storage_class, looked)
        if entry is not None and current is not None and _differs(current, order.intent, looked):
            # The former request first: its volume alone could be why the driver refuses the present one.
            return _repeat(view, entry, now, looked, order.intent)
        order = msgspec.structs.replace(order, fingerprint=fingerprint(view, claim, storage_class, looked))
    except NotLookedUp as missing:
        return _looking_up(missing, Begin())
    except LeftToPopulator as other:
        return Decision(why.Populated(other.kind), (Begin(), LeaveToPopulator()))
    except AttemptFailed as failed:
        if entry is not None and current is not None:
            return _repeat(view, entry, now, looked)
        return _failing(failed.failure, class_name, kind)
    same = None if entry is None else entry.like(order.intent)
    if same is not None:
        # The volume's object is made as it was begun; the node is another one, where both are of one place.
        intent = msgspec.structs.replace(same, node_name=order.intent.node_name)
        order = msgspec.structs.replace(order, intent=intent)
    creating = why.Creating(order.intent.volume_name, entry is not None)
    return Decision(creating, (Begin(), Create(order)))


def _repeat(
    view: View, entry: ClaimIntents, now: Instant, looked: Looked, wanted: Intent | None = None
) -> Decision[Action]:
    """A volume may exist, and its claim is gone, has its volume, or has changed: one request is repeated as it was.

    wanted: the request of the claim as it is now; its secret is used where the former one is gone.
    """
    record, intent = view.records.get(entry.uid), entry.next
    rest, is_unawaited = record.rest, entry.current is None
    if is_unawaited and rest is not None and now < rest.until:
        return Decision(why.NotRuledOut(rest.error, rest.until - now), after_s=rest.until - now)
    if record.pending is not None:
        return Decision(why.Saving(intent.volume_name))
    if _is_stored(view, entry):
        return Decision(why.Provisioned(intent.volume_name), (CloseIntent(), ReleaseSource()))
    if entry.is_put_off and _has_volume(view, entry):
        return Decision(why.PutOff(intent.volume_name))
    try:
        if wanted is not None and wanted.secret != intent.secret and _is_gone(intent.secret, looked):
            volume = volumes.with_secrets_of(intent.volume, wanted.volume)
            intent = msgspec.structs.replace(intent, secret=wanted.secret, volume=volume)
        order = prepared_again(view, intent)
        secret_is_lost = _secret_is_lost(view, intent, now, looked)
        if not secret_is_lost:
            secret_values(intent.secret, looked)
    except NotLookedUp as missing:
        return _looking_up(missing, Begin())
    except AttemptFailed as failed:
        return _failing(failed.failure, intent.class_name, intent.source_kind)
    order = msgspec.structs.replace(
        order,
        source=None if is_unawaited else order.source,  # if there is a volume, it has its data
        secret_is_lost=secret_is_lost,
        own=entry.own if view.claim(entry.uid) is None else OwnVolume.NONE,
    )
    if order.is_retained:
        kept = msgspec.structs.replace(intent, volume=volumes.retained(intent.volume))
        order = msgspec.structs.replace(order, intent=kept)
    if intent.state is IntentState.DELETING:
        return Decision(why.CleaningUp(intent.dying_handle), (Begin(), CleanUp(order)))
    return Decision(why.Creating(intent.volume_name, again=True), (Begin(), Create(order)))


def fingerprint(view: View, claim: PersistentVolumeClaim, storage_class: StorageClass, looked: Looked) -> object:
    """Everything the driver's answer depends on: the claim's spec, node, and annotations that the class names; class,
    attributes class.

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
    if not is_asked(view.driver, claim):
        return Decision(why.NotAsked(provisioner_of(claim)))
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
    """Names cut short can meet. Differs from external-provisioner, which would give two claims one volume. Raises
    AttemptFailed.
    """
    name = volume_name(view, claim.metadata.uid)
    pv = view.volume(name)
    if pv is not None and not _may_be_of(pv, claim):
        ref = pv.spec.claim_ref
        assert ref is not None, "it may be of anybody else"
        error = f'PersistentVolume "{name}" belongs to claim "{ref.namespace}/{ref.name}" already'
        if view.rules.volume_name_uuid_length >= 0:
            error = f"{error}: the names of volumes are cut too short"
        raise AttemptFailed(Failure(error, State.FINISHED))


def _is_stored(view: View, entry: ClaimIntents) -> bool:
    """True when the PersistentVolume of the claim's last request is there. The object of another node's provisioner is
    about another volume, and so is the claim's own for what is put off.
    """
    pv = None if entry.is_put_off else view.volume(entry.volume_name)
    return pv is not None and pv.spec.claim_ref is not None and pv.spec.claim_ref.uid == entry.uid and view.is_here(pv)


def _has_volume(view: View, entry: ClaimIntents) -> bool:
    """True while the claim has its volume, or that may still be deleted: until the object is gone another process may
    call DeleteVolume once more.
    """
    return view.claim(entry.uid) is not None or view.volume(entry.volume_name) is not None


def _differs(before: Intent, wanted: Intent, looked: Looked) -> bool:
    """True when the call of the open intent is to be repeated as it was. Raises NotLookedUp.

    The driver could refuse another request although the volume exists; with another secret it could make a second one
    elsewhere.
    """
    if before.request != wanted.request:
        return True
    return before.secret != wanted.secret and not _is_gone(before.secret, looked)


def _is_gone(secret: SecretReference | None, looked: Looked) -> bool:
    """True for a Secret that no longer exists. Whatever else keeps it from being read may pass. Raises NotLookedUp."""
    if secret is None:
        return False
    try:
        looked.get(Wanted(SECRETS, secret.name, secret.namespace))
    except (ApiError, SecretError) as error:
        return isinstance(error, NotFound)
    return False


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
