"""The attacher's decisions: the next step for one VolumeAttachment, or for one PersistentVolume.

Pure: the view goes in, actions come out, carried out in order by `reconcile.py`; the first failure stops the
rest and the key comes again. Everything that can be checked is checked before the attachment's finalizer is set, because from then on its
deletion needs a detach; only the volume's finalizer comes before the later checks, as in external-attacher.
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
from mooring.csi.volume_capability import AccessModeError
from mooring.sidecars.attacher import reasons as why
from mooring.sidecars.attacher.decision import (
    Action,
    AddFinalizer,
    AddVolumeFinalizer,
    ClearError,
    ConfirmStatus,
    EndUndo,
    LoadSecret,
    LookUpNode,
    LookUpVolume,
    MarkAttached,
    MarkDetached,
    Publish,
    RemoveFinalizer,
    RemoveVolumeFinalizer,
    SettlePublish,
    ShareSecret,
    Unpublish,
    WaitForCall,
)
from mooring.sidecars.attacher.memory import Drift, UnconfirmedPublish
from mooring.sidecars.attacher.requests import PublishOrder, UnpublishOrder, capability, is_single_node
from mooring.sidecars.attacher.view import (
    BY_VOLUME,
    NODE_ID_ANNOTATION,
    STATUS_OF_ANNOTATION,
    ResolvedVolume,
    View,
    named_volume,
    resolve_volume,
)

# -- VolumeAttachments


def decide_attachment(view: View, name: str) -> Decision[Action]:
    """The next step for one VolumeAttachment, or for a publish that an earlier one of its name left behind."""
    orphaned, attachment = view.memory.orphaned(name), view.attachment(name)
    if orphaned is None:
        return Decision(why.Gone(name)) if attachment is None else _decide_present(view, attachment)
    if attachment is not None and _supersedes(view, attachment, orphaned):
        decision = _decide_present(view, attachment)
        if decision.actions:
            return decision
    return _decide_undo(view, orphaned)


def _decide_present(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    if attachment.spec.attacher != view.driver.name:
        return Decision(why.Foreign(attachment.spec.attacher))
    if not view.driver.publishes:
        decision = _decide_trivially(view, attachment)
    else:
        decision = _decide_detach(view, attachment) if is_deleting(attachment) else _decide_attach(view, attachment)
    return msgspec.structs.replace(decision, uid=attachment.metadata.uid)


def _decide_trivially(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    """For drivers without ControllerPublishVolume.

    Differs from external-attacher: a finalizer left from a time when the driver did publish is dropped when the attachment is deleted,
    and a deleted attachment is not marked attached any more.
    """
    if is_deleting(attachment):
        if view.holds(attachment):
            return Decision(why.ReleasedWithoutCall(), (RemoveFinalizer(mark=False),))
        return Decision(why.Detached())
    if attachment.status.attached:
        return Decision(why.Attached(attachment.spec.node_name))
    return Decision(why.AttachedWithoutCall(), (MarkAttached(),))


def _decide_attach(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    name, node_name = attachment.metadata.name, attachment.spec.node_name
    again = view.memory.drift(name) in (Drift.MISSING, Drift.MOVED)
    # Differs from external-attacher: a publish on the node's new machine that its status does not tell of yet is made once more.
    if attachment.status.attached and not again and not annotation(attachment, STATUS_OF_ANNOTATION):
        # Differs from external-attacher, which leaves an error of a try that raced with the success there for ever.
        left: tuple[Action, ...] = (ClearError(),) if attachment.status.attach_error is not None else ()
        return Decision(why.Attached(node_name), (*_settle(view, attachment), *left))

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
    held = _held_elsewhere(view, attachment, volume)
    if held is not None:
        return _stuck(held)
    try:
        order = publish_order(view.driver, volume, view.node_id(node_name), view.default_fs_type)
    except AccessModeError as error:
        return _stuck(why.BadSpec(str(error)))
    if not order.node_id:
        return _missing(attachment, _node_problem(view, node_name), LookUpNode(node_name))

    waiting = _wait_for_call(view, name, volume.handle, volume.secret)
    if waiting is not None:
        return waiting
    has_finalizer = view.holds(attachment) and annotation(attachment, NODE_ID_ANNOTATION) == order.node_id
    finalizer: tuple[Action, ...] = () if has_finalizer else (AddFinalizer(order.node_id),)
    confirm: tuple[Action, ...] = (ConfirmStatus(),) if view.tells_of_another(attachment, order.node_id) else ()
    actions = (*_leave_former(view, attachment, order), *finalizer, Publish(order), *confirm)
    done = f"attached to {node_name}{' again, where the backend had lost it,' if again else ''}"
    return Decision(why.Attaching(node_name, order.node_id, again), actions, done=done)


def _leave_former(view: View, attachment: VolumeAttachment, order: PublishOrder) -> tuple[Unpublish, ...]:
    """Unpublishes on a machine that had the node's name before: its id is lost to everybody once the claim names the new one.

    Differs from external-attacher, which forgets it. While the status tells of it, pods may use it there; unless the backend contradicts.
    """
    is_told = attachment.status.attached and not annotation(attachment, STATUS_OF_ANNOTATION)
    if not view.may_hold(attachment) or (is_told and view.memory.drift(attachment.metadata.name) is not Drift.MOVED):
        return ()
    former = (one for one in view.former_node_ids(attachment, order.node_id) if not view.stays_in_use(attachment, one))
    return tuple(Unpublish(msgspec.structs.replace(order.undone, node_id=one)) for one in former)


def _settle(view: View, attachment: VolumeAttachment) -> tuple[Action, ...]:
    """Where the cache shows a publish whose status patch had no answer. One that was meant for another machine is shown by nothing."""
    unconfirmed = view.memory.unconfirmed_of(attachment.metadata.name)
    is_shown = unconfirmed is not None and unconfirmed.order.node_id == annotation(attachment, NODE_ID_ANNOTATION)
    return (SettlePublish(),) if is_shown else ()


def _wait_for_call(
    view: View, name: str, volume_handle: str, secret: SecretReference | None
) -> Decision[Action] | None:
    """Reads the Secret, then waits for a call that has to end first; None when this one may begin."""
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
    """For an object that the cache lacks: it is looked up before the error is shown, but not again while the status shows it."""
    error = attachment.status.detach_error if is_deleting(attachment) else attachment.status.attach_error
    is_shown = error is not None and error.message == problem.error
    return _stuck(problem, () if is_shown else (look_up,))


def publish_order(
    driver: DriverCapabilities, volume: ResolvedVolume, node_id: str, default_fs_type: str
) -> PublishOrder:
    """Raises AccessModeError."""
    source = volume.spec.csi
    assert source is not None
    return PublishOrder(
        handle=source.volume_handle,
        node_id=node_id,
        capability=capability(volume.spec, driver.single_node_multi_writer, default_fs_type),
        read_only=source.read_only and driver.publishes_readonly,
        context=source.volume_attributes or {},
        secret=volume.secret,
        migrated=volume.migrated,
    )


def _node_problem(view: View, node_name: str) -> Problem:
    if view.nodes.get(Key("", node_name)) is None:
        return why.NodeNotRegistered(node_name)
    return why.DriverNotOnNode(node_name, view.driver.name)


def _held_elsewhere(view: View, attachment: VolumeAttachment, volume: ResolvedVolume) -> why.HeldElsewhere | None:
    """Another attachment that may have this single-node volume published on another node.

    Differs from external-attacher, which publishes there as well and leaves the decision to the driver: a finalizer of ours means that
    the volume may be published, and unknown counts as attached; so does a publish that is to be undone, of an orphaned attachment.
    Two attachments of which neither is attached (left so by another attacher, or restored) would wait for each other: the one that may have
    been published goes first, else the lesser name.
    """
    if not is_single_node(volume.spec.access_modes):
        return None
    name, ours, node_name = attachment.metadata.name, view.may_hold(attachment), attachment.spec.node_name
    here = node_name, view.node_id(node_name)  # another machine may have had the node's name
    for other in view.of_same_volume(attachment):
        if (
            other.metadata.name == name
            or (other.spec.node_name, view.claimed_id(other)) == here
            or not view.may_hold(other)
        ):
            continue
        if _goes_first(view, other, attachment, ours):
            return why.HeldElsewhere(other.spec.node_name, other.metadata.name, is_deleting(other))
    if attachment.status.attached:
        return None
    for unconfirmed in view.unconfirmed_about(volume.handle):
        orphaned = unconfirmed.attachment
        if (orphaned.spec.node_name, unconfirmed.order.node_id) != here and not view.is_there(orphaned):
            return why.HeldElsewhere(orphaned.spec.node_name, orphaned.metadata.name, deleting=True)
    return None


def _goes_first(view: View, other: VolumeAttachment, attachment: VolumeAttachment, ours: bool) -> bool:
    """One that is attached, and not published any more, is published again unless another one, which is attached as well, may have it:
    somebody has restored one of the two.
    """
    name, is_attached = attachment.metadata.name, other.status.attached or is_deleting(other)
    if attachment.status.attached:
        is_missing = view.memory.drift(other.metadata.name) is Drift.MISSING
        return is_attached and (not is_missing or other.metadata.name < name)
    if is_attached or not ours:
        return True
    may_be, other_may_be = (view.memory.unconfirmed_of(one) is not None for one in (name, other.metadata.name))
    return other.metadata.name < name if may_be is other_may_be else other_may_be


def _decide_detach(view: View, attachment: VolumeAttachment) -> Decision[Action]:
    name, node_name = attachment.metadata.name, attachment.spec.node_name
    ours = view.holds(attachment)
    if not ours and view.memory.drift(name) is not Drift.EXTRA:
        return Decision(why.Detached(), (MarkDetached(),) if _is_marked_attached(attachment) else ())
    present = view.node_id(node_name)
    node_ids = tuple(filter(None, (*view.former_node_ids(attachment, present), present)))
    holders = {one: view.other_attachment_on(attachment, one) for one in node_ids or ("",)}
    if all(holders.values()):  # Differs from external-attacher, which detaches the volume that the other one uses.
        return Decision(why.HeldByAnother(next(filter(None, holders.values()))), (RemoveFinalizer(),) if ours else ())
    pv_name = named_volume(attachment)
    if pv_name and view.volume(pv_name) is None:
        return _missing(attachment, why.VolumeMissing(pv_name), LookUpVolume(pv_name))
    volume = resolve_volume(view, attachment)
    if not isinstance(volume, ResolvedVolume):
        return _stuck(volume)
    if not node_ids:
        return _missing(attachment, _node_problem(view, node_name), LookUpNode(node_name))
    waiting = _wait_for_call(view, name, volume.handle, volume.secret)
    if waiting is not None:
        return waiting
    # Differs from external-attacher, which leaves what is published on a machine that had the node's name before.
    left = [one for one in node_ids if holders[one] is None]
    unpublish = (Unpublish(UnpublishOrder(volume.handle, one, volume.secret, volume.migrated)) for one in left)
    release: tuple[Action, ...] = (RemoveFinalizer(),) if ours else ()
    return Decision(
        why.Detaching(node_name, ", ".join(left)), (*unpublish, *release), done=f"detached from {node_name}"
    )


def _is_marked_attached(attachment: VolumeAttachment) -> bool:
    """True when the finalizer went after a detach whose last write failed: the status would tell an untruth for ever."""
    is_shown = attachment.status.attached or attachment.status.detach_error is not None
    return is_shown and bool(annotation(attachment, NODE_ID_ANNOTATION))


def _supersedes(view: View, attachment: VolumeAttachment, orphaned: UnconfirmedPublish) -> bool:
    """True where the attachment that has the name by now is for the same volume on the same machine: its publish is that one."""
    if attachment.spec.attacher != view.driver.name or is_deleting(attachment):
        return False
    volume, order = resolve_volume(view, attachment), orphaned.order
    return isinstance(volume, ResolvedVolume) and (volume.handle, view.node_id(attachment.spec.node_name)) == (
        order.handle,
        order.node_id,
    )


def _decide_undo(view: View, unconfirmed: UnconfirmedPublish) -> Decision[Action]:
    """Undoes a publish whose attachment was removed by force, with its finalizer: nobody else would undo it.

    An attachment that has the name by now comes after that, unless it can be attached at once and needs this very publish. Another
    attachment that holds the volume there by now keeps it.
    """
    handle, attachment = unconfirmed.order.handle, unconfirmed.attachment
    decision = _wait_for_call(view, unconfirmed.name, handle, unconfirmed.order.secret)
    if decision is None:
        other = view.other_attachment_on(attachment, unconfirmed.order.node_id)
        if other is not None:
            decision = Decision(why.HeldByAnother(other), (EndUndo(),), again=True)
        else:
            because = why.TakingBack(attachment.spec.node_name, unconfirmed.order.node_id)
            decision = Decision(because, (Unpublish(unconfirmed.order), EndUndo()), again=True)
    return msgspec.structs.replace(decision, uid=attachment.metadata.uid)


# -- PersistentVolumes


def decide_volume(view: View, pv_name: str) -> Decision[Action]:
    """The next step for one PersistentVolume: when does the attacher's finalizer leave it?"""
    pv = view.volume(pv_name)
    if pv is None:
        return Decision(why.Gone(pv_name))
    if not view.holds(pv):
        return Decision(why.VolumeNotHeld())
    if not view.releasable(pv):
        return Decision(why.VolumeKept())
    users = tuple(
        va.metadata.name
        for va in view.attachments.by(BY_VOLUME, pv_name)
        if va.spec.source.persistent_volume_name == pv_name
    )
    if users:
        return Decision(why.VolumeInUse(users[:3]))
    _, handle = driver_and_handle(pv)
    worker = view.caller_for(handle)
    if worker is not None:  # its attachment was removed by force, or made anew, during the call
        return Decision(why.VolumeInUse((worker,)), waits_for=frozenset({call_over(handle)}))
    return Decision(why.VolumeReleased(), (RemoveVolumeFinalizer(pv_name),), done="removed the finalizer")
