"""Decides about the growth of one claim's volume. Pure.

The claim's status is the state, so that whoever comes after a crash goes on from it: the size that was begun
(allocatedResources) and its step (allocatedResourceStatuses). Both are written before the driver is called.

The size to ask for next (`size_to_ask`):

    step                         the volume is smaller than wanted         the volume is as large, or larger
    none                         as wanted                                 as begun: it was made, and not recorded
    ControllerResizeInProgress   as begun, while the driver may be at work on it; then as ControllerResizeInfeasible
    ControllerResizeInfeasible   as wanted                                 as begun where the volume has that, else as
                                                                           wanted
    NodeResizePending,           as begun; none where the volume has       none: it is the node's turn
      NodeResizeInProgress       that, for it is the node's turn
    NodeResizeInfeasible         as begun: once the driver has confirmed   the same; as wanted where nodes do
                                 it, the node may try again                everything

What happens to it (`decide_after`; the writes stand in `reconcile`):

    event                                     step afterwards               conditions        another  asked for
                                                                                              size?    again
    the driver is about to be called          ControllerResizeInProgress    Resizing          no
    OK, the node has work                     NodeResizePending             + FileSystem-     no       node's turn
                                                                            ResizePending
    OK, the node has none                     none; the claim has the size  none
    OK, but smaller than asked                as it was                     + error           yes      back-off
    InvalidArgument, OutOfRange, NotFound     ControllerResizeInfeasible    + error           yes      a long rest
    Canceled, DeadlineExceeded, Unavailable,  as it was: the driver may be  the error that    no       back-off
      ResourceExhausted, Aborted              at work                       is there, anew
    FailedPrecondition                        as it was                     + error           yes      no pod uses it
    any other error                           as it was                     + error           yes      back-off
    no call: its Secret is missing            as it was                     as they were      as       back-off
                                                                                              before
    the node has grown it (the kubelet)       none; the claim has the size  none
    the node refuses it (the kubelet)         NodeResizeInfeasible          + NodeResizeError no       at once

The long rest is `--retry-interval-max`.

Source: external-resizer 2.2, pkg/controller/expand_and_recover.go and pkg/util/errors.go. Differs from it: an answer
that is smaller than asked is a failure; a claim is in progress, too, while an infeasible size is tried again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.core import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta import Key, annotation, key_of
from mooring.api.migration import TranslationError
from mooring.api.quantity import Quantity
from mooring.base.clock import Instant
from mooring.base.errors import MooringError
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.control.reasons import reason
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.volume_capability import AccessModeError
from mooring.sidecars.resizer import names
from mooring.sidecars.resizer.conditions import is_true
from mooring.sidecars.resizer.decision import (
    PODS_KNOWN,
    BadRequest,
    CallInFlight,
    Foreign,
    LoadSecret,
    LookAtSecret,
    NotBound,
    WatchPods,
    claim_and_volume,
    rest_s,
    stuck,
    unused,
    volume_changed,
    wait_while_infeasible,
)
from mooring.sidecars.resizer.requests import BYTES_MAX, ExpandOrder, RequestError, expand_order
from mooring.sidecars.resizer.view import Sizes, View, bytes_text, is_claim_of, sizes_of
from mooring.wire.grpc.codes import Code, go_name

PODS_S_MAX: Final = 10.0
"""How long the cache of pods is waited for; then the driver is called again, as if no pod were known."""

# -- actions


class DropPreResize(msgspec.Struct, frozen=True):
    """Remove the annotation with the size before from the PersistentVolume: the node has done its part."""


class Mark(msgspec.Struct, frozen=True):
    """Save on the claim that the driver is about to be asked for this size."""

    size: str
    #: The claim showed another size before, or an infeasible one.
    anew: bool
    #: The driver's last error is why it is not called yet; the next process is to know it.
    keeps_error: bool = False


class Expand(msgspec.Struct, frozen=True):
    """Call ControllerExpandVolume, and save the answer."""

    order: ExpandOrder
    #: The size that the claim shows as asked for.
    target: str


class ExpandOnNode(msgspec.Struct, frozen=True):
    """Hand over to the node without a call."""

    size: str


Action = DropPreResize | Mark | LoadSecret | LookAtSecret | WatchPods | Expand | ExpandOnNode


# -- reasons; the texts of `error` are external-resizer's where it has one


@reason('PersistentVolume "{pv_name}" is not bound to this claim')
class NotItsVolume:
    pv_name: str


@reason("it has {has}, and asks for {wanted}: nothing to do")
class Served:
    has: str
    wanted: str


@reason("the volume has {size}, and the node has to do its part: the kubelet of a pod's node does it")
class NodesTurn:
    size: str


@reason("the driver refused it because the volume is in use: waits until it is known which pods use it")
class PodsUnknown:
    pass


@reason(
    "the driver holds {size} for infeasible ({error}): tried again in {seconds:.0f} s, or at once with another size"
)
class Infeasible:
    size: str
    error: str
    seconds: float


@reason("the volume grows to {size}: waiting for the driver")
class Growing:
    size: str


@reason("the volume grows to {size} on its node: the driver has no part of it on the controller")
class GrowingOnNode:
    size: str


@reason("{error}: waits until they end")
class InUse:
    claim: Key
    driver_name: str
    #: The first few that use the claim.
    pods: tuple[str, ...]

    @property
    def error(self) -> str:
        why = f"CSI driver {self.driver_name} only supports offline expansion and volume is currently in-use"
        return f"Unable to expand {self.claim} because {why}"


@reason("{error}: the claim has to ask for less")
class TooLarge:
    size: str

    @property
    def error(self) -> str:
        return f"the size {self.size} is more than CSI can express (2^63-1 bytes)"


# -- the next step


def decide_expansion(view: View, key: Key, now: Instant) -> Decision[Action]:
    """Decide the next step for one claim."""
    found = claim_and_volume(view, key)
    if isinstance(found, Decision):
        return found
    claim, pv = found
    if not view.is_ours(pv) and not view.is_migrated(pv, claim):
        return Decision(Foreign(view.driver.name))
    try:
        sizes = sizes_of(claim, pv)
    except ValueError as error:
        return stuck(BadRequest(f"a size of the claim or its volume can't be read: {error}"), pv)
    decision = _decide_growth(view, claim, pv, sizes, now)
    if view.options.annotate and annotation(pv, names.PRE_RESIZE) and sizes.has.value >= sizes.volume.value:
        return msgspec.structs.replace(decision, actions=(DropPreResize(), *decision.actions))
    return decision


def _decide_growth(
    view: View, claim: PersistentVolumeClaim, pv: PersistentVolume, sizes: Sizes, now: Instant
) -> Decision[Action]:
    pv_changed = volume_changed(pv.metadata.name)
    if claim.status.phase != "Bound":
        return Decision(NotBound(claim.status.phase))
    if sizes.is_served:
        return Decision(Served(str(sizes.has), str(sizes.wanted)))
    if not is_claim_of(pv, claim):
        return Decision(NotItsVolume(pv.metadata.name), waits_for=frozenset({pv_changed}))
    size = _next_size(view, claim, sizes)
    if size is None:
        return Decision(NodesTurn(str(sizes.volume)))
    if size.whole > BYTES_MAX:
        return stuck(TooLarge(str(size)), pv)
    target, mark = str(size), _mark(view, claim, sizes, size)
    if not view.driver.expands:
        return Decision(GrowingOnNode(target), (*mark, ExpandOnNode(target)), done=f"handed over to the node: {size}")
    try:
        order = expand_order(
            view.csi_spec(pv), size, view.driver.single_node_multi_writer, migrated=pv.spec.csi is None
        )
    except (RequestError, AccessModeError, TranslationError) as error:
        return stuck(BadRequest(failure_text(view, pv, _text_of(pv, error))), pv, *mark)
    rest = rest_s(view, claim, target, now) if sizes.is_allocated(size) else 0.0
    if rest > 0:
        because = Infeasible(target, view.memory.of(claim).error or "", rest)
        return wait_while_infeasible(view, claim, because, rest, order.secret, pv_changed, now)
    in_use = _wait_for_pods(view, claim, now)
    if in_use is not None:
        if sizes.is_allocated(size) or not view.options.recover:
            return in_use
        # While it waits, the claim says the size that it is to get.
        return Decision(in_use.because, (Mark(target, anew=True, keeps_error=True), *in_use.actions))
    holder = view.calls.in_flight.get(order.handle)
    if holder is not None:
        return Decision(CallInFlight(holder), waits_for=frozenset({call_over(order.handle)}))
    secret = () if order.secret is None else (LoadSecret(order.secret),)
    return Decision(Growing(target), (*mark, *secret, Expand(order, target)), done=f"grown to {size}")


def _next_size(view: View, claim: PersistentVolumeClaim, sizes: Sizes) -> Quantity | None:
    node_pending = is_true(claim, names.FS_PENDING)
    if not view.options.recover:
        return None if node_pending and sizes.volume.value >= sizes.wanted.value else sizes.wanted
    return size_to_ask(
        sizes, is_final=view.is_idle(claim), on_controller=view.driver.expands, node_pending=node_pending
    )


def size_to_ask(sizes: Sizes, *, is_final: bool, on_controller: bool, node_pending: bool) -> Quantity | None:
    """Return the size by the table above, None for the node's turn.

    is_final: the driver has answered the last call with an error after which it is not at work. on_controller: the
    driver grows volumes there. node_pending: the condition FileSystemResizePending holds.
    """
    is_smaller = sizes.volume.value < sizes.wanted.value
    match sizes.step:
        case names.NODE_PENDING | names.NODE_IN_PROGRESS:
            return sizes.begun if is_smaller and not sizes.is_made else None
        case names.NODE_INFEASIBLE:
            return sizes.begun if is_smaller or on_controller else sizes.wanted
        case names.CONTROLLER_IN_PROGRESS if not is_final:
            return sizes.begun
        case names.CONTROLLER_IN_PROGRESS | names.CONTROLLER_INFEASIBLE:
            return sizes.wanted if is_smaller or not sizes.is_made else sizes.begun
        case "" if sizes.allocated is None and node_pending and not is_smaller:
            return None  # an API server without the fields of recovery
    return sizes.wanted if is_smaller else sizes.begun


def _mark(view: View, claim: PersistentVolumeClaim, sizes: Sizes, size: Quantity) -> tuple[Mark, ...]:
    """The mark, none where this process has written it all: a retry of the same size writes nothing."""
    if not view.options.recover:
        return () if is_true(claim, names.RESIZING) else (Mark(str(size), anew=False),)
    # After a set-back of the API server a claim may show the size without a step: the next process would ask for
    # another one.
    lacks_step = not sizes.step and size.value > sizes.has.value
    anew = (
        not sizes.is_allocated(size)
        or lacks_step
        or sizes.step == names.CONTROLLER_INFEASIBLE
        or view.was_infeasible(claim, INFEASIBLE_REASONS)
    )
    is_marked = is_true(claim, names.RESIZING) and names.NOT_REQUIRED not in (claim.metadata.annotations or {})
    # The mark of another size that a former process has sent can't come later than one more mark of ours.
    is_anothers = view.driver.expands and sizes.step == names.CONTROLLER_IN_PROGRESS and view.may_be_written_late(claim)
    return (Mark(str(size), anew),) if anew or not is_marked or is_anothers else ()


def _wait_for_pods(view: View, claim: PersistentVolumeClaim, now: Instant) -> Decision[Action] | None:
    """The driver has refused to grow a volume in use: it is not called again while a pod uses the claim."""
    if not (view.options.handle_volume_inuse_error and view.was_refused_in_use(claim)):
        return None
    key, wanted_at = key_of(claim), view.pods.wanted_at
    users = view.pods.users_of(key)
    if users is None:
        rest = PODS_S_MAX if wanted_at is None else wanted_at + PODS_S_MAX - now
        watch = (WatchPods(),) if wanted_at is None else ()
        known = frozenset({PODS_KNOWN})
        return Decision(PodsUnknown(), watch, waits_for=known, after_s=rest) if rest > 0 else None
    if not users:
        return None
    in_use = InUse(key, view.driver.name, users[:3])
    return Decision(in_use, problem=in_use, waits_for=frozenset({unused(key)}))


def _text_of(pv: PersistentVolume, error: MooringError) -> str:
    """The text that external-resizer has for it."""
    match error:
        case AccessModeError():
            return f"failed to get capabilities of volume {pv.metadata.name} with {error}"
        case TranslationError():
            return f"failed to translate persistent volume: {error}"
    return str(error)


def failure_text(view: View, pv: PersistentVolume, error: str) -> str:
    """The event's text about a failure, as external-resizer has it."""
    return f'resize volume "{pv.metadata.name}" by resizer "{view.driver.name}" failed: {error}'


# -- the driver's answer

INFEASIBLE: Final = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
INFEASIBLE_REASONS: Final = frozenset(map(go_name, INFEASIBLE))
TOO_SMALL: Final = "CapacityTooSmall"
"""The reason in place of a code where the driver answered OK with too small a size."""


class After(msgspec.Struct, frozen=True):
    """What the driver's answer comes to."""

    #: The size that the volume has now, "" after a failure.
    size: str = ""
    #: The node still has its part to do.
    on_node: bool = False
    #: The failure's text, and its code's Go name.
    error: str = ""
    reason: str = ""
    #: The driver is not at work.
    is_final: bool = True
    #: The same request will fail again.
    is_infeasible: bool = False


def decide_after(asked_bytes: int, answer: csi.ControllerExpandVolumeResponse | DriverError) -> After:
    """Decide on the answer to a request for so many bytes."""
    if isinstance(answer, DriverError):
        is_infeasible = answer.code in INFEASIBLE
        return After(error=str(answer), reason=go_name(answer.code), is_final=answer.final, is_infeasible=is_infeasible)
    if answer.capacity_bytes >= asked_bytes:
        return After(bytes_text(answer.capacity_bytes), answer.node_expansion_required)
    text = f"the driver answered a capacity of {answer.capacity_bytes} bytes to a request for {asked_bytes}"
    return After(error=text, reason=TOO_SMALL)
