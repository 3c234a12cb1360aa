"""Decides about the VolumeAttributesClass of one claim's volume. Pure.

The claim's status.modifyVolumeStatus is the state: the class that the driver is asked for (target), and a status. Both
are written before the driver is called.

The class to ask for next:

    status         the claim asks for a class                              the claim asks for none
    none, Pending  that class                                              nothing; what was shown is cancelled
    InProgress     the target, while the driver may be at work on it;      the target: it is finished
                   then that class
    Infeasible     that class                                              nothing; what was shown is cancelled

What happens to it (`decide_after`; the writes stand in `reconcile`):

    event                                     status afterwards     another class?   asked for again
    the class is missing                      Pending               at once          when it is there
    the driver is about to be called          InProgress            no
    OK                                        none
    InvalidArgument                           Infeasible            at once          after --retry-interval-max
    Canceled, DeadlineExceeded, Unavailable,  InProgress            no: the driver   after its back-off
      ResourceExhausted, Aborted                                    may be at work
    any other error                           InProgress            at once          after its back-off

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
from mooring.control.reasons import reason
from mooring.csi.errors import DriverError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import is_true
from mooring.sidecars.resizer.decision import (
    BadRequest,
    CallInFlight,
    Foreign,
    LoadSecret,
    LookAtSecret,
    NotBound,
    claim_and_volume,
    class_changed,
    rest_s,
    stuck,
    wait_while_infeasible,
)
from mooring.sidecars.resizer.requests import ModifyOrder, RequestError, modify_order
from mooring.sidecars.resizer.view import View
from mooring.wire.grpc.codes import Code, go_name

UNABLE_S: Final = 3600.0
"""How often users hear that the driver modifies no volumes: the API server keeps Events for an hour."""

# -- actions


class Cancel(msgspec.Struct, frozen=True):
    """Save that nothing is being modified any more."""


class MarkPending(msgspec.Struct, frozen=True):
    """Save that the wanted class is missing."""


class Mark(msgspec.Struct, frozen=True):
    """Save that the driver is about to be asked for this class."""

    class_name: str


class Modify(msgspec.Struct, frozen=True):
    """Call ControllerModifyVolume, and save the answer."""

    order: ModifyOrder
    #: The class that the claim shows as asked for.
    target: str


Action = Cancel | MarkPending | Mark | LoadSecret | LookAtSecret | Modify

# -- reasons; the texts of `error` are external-resizer's where it has one


@reason("it has the class that it asks for: {shown}")
class Applied:
    #: "" for no class.
    class_name: str

    @property
    def shown(self) -> str:
        return f'"{self.class_name}"' if self.class_name else "none"


@reason("it asks for no class any more: nothing to do")
class TakenBack:
    pass


@reason("it asks for no class any more: the modification is cancelled")
class Cancelling:
    pass


@reason(
    'the driver holds the class "{class_name}" for infeasible: tried again in {seconds:.0f} s, or at once with '
    "another class"
)
class Infeasible:
    class_name: str
    seconds: float


@reason('the volume is modified to the class "{class_name}"{pinned}: waiting for the driver')
class Modifying:
    class_name: str
    #: The claim asks for another class by now; the driver may be at work on this one, and has to end first.
    is_pinned: bool = False

    @property
    def pinned(self) -> str:
        return ", which the driver may be at work on" if self.is_pinned else ""


@reason("{error} Its arrival wakes this claim")
class ClassMissing:
    class_name: str

    @property
    def error(self) -> str:
        return f'VAC "{self.class_name}" does not exist.'


@reason("{error}")
class CannotModify:
    driver_name: str
    class_name: str

    @property
    def error(self) -> str:
        return f'CSI driver {self.driver_name} can\'t modify volumes: VAC "{self.class_name}" is not applied'


# -- the next step


def decide_modification(view: View, key: Key, now: Instant) -> Decision[Action]:
    """Decide the next step for one claim."""
    found = claim_and_volume(view, key)
    if isinstance(found, Decision):
        return found
    claim, pv = found
    if not view.is_ours(pv):
        return Decision(Foreign(view.driver.name))
    if claim.status.phase != "Bound":
        return Decision(NotBound(claim.status.phase))
    wanted, current = class_names(claim)
    status, target = state_of(claim)
    if claim.status.modify_volume_status is None and wanted == current:
        return Decision(Applied(wanted))
    in_progress = status == names.MODIFY_IN_PROGRESS
    if not wanted and not in_progress:
        return Decision(Cancelling(), (Cancel(),)) if is_true(claim, names.MODIFYING) else Decision(TakenBack())
    if not view.driver.modifies:
        unable = CannotModify(view.driver.name, wanted or target)
        return Decision(unable, problem=unable, after_s=UNABLE_S)
    is_begun = in_progress and bool(target) and (not wanted or not view.is_idle(claim))
    return _decide_target(view, claim, pv, target if is_begun else wanted, now, is_begun=is_begun)


def class_names(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """The class that the claim asks for, and the one that it has; "" for none."""
    return claim.spec.volume_attributes_class_name or "", claim.status.current_volume_attributes_class_name or ""


def state_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    """The status and the target of a modification, ("", "") for none."""
    state = claim.status.modify_volume_status
    return (state.status, state.target_volume_attributes_class_name) if state is not None else ("", "")


def _decide_target(
    view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, target: str, now: Instant, *, is_begun: bool
) -> Decision[Action]:
    """is_begun: the driver may be at work on this class already."""
    topic, (status, shown) = class_changed(target), state_of(claim)
    attributes_class = view.attributes_class(target)
    if attributes_class is None:
        missing = ClassMissing(target)
        if not is_begun and status != names.MODIFY_PENDING:
            return Decision(missing, (MarkPending(),))
        return Decision(missing, problem=missing, waits_for=frozenset({topic}))
    try:
        order = modify_order(pv, claim, attributes_class, extra_metadata=view.options.extra_modify_metadata)
    except RequestError as error:
        return stuck(BadRequest(str(error)), pv)
    rest = rest_s(view, claim, target, now) if shown == target else 0.0
    if rest > 0:
        return wait_while_infeasible(view, claim, Infeasible(target, rest), rest, order.secret, topic, now)
    holder = view.calls.in_flight.get(order.handle)
    if holder is not None:
        return Decision(CallInFlight(holder), waits_for=frozenset({call_over(order.handle)}))
    # A retry of what this process has marked writes nothing. What another process has marked is marked once more: the
    # mark of another class that it has sent can't come later.
    is_marked = not view.may_be_written_late(claim) and (
        is_begun
        or (
            (status, shown) == (names.MODIFY_IN_PROGRESS, target)
            and is_true(claim, names.MODIFYING)
            and not view.was_infeasible(claim, INFEASIBLE_REASONS)
        )
    )
    mark = () if is_marked else (Mark(target),)
    secret = () if order.secret is None else (LoadSecret(order.secret),)
    modifying = Modifying(target, is_pinned=target != class_names(claim)[0])
    return Decision(modifying, (*mark, *secret, Modify(order, target)), done=f"modified to {target}")


# -- the driver's refusal

INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))


class Refused(msgspec.Struct, frozen=True):
    """What the driver's refusal comes to."""

    #: The code's Go name, and the driver's message.
    reason: str
    message: str
    #: The text of the event.
    told: str
    #: The message of ModifyingVolume.
    condition: str
    #: The same request will fail again.
    is_infeasible: bool = False


def decide_after(class_name: str, error: DriverError) -> Refused:
    """Decide on the refusal of this class."""
    reason, told = go_name(error.code), str(error)
    if not error.final:
        still = f'Modifying volume to "{class_name}" is still in progress.'
        return Refused(reason, error.message, f"{told}. Still modifying to VAC {class_name}", still)
    waiting = f'Modifying volume to "{class_name}" failed. Waiting for retry.'
    return Refused(reason, error.message, told, waiting, is_infeasible=error.code in INFEASIBLE)
