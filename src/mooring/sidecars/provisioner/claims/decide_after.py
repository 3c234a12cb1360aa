"""The provisioner's second decision: the consequences of an answer. Pure.

The fate of a volume that the driver has made, by the API server's answer about its PersistentVolume:

    answer     the volume can't be used     the PersistentVolume was refused
    STORED     stored, as it is             -
    LATER      left alone                   -
    TAKEN      left alone                   left alone
    REFUSED    deleted, unless kept         deleted, unless kept, its claim is bound to it, or is gone and its class
                                            retains volumes

A volume without an id is left alone; it can't be named. Unless kept: somebody may have kept it on purpose
(`Order.is_retained`).

A claim whose attempt has failed, the first row that fits:

    over, nobody waits for the volume, no call is unknown      FORGET
    the selected node can't have the volume                    the scheduler is asked for another one
    over, it was a former request                              AT_ONCE, with the present one
    infeasible, or nobody waits and a call is unknown          REST
    else                                                       RETRY
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.migration import csi_driver_of
from mooring.base.errors import MooringError
from mooring.sidecars.provisioner.model import volumes
from mooring.sidecars.provisioner.model.cached import selected_node
from mooring.sidecars.provisioner.model.intent import Intent
from mooring.sidecars.provisioner.model.orders import Order
from mooring.sidecars.provisioner.model.outcomes import Failure, Save, State

RESCHEDULES_MAX: Final = 10
"""Reschedules in a row without any wait; from there on every other one waits for the back-off."""

MAY_EXIST: Final = "An earlier call may have made a volume all the same: it is asked for again until the driver tells"


# -- the volume


class Fate(enum.Enum):
    """The fate of a volume that the driver has made."""

    STORED = "stored"
    DELETED = "deleted"
    #: Neither stored nor deleted.
    LEFT = "left alone"


class Verdict(msgspec.Struct, frozen=True):
    """The fate of a volume, and the failure of its attempt."""

    fate: Fate
    #: The attempt's failure; `after_deletion` adds the result of a deletion.
    failure: Failure
    #: An event reports a deletion that works.
    reports_deletion: bool = False


def decide_unusable_volume(order: Order, failure: Failure, owner: Save | None, error: str) -> Verdict:
    """The volume does not match the request. It is deleted unless an object names it: a volume in use is not deleted
    for one odd answer.

    owner: the API server's answer about the object of the volume's name, error its text; None for a volume without
    an id.
    """
    match owner:
        case None:
            return Verdict(Fate.LEFT, failure)
        case Save.STORED:
            return Verdict(Fate.STORED, failure)
        case Save.LATER:
            why = (
                error
                if error.startswith(failure.error)
                else f"{failure.error}; its PersistentVolume can't be looked up: {error}"
            )
            return Verdict(Fate.LEFT, Failure(why, State.BACKGROUND))
        case Save.TAKEN:
            return _taken(error)
    return _delete_unless_kept(order, failure)


class Holder(enum.Enum):
    """The claim of a volume whose object was refused."""

    WAITS = "it waits for the volume"
    #: It names the object, which was stored before and is gone.
    BOUND = "it is bound to the volume"
    GONE = "it is gone"
    UNKNOWN = "it can't be looked up"


def decide_volume_after_pv_refused(order: Order, saved: Save, error: str, claim: Holder) -> Verdict:
    """The API server will never take this object: the volume is deleted, unless another's object may be about this very
    volume.

    Nor is it deleted for a claim that is bound to it: its object was forced away, and the claim may get it back.
    Differs from external-provisioner, which sends a refused object for ever and reports nothing.
    """
    if saved is Save.TAKEN:
        return _taken(error)
    why = f"the API server refused the PersistentVolume: {error}"
    if claim in (Holder.BOUND, Holder.UNKNOWN):
        left = _left_alone(order, f"as for its claim, {claim.value}")
        return Verdict(Fate.LEFT, Failure(f"{why}{left}", State.BACKGROUND))
    if claim is Holder.GONE and _may_be_taken_out(order):
        left = _left_alone(order, "its claim may be gone, and its class retains volumes")
        return Verdict(Fate.LEFT, Failure(f"{why}{left}", State.BACKGROUND))
    return _delete_unless_kept(order, Failure(why, State.FINISHED, infeasible=True), reports_deletion=True)


def _may_be_taken_out(order: Order) -> bool:
    """True when the user may have taken the volume out of its claim, which is gone: then it only looks as if it was
    never stored.
    """
    return not order.is_retained and volumes.retains(order.intent.volume)


def after_deletion(order: Order, verdict: Verdict, problem: MooringError | None) -> Failure:
    """The failure to report once the volume was deleted, or could not be. problem: of the last try, None when the
    volume is gone.
    """
    failure = verdict.failure
    if problem is None:
        error = (
            f"{failure.error}. Volume {order.intent.volume_name} was deleted"
            if verdict.reports_deletion
            else failure.error
        )
        return msgspec.structs.replace(failure, error=error, state=State.FINISHED, proves_absent=True)
    error = f"{failure.error}. Cleanup of volume {order.intent.volume_name} failed, volume is orphaned: {problem}"
    return Failure(error, State.BACKGROUND)


def _taken(error: str) -> Verdict:
    return Verdict(Fate.LEFT, Failure(error, State.FINISHED, proves_absent=True))


def _delete_unless_kept(order: Order, failure: Failure, *, reports_deletion: bool = False) -> Verdict:
    if not order.is_retained:
        return Verdict(Fate.DELETED, failure, reports_deletion)
    error = f"{failure.error}{_left_alone(order, 'it may have been kept on purpose')}"
    return Verdict(Fate.LEFT, Failure(error, State.FINISHED, proves_absent=True))


def _left_alone(order: Order, because: str) -> str:
    return f". Volume {order.intent.volume_name} is left alone: {because}"


# -- the claim


class Then(enum.Enum):
    """When a claim whose attempt has failed comes again."""

    FORGET = "never"
    AT_ONCE = "at once"
    #: A long while, unless the claim changes.
    REST = "after a rest"
    RETRY = "after its back-off"


class Attempted(msgspec.Struct, frozen=True):
    """A failed attempt, and the situation after it."""

    failure: Failure
    #: The attempt's order, None when it did not get that far.
    order: Order | None
    #: The claim as it is now, None when gone.
    claim: PersistentVolumeClaim | None
    #: The node that the attempt was for, "" for none.
    node_tried: str = ""
    #: An earlier call may have made a volume, although this one failed.
    is_open: bool = False
    #: How many reschedules in a row came before this failure.
    reschedules: int = 0
    #: The claim's volume is stored by now, perhaps by hand, and the claim is still to be bound to it.
    has_object: bool = False

    @property
    def is_awaited(self) -> bool:
        """True while the claim waits for a volume."""
        return self.claim is not None and not self.claim.spec.volume_name and not self.has_object


class After(msgspec.Struct, frozen=True):
    """The consequences of a failed attempt at a claim."""

    #: When the claim comes again, unless the scheduler is asked for another node: then the claim waits for that.
    then: Then
    #: The claim's source is released: even a volume that may exist needs it no more.
    releases_source: bool = False
    #: One more node in a row can't have the volume.
    node_unsuitable: bool = False
    #: The scheduler is asked for another node.
    other_node: bool = False
    #: The claim's fingerprint, a change of which ends a rest early; None where there is no such rest.
    fingerprint: object = None


def reported_failure(failure: Failure, order: Order | None) -> Failure:
    """The refusal of a former request says nothing about the claim's present request."""
    return msgspec.structs.replace(failure, infeasible=False) if order is not None and order.is_former else failure


def told(answer: Attempted) -> str:
    """The text for users. An intent that no claim waits for shows nowhere else."""
    error = answer.failure.error
    return error if answer.is_awaited or not (answer.is_open and answer.failure.is_over) else f"{error}. {MAY_EXIST}"


def decide_claim_after_failure(answer: Attempted) -> After:
    """Decide what follows from a failed attempt. The failure is the one of `reported_failure`."""
    failure, order, claim = answer.failure, answer.order, answer.claim
    is_unwanted = failure.is_over and not answer.is_awaited
    if is_unwanted and not answer.is_open:
        return After(Then.FORGET, releases_source=True)
    unsuitable = failure.state is State.RESCHEDULE and answer.is_awaited and _is_selected(answer.node_tried, claim)
    times = answer.reschedules + 1
    asks = unsuitable and not (times > RESCHEDULES_MAX and times % 2 == 0)
    rests_as = order.fingerprint if failure.infeasible and order is not None else None
    if failure.is_over and answer.is_awaited and order is not None and order.is_former:
        then = Then.AT_ONCE
    else:
        then = Then.REST if rests_as is not None or is_unwanted else Then.RETRY
    return After(then, is_unwanted, unsuitable, asks, rests_as)


def _is_selected(node_name: str, claim: PersistentVolumeClaim | None) -> bool:
    return claim is not None and node_name != "" and selected_node(claim) == node_name


# -- the owner of an object that has the volume's name


def owner_of(
    found: PersistentVolume | None, intent: Intent, *, driver_name: str, is_here: bool = True, refused: str = ""
) -> tuple[Save, str]:
    """The object of the volume's name, as the result of a try to store one, and the reason for users.

    found: None where no object has the name. is_here: the node that is served, if it is one alone, can reach its
    volume. refused: the reason that there will be none, "" where one was found a moment ago.

    STORED: the object is the claim's own, or names no claim: an answer was lost. TAKEN: it is another claim's, and may
    be about this volume. REFUSED: it is another driver's, or another node's, so this volume is nobody's. Handles are
    not compared: a driver may spell that of one volume in another way each time.
    """
    name = intent.volume_name
    if found is None:
        return (Save.REFUSED, refused) if refused else (Save.LATER, "it was there, and is gone again")
    ref, source = found.spec.claim_ref, found.spec.csi
    if not is_here or driver_name != (csi_driver_of(found.spec) if source is None else source.driver):
        return Save.REFUSED, f'PersistentVolume "{name}" is there already, and is about another volume'
    if ref is None or ref.uid in ("", intent.uid):
        return Save.STORED, ""
    return Save.TAKEN, f'PersistentVolume "{name}" belongs to claim "{ref.namespace}/{ref.name}" already'
