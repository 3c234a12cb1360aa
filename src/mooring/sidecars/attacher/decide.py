"""The attacher's decisions: the next step for one VolumeAttachment, or for one PersistentVolume.

Pure: the view goes in, actions come out. `Reconciler` carries them out in order; the first failure stops the rest and
the key comes again. Everything that can be checked is checked before the attachment's finalizer is set, because from
then on its deletion needs a detach; only the volume's finalizer comes before the later checks, as in external-attacher.

A node's name may be taken over by another machine: then its CSINode has another node id. What becomes of a volume on
the former machine, whose id stands in the attachment's annotation or in the memory of an unconfirmed publish:

    the attachment       ListVolumes reports it    what is done
    is attached          as it should be, or       nothing: pods may use it on the former machine
                         there is no report
    is attached          nowhere                   it is published on the new machine
    is attached          on the former machine     it is unpublished there, then published on the new one
    is not attached      anywhere                  the same
    is being deleted     anywhere                  it is unpublished on both

    A volume stays on a machine where another attachment that is not being deleted has it. A status that is still about
    the former machine is marked so (`mooring.dev/status-of`) by the write that names the new one, until the new status
    is stored: a process that dies between the two leaves an attachment that is published once more. external-attacher
    forgets the former machine.
"""

from __future__ import annotations

import msgspec

from mooring.api.core import SecretReference
from mooring.api.meta import Key, annotation, is_deleting
from mooring.api.migration import driver_and_handle
from mooring.api.storage import VolumeAttachment
from mooring.control.call_slots import call_over
from mooring.control.decision import Decision
from mooring.control.result import Problem
from mooring.csi.driver_capabilities import DriverCapabilities
from mooring.csi.volume_capability import AccessModeError, volume_capability
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.memory import Drift, UnconfirmedPublish
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder, is_single_node
from mooring.sidecars.attacher.view import (
    BY_VOLUME,
    NODE_ID_ANNOTATION,
    STATUS_OF_ANNOTATION,
    ResolvedVolume,
    View,
    named_volume,
    resolve_volume,
)

# -- actions


class AddVolumeFinalizer(msgspec.Struct, frozen=True):
    """Add the finalizer to the PersistentVolume, so that it stays for the detach."""

    pv_name: str


class LookUpVolume(msgspec.Struct, frozen=True):
    """Ask the API server for a PersistentVolume that the cache lacks: the watches of attachments and volumes are not in
    step.
    """

    pv_name: str


class LookUpNode(msgspec.Struct, frozen=True):
    """Ask the API server for a CSINode whose entry for the driver the cache lacks."""

    node_name: str


class LoadSecret(msgspec.Struct, frozen=True):
    """Read the Secret that the next call needs; all attachments that wait for it share the result."""

    ref: SecretReference


class ShareSecret(msgspec.Struct, frozen=True):
    """Wait for the result of the read of this Secret that is under way."""

    ref: SecretReference


class WaitForCall(msgspec.Struct, frozen=True):
    """Wait until a call has ended."""

    #: The call about this volume; None for any call.
    volume_handle: str | None = None


class AddFinalizer(msgspec.Struct, frozen=True):
    """Add finalizer and node id to the attachment: from now on it can't vanish without a detach."""

    node_id: str


class Publish(msgspec.Struct, frozen=True):
    """Call ControllerPublishVolume and save the answer."""

    order: PublishOrder


class ConfirmStatus(msgspec.Struct, frozen=True):
    """Remove the mark that the status is about a former machine."""


class Unpublish(msgspec.Struct, frozen=True):
    """Call ControllerUnpublishVolume."""

    order: UnpublishOrder


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Remove the finalizer from the attachment."""

    #: Then mark the attachment detached, if it is still there.
    mark: bool = True


class MarkAttached(msgspec.Struct, frozen=True):
    """Mark the attachment attached without a call (drivers that don't publish)."""


class RemoveVolumeFinalizer(msgspec.Struct, frozen=True):
    """Remove the finalizer from the PersistentVolume."""

    pv_name: str


class ClearError(msgspec.Struct, frozen=True):
    """Remove the attachError from an attachment that is attached."""


class SettlePublish(msgspec.Struct, frozen=True):
    """Confirm at the API server that the attachment shows the publish: its end is a detach from now on."""


class MarkDetached(msgspec.Struct, frozen=True):
    """Save that it is detached, where an earlier try could not."""


class EndUndo(msgspec.Struct, frozen=True):
    """Forget the orphaned publish: it has been undone, or is another attachment's."""


Action = (
    AddVolumeFinalizer
    | LookUpVolume
    | LookUpNode
    | LoadSecret
    | ShareSecret
    | WaitForCall
    | AddFinalizer
    | Publish
    | ConfirmStatus
    | Unpublish
    | RemoveFinalizer
    | MarkAttached
    | RemoveVolumeFinalizer
    | ClearError
    | SettlePublish
    | MarkDetached
    | EndUndo
)


# -- VolumeAttachments


def decide_attachment(view: View, name: str) -> Decision[Action]:
    """Decide the next step for one VolumeAttachment, or for a publish that an earlier one of its name left behind."""
    orphaned, attachment = view.memory.orphaned(name), view.attachment(name)
    if attachment is not None and (orphaned is None or _supersedes(view, attachment, orphaned)):
        decision = _decide_present(view, attachment)
        # While this attachment only waits, the orphaned publish is undone.
        if orphaned is None or decision.actions:
            return msgspec.structs.replace(decision, uid=attachment.metadata.uid)
    return Decision(why.Gone(name)) if orphaned is None else _decide_undo(view, orphaned)


def _supersedes(view: View, attachment: VolumeAttachment, orphaned: UnconfirmedPublish) -> bool:
    """Return True where the attachment that has the name by now needs the very publish that is orphaned."""
    if attachment.spec.attacher != view.driver.name or is_deleting(attachment):
        return False
    volume, needed = resolve_volume(view, attachment), (orphaned.order.handle, orphaned.order.node_id)
    return isinstance(volume, ResolvedVolume) and needed == (
        volume.source.volume_handle,
        view.node_id(attachment.spec.node_name),
    )


def _decide_undo(view: View, unconfirmed: UnconfirmedPublish) -> Decision[Action]:
    """Undo a publish whose attachment was removed by force, with its finalizer: no other program would undo it.

    An attachment that has the name by now comes after that, unless it can be attached at once and needs this very
    publish. Another attachment that holds the volume there by now keeps it.
    """
    order, attachment = unconfirmed.order, unconfirmed.attachment
    decision = _wait_for_call(view, attachment.metadata.name, order.handle, order.secret)
    if decision is None:
        twin = next(view.twins(attachment, order.node_id), None)
        if twin is not None:
            decision = Decision(why.HeldByAnother(twin.metadata.name), (EndUndo(),), again=True)
        else:
            because = why.TakingBack(attachment.spec.node_name, order.node_id)
            decision = Decision(because, (Unpublish(order), EndUndo()), again=True)
    return msgspec.structs.replace(decision, uid=attachment.metadata.uid)


def _decide_present(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    if attachment.spec.attacher != view.driver.name:
        return Decision(why.Foreign(attachment.spec.attacher))
    if view.driver.publishes:
        return (_decide_detach if is_deleting(attachment) else _decide_attach)(view, attachment)
    # A driver without ControllerPublishVolume. Differs from external-attacher: a finalizer left from a time when the
    # driver did publish is dropped when the attachment is deleted, and a deleted attachment is not marked any more.
    if is_deleting(attachment):
        if view.holds(attachment):
            return Decision(why.ReleasedWithoutCall(), (RemoveFinalizer(mark=False),))
        return Decision(why.Detached())
    if attachment.status.attached:
        return Decision(why.Attached(attachment.spec.node_name))
    return Decision(why.AttachedWithoutCall(), (MarkAttached(),))


def _decide_attach(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    name, node_name = attachment.metadata.name, attachment.spec.node_name
    drift, status_of = view.memory.drift.get(name), annotation(attachment, STATUS_OF_ANNOTATION)
    again = drift in (Drift.MISSING, Drift.MOVED)
    is_shown = attachment.status.attached and not status_of
    if is_shown and not again:
        # Differs from external-attacher, which leaves an error of a try that raced with the success there for ever.
        left: tuple[Action, ...] = () if attachment.status.attach_error is None else (ClearError(),)
        return Decision(why.Attached(node_name), (*_settle(view, attachment), *left))

    # 1. The volume, and its finalizer.
    pv_name = named_volume(attachment)
    if pv_name:
        pv = view.volume(pv_name)
        if pv is None:
            return _missing(attachment, why.VolumeMissing(pv_name), LookUpVolume(pv_name))
        if is_deleting(pv):
            return _stuck(why.VolumeDeleting(pv_name))
        if not view.holds(pv):
            return Decision(why.Holding(pv_name), (AddVolumeFinalizer(pv_name),), again=True)
    volume = resolve_volume(view, attachment)
    if not isinstance(volume, ResolvedVolume):
        return _stuck(volume)

    # 2. Whatever else the call needs.
    held = _held_elsewhere(view, attachment, volume)
    if held is not None:
        return _stuck(held)
    try:
        order = publish_order(view.driver, volume, view.node_id(node_name), view.default_fs_type)
    except AccessModeError as error:
        return _stuck(why.BadSpec(str(error)))
    if not order.node_id:
        return _missing(attachment, _node_problem(view, node_name), LookUpNode(node_name))
    waiting = _wait_for_call(view, name, order.handle, order.secret)
    if waiting is not None:
        return waiting

    # 3. The former machine first: its id is lost once the annotation names the new one. The table at the top says when.
    claimed = annotation(attachment, NODE_ID_ANNOTATION)
    actions: list[Action] = []
    if view.may_hold(attachment) and (not is_shown or drift is Drift.MOVED):
        for node_id in view.former_ids(attachment):
            # A twin that shows the volume there may have a pod that uses it; one that has MOVED is published anew.
            twins = (one for one in view.twins(attachment, node_id) if one.status.attached)
            if all(view.memory.drift.get(one.metadata.name) is Drift.MOVED for one in twins):
                actions.append(Unpublish(msgspec.structs.replace(order.undone, node_id=node_id)))

    # 4. The finalizer, then the call: from the finalizer on the attachment can't vanish without a detach.
    if not view.holds(attachment) or claimed != order.node_id:
        actions.append(AddFinalizer(order.node_id))
    actions.append(Publish(order))
    if status_of or (attachment.status.attached and claimed not in ("", order.node_id)):
        actions.append(ConfirmStatus())
    done = f"attached to {node_name}{' again, where the backend had lost it,' if again else ''}"
    return Decision(why.Attaching(node_name, order.node_id, again), tuple(actions), done=done)


def _settle(view: View, attachment: VolumeAttachment) -> tuple[Action, ...]:
    """Settle a publish whose status patch had no answer, where the cache shows it. An attachment that names another
    machine does not show it.
    """
    unconfirmed = view.memory.unconfirmed_of(attachment.metadata.name)
    is_shown = unconfirmed is not None and unconfirmed.order.node_id == annotation(attachment, NODE_ID_ANNOTATION)
    return (SettlePublish(),) if is_shown else ()


def publish_order(
    driver: DriverCapabilities, volume: ResolvedVolume, node_id: str, default_fs_type: str
) -> PublishOrder:
    """Compose the publish. Raises AccessModeError."""
    spec, source = volume.spec, volume.source
    fs_type, multi_writer = source.fs_type or default_fs_type, driver.single_node_multi_writer
    return PublishOrder(
        handle=source.volume_handle,
        node_id=node_id,
        capability=volume_capability(spec.access_modes, spec.volume_mode, fs_type, spec.mount_options, multi_writer),
        read_only=source.read_only and driver.publishes_readonly,
        context=source.volume_attributes or {},
        secret=source.controller_publish_secret_ref,
        migrated=volume.migrated,
    )


def _held_elsewhere(view: View, attachment: VolumeAttachment, volume: ResolvedVolume) -> why.HeldElsewhere | None:
    """Return the attachment that may have this single-node volume published on another machine, and goes first.

    Differs from external-attacher, which publishes there as well and leaves the decision to the driver: a finalizer of
    ours means that the volume may be published. Who goes first:

        this one \\ the other       attached, or being deleted       may be published
        attached                    the other; but this one, if      this one
                                    the backend lost the other and
                                    this name is the lesser
        may be published            the other                        the one with an unconfirmed publish, else the
                                                                     lesser name
        surely not published        the other                        the other

    An attached one comes here to be published again. Two that are attached were both restored, or marked by somebody.
    Two of which neither is attached were left so by another attacher, and would wait for each other.
    """
    if not is_single_node(volume.spec.access_modes):
        return None
    memory, name, is_attached = view.memory, attachment.metadata.name, attachment.status.attached
    here = attachment.spec.node_name, view.node_id(attachment.spec.node_name)
    for other in view.of_same_volume(attachment):
        other_name, place = other.metadata.name, (other.spec.node_name, view.claimed_id(other))
        if other_name == name or place == here or not view.may_hold(other):
            continue
        if other.status.attached or is_deleting(other):
            is_first = is_attached and memory.drift.get(other_name) is Drift.MISSING and name < other_name
        elif is_attached or not view.may_hold(attachment):
            is_first = is_attached
        else:
            ours, theirs = (memory.unconfirmed_of(one) is None for one in (name, other_name))
            is_first = (ours, name) < (theirs, other_name)
        if not is_first:
            return why.HeldElsewhere(other.spec.node_name, other_name, is_deleting(other))
    for unconfirmed in () if is_attached else view.unconfirmed_about(volume.source.volume_handle):
        meta, node_name = unconfirmed.attachment.metadata, unconfirmed.attachment.spec.node_name
        if (node_name, unconfirmed.order.node_id) != here and view.attachment(meta.name, meta.uid) is None:
            return why.HeldElsewhere(node_name, meta.name, deleting=True)
    return None


def _decide_detach(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    name, node_name, status = attachment.metadata.name, attachment.spec.node_name, attachment.status
    ours = view.holds(attachment)
    release: tuple[Action, ...] = (RemoveFinalizer(),) if ours else ()
    if not ours and view.memory.drift.get(name) is not Drift.EXTRA:
        # The finalizer may have gone after a detach whose last write failed: the status would be wrong for ever.
        is_wrong = status.attached or status.detach_error is not None
        mark = is_wrong and annotation(attachment, NODE_ID_ANNOTATION)
        return Decision(why.Detached(), (MarkDetached(),) if mark else ())
    node_ids = tuple(filter(None, (*view.former_ids(attachment), view.node_id(node_name))))
    twins = {one: next(view.twins(attachment, one), None) for one in node_ids or ("",)}
    left = [one for one, twin in twins.items() if twin is None]
    if not left:  # Differs from external-attacher, which detaches the volume that the other one uses.
        twin = next(filter(None, twins.values()))
        return Decision(why.HeldByAnother(twin.metadata.name), release)
    pv_name = named_volume(attachment)
    if pv_name and view.volume(pv_name) is None:
        return _missing(attachment, why.VolumeMissing(pv_name), LookUpVolume(pv_name))
    volume = resolve_volume(view, attachment)
    if not isinstance(volume, ResolvedVolume):
        return _stuck(volume)
    if not node_ids:
        return _missing(attachment, _node_problem(view, node_name), LookUpNode(node_name))
    handle, secret = volume.source.volume_handle, volume.source.controller_publish_secret_ref
    waiting = _wait_for_call(view, name, handle, secret)
    if waiting is not None:
        return waiting
    unpublish = (Unpublish(UnpublishOrder(handle, one, secret, volume.migrated)) for one in left)
    because = why.Detaching(node_name, ", ".join(left))
    return Decision(because, (*unpublish, *release), done=f"detached from {node_name}")


def _wait_for_call(
    view: View, name: str, volume_handle: str, secret: SecretReference | None
) -> Decision[Action] | None:
    """Read the Secret, then wait for a call that has to end first. Return None when this call may begin."""
    secrets = view.memory.secrets
    if secret is not None and not secrets.is_at_hand(name, secret):
        if secrets.is_being_read(secret):
            return Decision(why.SharingSecret(secret.namespace, secret.name), (ShareSecret(secret),))
        return Decision(why.ReadingSecret(secret.namespace, secret.name), (LoadSecret(secret),), again=True)
    holder = view.calls.in_flight.get(volume_handle)
    if holder is not None:
        return Decision(why.CallInFlight(volume_handle, holder), (WaitForCall(volume_handle),))
    return Decision(why.NoFreeCall(), (WaitForCall(),)) if view.calls.is_full else None


def _stuck(problem: Problem, actions: tuple[Action, ...] = ()) -> Decision[Action]:
    return Decision(problem, actions, problem)


def _missing(attachment: VolumeAttachment, problem: Problem, look_up: Action) -> Decision[Action]:
    """Look up an object that the cache lacks before the error is shown, but not again while the status shows it."""
    error = attachment.status.detach_error if is_deleting(attachment) else attachment.status.attach_error
    return _stuck(problem, () if error is not None and error.message == problem.error else (look_up,))


def _node_problem(view: View, node_name: str) -> Problem:
    if view.nodes.get(Key("", node_name)) is None:
        return why.NodeNotRegistered(node_name)
    return why.DriverNotOnNode(node_name, view.driver.name)


# -- PersistentVolumes


def decide_volume(view: View, pv_name: str) -> Decision[Action]:
    """Decide the next step for one PersistentVolume: when does the attacher's finalizer leave it?"""
    pv = view.volume(pv_name)
    if pv is None:
        return Decision(why.Gone(pv_name))
    if not view.holds(pv):
        return Decision(why.VolumeNotHeld())
    if not view.releasable(pv):
        return Decision(why.VolumeKept())
    attachments = (one for one in view.attachments.by(BY_VOLUME, pv_name))
    users = [one.metadata.name for one in attachments if one.spec.source.persistent_volume_name == pv_name]
    if users:
        return Decision(why.VolumeInUse(tuple(users[:3])))
    _, handle = driver_and_handle(pv)
    worker = view.caller_for(handle)
    if worker is not None:  # its attachment was removed by force, or made anew, during the call
        return Decision(why.VolumeInUse((worker,)), waits_for=frozenset({call_over(handle)}))
    return Decision(why.VolumeReleased(), (RemoveVolumeFinalizer(pv_name),), done="removed the finalizer")
