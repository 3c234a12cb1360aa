"""Decides about the VolumeAttributesClass of one claim's volume. Pure.

The class that the driver is asked for is on the claim before the call. While the driver may be at work on it, the claim's wish for another
one waits; an answer after which the driver is not at work, and a class that is taken back meanwhile, end that.

The consequences of the driver's refusal (`decide_after`):

    answer                                              state of the claim     another class        tried again
    InvalidArgument                                     Infeasible             at once              after --retry-interval-max
    Canceled, DeadlineExceeded, Unavailable,            InProgress             has to wait          after its back-off
      ResourceExhausted, Aborted
    any other                                           InProgress             at once              after its back-off

Source: external-resizer 2.2, pkg/modifycontroller/modify_volume.go.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key
from mooring.base.clock import Instant
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.control.result import Problem
from mooring.control.topics import Topic
from mooring.csi.errors import DriverError
from mooring.sidecars.resizer import names, slow
from mooring.sidecars.resizer.decision import LoadSecret, LookAtSecret, class_changed, volume_changed
from mooring.sidecars.resizer.modification import reasons as why
from mooring.sidecars.resizer.requests import ModifyOrder, RequestError, modify_order
from mooring.sidecars.resizer.view import View, is_true
from mooring.wire.grpc.codes import Code, go_name


class Cancel(msgspec.Struct, frozen=True):
    """Save that nothing is being modified any more."""


class MarkPending(msgspec.Struct, frozen=True):
    """Save that the wanted class is missing, or is another driver's."""


class Mark(msgspec.Struct, frozen=True):
    """Save that the driver is about to be asked for this class."""

    class_name: str


class Modify(msgspec.Struct, frozen=True):
    """Call ControllerModifyVolume, and save the answer."""

    order: ModifyOrder
    class_name: str

    @property
    def target(self) -> str:
        """The part of the claim's wishes that this call asks the driver for."""
        return self.class_name


Action = Cancel | MarkPending | Mark | LoadSecret | LookAtSecret | Modify


def decide_modification(view: View, key: Key, now: Instant) -> Decision[Action]:
    """The next step for one claim."""
    claim = view.claim(key)
    if claim is None:
        return Decision(why.Gone(key))
    pv_name = claim.spec.volume_name
    if not pv_name:
        return Decision(why.NoVolume())
    pv = view.volume(pv_name)
    if pv is None:
        return Decision(why.VolumeMissing(pv_name), waits_for=frozenset({volume_changed(pv_name)}))
    if not view.is_ours(pv):
        return Decision(why.Foreign(view.driver.name))
    if claim.status.phase != "Bound":
        return Decision(why.NotBound(claim.status.phase))
    return _decide_class(view, claim, pv, now)


def _decide_class(view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, now: Instant) -> Decision[Action]:
    status = claim.status
    wanted = claim.spec.volume_attributes_class_name or ""
    under_way = status.modify_volume_status
    if under_way is None and wanted == (status.current_volume_attributes_class_name or ""):
        return Decision(why.Applied(wanted))
    in_progress = under_way is not None and under_way.status == names.MODIFY_IN_PROGRESS
    if not wanted and not in_progress:
        return Decision(why.Cancelling(), (Cancel(),)) if is_true(claim, names.MODIFYING) else Decision(why.TakenBack())
    begun = _target_of(claim) if in_progress else ""
    if begun and (not wanted or not view.is_idle(claim)):
        return _decide_target(view, claim, pv, begun, now, is_begun=True)
    return _decide_target(view, claim, pv, wanted, now, is_begun=False)


def _decide_target(
    view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, target: str, now: Instant, *, is_begun: bool
) -> Decision[Action]:
    """is_begun: the driver may be at work on this class already."""
    record, topic = view.memory.of(claim), class_changed(target)
    rest_s = slow.rest_s(record, target, now)
    attributes_class = view.attributes_class(target)
    if attributes_class is None:
        return _wait_for_class(claim, why.ClassMissing(target), topic, is_begun=is_begun)
    if attributes_class.driver_name != view.driver.name:
        foreign = why.ForeignClass(target, attributes_class.driver_name, view.driver.name)
        return _wait_for_class(claim, foreign, topic, is_begun=is_begun)
    try:
        order = modify_order(pv, claim, attributes_class, extra_metadata=view.options.extra_modify_metadata)
    except RequestError as error:
        bad = why.BadRequest(str(error))
        return Decision(bad, problem=bad, waits_for=frozenset({volume_changed(pv.metadata.name)}))
    if rest_s > 0 and _target_of(claim) == target:
        return slow.wait(record, why.Infeasible(target, rest_s), rest_s, order.secret, topic, now)
    holder = view.calls.in_flight.get(order.handle)
    if holder is not None:
        return Decision(why.CallInFlight(holder), waits_for=frozenset({call_over(order.handle)}))
    secret = () if order.secret is None else (LoadSecret(order.secret),)
    modifying = why.Modifying(target, is_pinned=target != (claim.spec.volume_attributes_class_name or ""))
    mark = _mark(view, claim, target, is_begun=is_begun)
    actions = (*mark, *secret, Modify(order, target))
    return Decision(modifying, actions, done=f"modified to {target}")


def _wait_for_class(
    claim: PersistentVolumeClaim, problem: Problem, topic: Topic, *, is_begun: bool
) -> Decision[Action]:
    """The class can't be asked for before it is another one. The claim says so, unless the driver may be at work on it."""
    if not is_begun and not _is_pending(claim):
        return Decision(problem, (MarkPending(),))
    return Decision(problem, problem=problem, waits_for=frozenset({topic}))


def _is_pending(claim: PersistentVolumeClaim) -> bool:
    under_way = claim.status.modify_volume_status
    return under_way is not None and under_way.status == names.MODIFY_PENDING


def _target_of(claim: PersistentVolumeClaim) -> str:
    under_way = claim.status.modify_volume_status
    return under_way.target_volume_attributes_class_name if under_way is not None else ""


def _mark(view: View, claim: PersistentVolumeClaim, target: str, *, is_begun: bool) -> tuple[Mark, ...]:
    """Nothing where this process has said it on the claim already: a retry of the same class writes nothing.

    A class that another process has marked is marked once more: the mark of another class, which that one sent, can't come later.
    """
    if view.may_be_written_late(claim):
        return (Mark(target),)
    if is_begun:
        return ()
    if view.was_infeasible(claim, INFEASIBLE_REASONS):
        return (Mark(target),)
    under_way = claim.status.modify_volume_status
    is_marked = under_way is not None and under_way.status == names.MODIFY_IN_PROGRESS
    return () if is_marked and _target_of(claim) == target and is_true(claim, names.MODIFYING) else (Mark(target),)


INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))


class Refused(msgspec.Struct, frozen=True):
    """reason: the code's Go name. message: the driver's. told: the event's text. condition: the message of ModifyingVolume.

    is_infeasible: the same request will fail again.
    """

    reason: str
    message: str
    told: str
    condition: str
    is_infeasible: bool = False


def decide_after(class_name: str, error: DriverError) -> Refused:
    """Decides on the refusal of this class."""
    reason, told = go_name(error.code), str(error)
    if not error.final:
        still = f'Modifying volume to "{class_name}" is still in progress.'
        return Refused(reason, error.message, f"{told}. Still modifying to VAC {class_name}", still)
    waiting = f'Modifying volume to "{class_name}" failed. Waiting for retry.'
    return Refused(reason, error.message, told, waiting, is_infeasible=error.code in INFEASIBLE)
