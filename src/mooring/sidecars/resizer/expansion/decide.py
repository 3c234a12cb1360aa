"""Decides about the growth of one claim's volume. Pure.

The size that the driver is asked for is on the claim before the call, so that whoever comes after a crash finishes that first.

The consequences of the driver's answer (`decide_after`):

    answer                                              state of the claim           the size may be changed      tried again
    OK, at least as large                               the node's turn, or done
    OK, smaller than asked                              in progress                  yes                          after its back-off
    InvalidArgument, OutOfRange, NotFound               infeasible                   yes                          after --retry-interval-max
    Canceled, DeadlineExceeded, Unavailable,            in progress                  no: the driver may           after its back-off
      ResourceExhausted, Aborted                                                     be at work
    any other                                           in progress                  yes                          after its back-off
    none: it was not called (a missing Secret)          in progress                  no, or as it was             after its back-off

Source: external-resizer 2.2, pkg/util/errors.go. Differs from it: an answer that is smaller than asked is a failure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim, SecretReference
from mooring.api.meta import Key, annotation, key_of
from mooring.api.migration import TranslationError
from mooring.api.quantity import Quantity
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.control.result import Problem
from mooring.csi.errors import DriverError
from mooring.csi.volume_capability import AccessModeError
from mooring.sidecars.resizer import names, slow
from mooring.sidecars.resizer.decision import PODS_KNOWN, LoadSecret, LookAtSecret, WatchPods, unused, volume_changed
from mooring.sidecars.resizer.expansion import reasons as why
from mooring.sidecars.resizer.requests import BYTES_MAX, ExpandOrder, RequestError, expand_order, size_to_ask
from mooring.sidecars.resizer.view import Sizes, View, bytes_text, is_claim_of, is_true, sizes_of
from mooring.wire.grpc.codes import Code, go_name

PODS_S_MAX: Final = 10.0
"""How long the cache of pods is waited for; then the driver is asked again, as if nobody knew of pods."""

FAILED_PRECONDITION: Final = "FailedPrecondition"


class DropPreResize(msgspec.Struct, frozen=True):
    """Remove the annotation with the size before from the PersistentVolume: the node has done its part."""


class Mark(msgspec.Struct, frozen=True):
    """Save on the claim that the driver is about to be asked for this size. anew: it was another one before, or infeasible.

    keeps_error: the driver's last error is why it is not asked yet, and whoever comes after a restart is to know.
    """

    size: str
    anew: bool
    keeps_error: bool = False


class Expand(msgspec.Struct, frozen=True):
    """Call ControllerExpandVolume, and save the answer."""

    order: ExpandOrder
    size: str

    @property
    def target(self) -> str:
        """The part of the claim's wishes that this call asks the driver for."""
        return self.size


class ExpandOnNode(msgspec.Struct, frozen=True):
    """Hand over to the node without a call."""

    size: str


Action = DropPreResize | Mark | LoadSecret | LookAtSecret | WatchPods | Expand | ExpandOnNode


def decide_expansion(view: View, key: Key, now: Instant) -> Decision[Action]:
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
    if not view.is_ours(pv) and not view.is_migrated(pv, claim):
        return Decision(why.Foreign(view.driver.name))
    try:
        sizes = sizes_of(claim, pv)
    except ValueError as error:
        return _stuck(why.BadRequest(f"a size of the claim or its volume can't be read: {error}"), pv)
    drop = (DropPreResize(),) if _may_drop(view, pv, sizes) else ()
    if claim.status.phase != "Bound":
        return Decision(why.NotBound(claim.status.phase), drop)
    if sizes.wanted.value <= sizes.has.value:
        return Decision(why.Served(str(sizes.has), str(sizes.wanted)), drop)
    if not is_claim_of(pv, claim):
        return Decision(why.NotItsVolume(pv_name), drop, waits_for=frozenset({volume_changed(pv_name)}))
    size = _size(view, claim, sizes)
    if size is None:
        return Decision(why.NodesTurn(str(sizes.volume)), drop)
    decision = _decide_size(view, claim, pv, sizes, size, now)
    return msgspec.structs.replace(decision, actions=(*drop, *decision.actions))


def _stuck(problem: Problem, pv: PersistentVolume) -> Decision[Action]:
    return Decision(problem, problem=problem, waits_for=frozenset({volume_changed(pv.metadata.name)}))


def _may_drop(view: View, pv: PersistentVolume, sizes: Sizes) -> bool:
    return view.options.annotate and bool(annotation(pv, names.PRE_RESIZE)) and sizes.has.value >= sizes.volume.value


def _size(view: View, claim: PersistentVolumeClaim, sizes: Sizes) -> Quantity | None:
    node_pending = is_true(claim, names.FS_PENDING)
    if not view.options.recover:
        return None if node_pending and sizes.volume.value >= sizes.wanted.value else sizes.wanted
    return size_to_ask(
        sizes, is_final=view.is_idle(claim), on_controller=view.driver.expands, node_pending=node_pending
    )


def _decide_size(
    view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, sizes: Sizes, size: Quantity, now: Instant
) -> Decision[Action]:
    waiting = _wait(view, claim, pv, sizes, size, now)
    if waiting is not None:
        return waiting
    mark = _mark(view, claim, sizes, size)
    in_use = _wait_for_pods(view, claim, now)
    if in_use is not None:
        is_said = sizes.allocated is not None and sizes.allocated.value == size.value
        if is_said or not view.options.recover:
            return in_use
        mark = (
            Mark(str(size), anew=True, keeps_error=True),
        )  # while it waits, the claim says the size that it is to get
        return Decision(in_use.because, (*mark, *in_use.actions))
    if not view.driver.expands:
        because = why.GrowingOnNode(str(size))
        return Decision(because, (*mark, ExpandOnNode(str(size))), done=f"handed over to the node for {size}")
    try:
        order = expand_order(
            view.csi_spec(pv), size, view.driver.single_node_multi_writer, migrated=pv.spec.csi is None
        )
    except (RequestError, AccessModeError, TranslationError) as error:
        bad = why.BadRequest(failure_text(view, pv, _text_of(pv, error)))
        return Decision(bad, mark, bad, waits_for=frozenset({volume_changed(pv.metadata.name)}))
    holder = view.calls.in_flight.get(order.handle)
    if holder is not None:
        return Decision(why.CallInFlight(holder), waits_for=frozenset({call_over(order.handle)}))
    secret = () if order.secret is None else (LoadSecret(order.secret),)
    growing = why.Growing(str(size))
    actions = (*(mark or _mark_first(view, claim, sizes, size)), *secret, Expand(order, str(size)))
    return Decision(growing, actions, done=f"grown to {size}")


def _text_of(pv: PersistentVolume, error: MooringError) -> str:
    """As external-resizer tells it."""
    match error:
        case AccessModeError():
            return f"failed to get capabilities of volume {pv.metadata.name} with {error}"
        case TranslationError():
            return f"failed to translate persistent volume: {error}"
    return str(error)


def failure_text(view: View, pv: PersistentVolume, error: str) -> str:
    """The event's text about a failure, as external-resizer has it."""
    return f'resize volume "{pv.metadata.name}" by resizer "{view.driver.name}" failed: {error}'


def _wait(
    view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, sizes: Sizes, size: Quantity, now: Instant
) -> Decision[Action] | None:
    """The reason to make no call for this size now."""
    if size.whole > BYTES_MAX:
        return _stuck(why.TooLarge(str(size)), pv)
    if sizes.allocated is not None and sizes.allocated.value == size.value:
        record = view.memory.of(claim)
        rest_s = slow.rest_s(record, str(size), now)
        if rest_s > 0:
            because = why.Infeasible(str(size), record.error or "", rest_s)
            return slow.wait(record, because, rest_s, _secret(view, pv), volume_changed(pv.metadata.name), now)
    return None


def _secret(view: View, pv: PersistentVolume) -> SecretReference | None:
    """None also where the volume can't be translated: no call was made then."""
    try:
        source = view.csi_spec(pv).csi
    except TranslationError:
        return None
    return None if source is None else source.controller_expand_secret_ref


def _wait_for_pods(view: View, claim: PersistentVolumeClaim, now: Instant) -> Decision[Action] | None:
    """The driver has refused to grow a volume in use: it is not asked again while a pod uses the claim."""
    if (
        not view.options.handle_volume_inuse_error
        or view.last_error(claim, names.CONTROLLER_ERROR) != FAILED_PRECONDITION
    ):
        return None
    key = key_of(claim)
    users = view.pods.users_of(key)
    if users is None:
        since = now if view.pods.wanted_at is None else view.pods.wanted_at
        rest_s = since + PODS_S_MAX - now
        if rest_s <= 0:
            return None
        return Decision(why.PodsUnknown(), (WatchPods(),), waits_for=frozenset({PODS_KNOWN}), after_s=rest_s)
    if not users:
        return None
    in_use = why.InUse(key, view.driver.name, users[:3])
    return Decision(in_use, problem=in_use, waits_for=frozenset({unused(key)}))


def _mark(view: View, claim: PersistentVolumeClaim, sizes: Sizes, size: Quantity) -> tuple[Mark, ...]:
    """Nothing where the claim says it all already: a retry of the same size writes nothing. One that shows the size without a step, as
    after a set-back of the API server, would not keep the next process from asking for another one.

    Differs from external-resizer, which leaves a claim infeasible while its request is tried again: a crash during that call would let
    another size overtake it.
    """
    if not view.options.recover:
        return () if is_true(claim, names.RESIZING) else (Mark(str(size), anew=False),)
    is_same = sizes.allocated is not None and sizes.allocated.value == size.value
    lacks_step = not sizes.step and size.value > sizes.has.value
    anew = (
        not is_same
        or lacks_step
        or sizes.step == names.CONTROLLER_INFEASIBLE
        or view.was_infeasible(claim, INFEASIBLE_REASONS)
    )
    is_marked = is_true(claim, names.RESIZING) and names.NOT_REQUIRED not in (claim.metadata.annotations or {})
    return (Mark(str(size), anew),) if anew or not is_marked else ()


def _mark_first(view: View, claim: PersistentVolumeClaim, sizes: Sizes, size: Quantity) -> tuple[Mark, ...]:
    """For the first call about a size that another process has marked: the mark of another size, which that one sent, can't come later."""
    is_anothers = sizes.step == names.CONTROLLER_IN_PROGRESS and view.may_be_written_late(claim)
    return (Mark(str(size), anew=False),) if view.options.recover and is_anothers else ()


INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))
TOO_SMALL: Final = "CapacityTooSmall"
"""In place of a code: the driver said OK, with a size that is none."""


class Expanded(msgspec.Struct, frozen=True):
    """The driver's answer."""

    size_bytes: int
    node_required: bool


class After(msgspec.Struct, frozen=True):
    """size: what the volume has now, "" after a failure. on_node: the node has its part to do still.

    error: the failure's text; reason: its code's Go name. is_final: the driver is not at work.
    is_infeasible: the same request will fail again.
    """

    size: str = ""
    on_node: bool = False
    error: str = ""
    reason: str = ""
    is_final: bool = True
    is_infeasible: bool = False


def decide_after(asked_bytes: int, answer: Expanded | DriverError) -> After:
    """Decides on the answer to a request for so many bytes."""
    if isinstance(answer, Expanded):
        if answer.size_bytes >= asked_bytes:
            return After(bytes_text(answer.size_bytes), answer.node_required)
        text = f"the driver answered a capacity of {answer.size_bytes} bytes to a request for {asked_bytes}"
        return After(error=text, reason=TOO_SMALL)
    is_infeasible = answer.code in INFEASIBLE
    return After(error=str(answer), reason=go_name(answer.code), is_final=answer.final, is_infeasible=is_infeasible)
