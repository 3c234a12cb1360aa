"""The attach/detach controller's decisions: the next step for one volume on one node that wants it, has it, or may have
it. Pure.

    the attachment    a pod wants the volume there                   no pod does
    not there         POST, unless another node has the volume       nothing
    POST unanswered   ask whether it is there                        the same
    about another     an event                                       nothing
    ending            wait, with an event; then POST                 wait for the attacher
    not attached      wait for the attacher, with events             as attached
    attached          report it; if it is not reported and a         off the report; then DELETE, unless it is mounted;
                      DELETE may be under way, fence it first        if it is, and unreported: fence it, too
    DELETE unanswered fence it; report it                            DELETE once more; if it is mounted: fence it

Each step goes as far as can be known now; the change that it causes brings the key again. A single-node volume is
attached to another node only when no attachment of it exists any more, in whatever state. Differs from upstream, where
a failed detach frees the volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from mooring.api.core import ObjectReference
from mooring.api.meta import annotation
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Instant
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import (
    Action,
    CheckNode,
    Create,
    Delete,
    EndWait,
    Fence,
    LookUpAttachment,
    LookUpClass,
    MarkReport,
    MarkWait,
    Note,
    NoteBlock,
    Tell,
    report_written,
)
from mooring.cluster.attachdetach.facts import Volume, Wish
from mooring.cluster.attachdetach.memory import error_mark
from mooring.cluster.attachdetach.multi_attach import REMIND_S, blocked
from mooring.cluster.attachdetach.options import NEVER
from mooring.cluster.attachdetach.release import (
    CLASS_AGAIN_S,
    Hold,
    Rules,
    hold_of,
    is_to_be_reported,
    may_be_forced,
    place_ahead,
)
from mooring.cluster.attachdetach.silence import WAITS_SINCE
from mooring.control.decision import Decision
from mooring.control.events import SLACK_S
from mooring.control.result import Because

FAILED: Final = "FailedAttachVolume"
SUCCEEDED: Final = "SuccessfulAttachVolume"
DELETING: Final = "volume attachment is being deleted"

LEAST_S: Final = 0.001
"""The least time between two looks: a wait that is over but for a rounding error brings no second one at once."""


def decide(volume: Volume, rules: Rules, now: Instant) -> Decision[Action]:
    place = volume.place
    if place.attachment is None and place.record.creating:
        node = place.node.name
        return Decision(why.CreateUnknown(node), (LookUpAttachment(),), again=True)
    if place.is_wanted and (place.is_ending or not place.is_former):
        step = _attach(volume, rules, now)
    else:
        step = _release(volume, rules, now)

    # What comes beside the step, whatever it is.
    beside: tuple[Action, ...] = ()
    if is_to_be_reported(volume, rules) != place.reported:
        beside = (MarkReport(),)
    if place.record.blocked_by and not any(isinstance(action, NoteBlock) for action in step.actions):
        beside = (*beside, NoteBlock(""))
    # A pod that waits for the attach, or for the detach, is reminded of the reason.
    waits = place.record.waiting_since is not None or place.is_ending
    wakes = [wake_s for wake_s in (step.after_s, REMIND_S + SLACK_S if waits else None) if wake_s is not None]
    return msgspec.structs.replace(step, actions=(*beside, *step.actions), after_s=min(wakes, default=None))


# -- wanted


def _attach(volume: Volume, rules: Rules, now: Instant) -> Decision[Action]:
    place = volume.place
    node, attachment = place.node.name, place.attachment
    if attachment is None:
        return _create(volume, rules, now)
    if not place.intact:
        name, spec = attachment.metadata.name, attachment.spec
        about = (
            f"attacher {spec.attacher}, node {spec.node_name} and PersistentVolume "
            f"{spec.source.persistent_volume_name or 'none'}"
        )
        text = f'VolumeAttachment "{name}" is about {about}'
        return _told(why.Mismatch(node, name), volume, "mismatch", attachment.metadata.uid, text)
    if place.is_ending:
        return _told(why.DetachingFirst(node), volume, "deleting", attachment.metadata.uid, DELETING)
    if annotation(attachment, WAITS_SINCE):
        return Decision(why.WaitEnds(node), (MarkWait(attachment, begins=False),), again=True)
    if attachment.status.attached:
        ahead = place_ahead(volume) if place.wishes else None
        if ahead is not None:
            return blocked(volume, ahead, rules, now)
        # Each process takes a volume off the report before its DELETE: a listed volume needs a fence only if this
        # process has sent a DELETE since.
        if place.delete_may_be_under_way and (place.deletion is not None or not place.reported):
            return Decision(why.Fencing(node), (Fence(attachment, place.wishes),), again=True)
        if place.record.waiting_since is None:
            return Decision(why.Attached(node))
        return Decision(why.Attached(node), (EndWait(attached_notes(place.wishes)),))
    error = attachment.status.attach_error
    if error is not None:
        because = why.AttachFailed(node, volume.driver, error.message)
        left_s = place.record.seen_since + REMIND_S - now if error_mark(attachment) == place.record.old_error else 0.0
        if left_s > 0:  # an earlier attempt's; where it lasts, it is this one's, too
            return Decision(because, after_s=left_s)
        return _told(because, volume, "error", error_mark(attachment), error.message)
    return _wait_for_attacher(volume, rules, now)


def _create(volume: Volume, rules: Rules, now: Instant) -> Decision[Action]:
    place = volume.place
    node = place.node.name
    if not place.wishes:
        return Decision(why.MayBeWanted(node))
    holder = next((one for one in volume.rivals if one.is_held), None)
    if holder is not None:
        return blocked(volume, holder, rules, now)
    return Decision(why.Wanted(node), (Create(place.wishes),), done="asked for an attachment")


def _wait_for_attacher(volume: Volume, rules: Rules, now: Instant) -> Decision[Action]:
    """Tell the pods after each timeout in vain; the time for which they waited for another node does not count."""
    place, timeout_s = volume.place, rules.options.attach_timeout_s
    record, because = place.record, why.Attaching(place.node.name, volume.driver)
    since = now if record.waiting_since is None else max(record.waiting_since, record.seen_since)
    periods = int((now - since) // timeout_s)
    next_s = since + (periods + 1) * timeout_s - now
    if not periods:
        return Decision(because, after_s=next_s)
    text = f"timed out waiting for external-attacher of {volume.driver} CSI driver to attach volume {volume.handle}"
    return msgspec.structs.replace(_told(because, volume, "timeout", str(periods), text), after_s=next_s)


def _told(because: Because, volume: Volume, subject: str, mark: str, text: str) -> Decision[Action]:
    return Decision(because, (Tell(subject, mark, failed_notes(volume.place.wishes, text)),))


def attached_notes(wishes: Iterable[Wish]) -> tuple[Note, ...]:
    """The events of an attach, for each pod that waits."""
    return tuple(
        Note(wish.ref, "Normal", SUCCEEDED, f'AttachVolume.Attach succeeded for volume "{wish.pv_name}" ')
        for wish in wishes
    )


def failed_notes(wishes: Iterable[Wish], text: str) -> tuple[Note, ...]:
    """The events of a failed attach, for each pod that waits."""
    return tuple(
        Note(wish.ref, "Warning", FAILED, f'AttachVolume.Attach failed for volume "{wish.pv_name}" : {text}')
        for wish in wishes
    )


# -- not wanted


def _release(volume: Volume, rules: Rules, now: Instant) -> Decision[Action]:
    place = volume.place
    node, attachment = place.node.name, place.attachment
    if attachment is None or not place.intact:
        return Decision(why.Foreign(node) if place.foreign else why.Nothing())
    if place.is_ending:
        return Decision(why.Detaching(node), _detach_failure(volume, attachment))
    hold = hold_of(volume, place, rules)
    if hold.stays:
        return _keep(volume, attachment, hold, rules, now)
    # The kubelet hears first: it mounts nothing that is not reported.
    if place.reported or place.node_record.unsure or place.node_record.writing:
        return Decision(why.Unreporting(node), waits_for=frozenset({report_written(node)}))
    # A kubelet says that it has a volume in use before it looks for it in the report. So one read of the Node is
    # enough, after the write that took the volume off the report.
    if not hold.forced and not place.node_record.is_read:
        return Decision(why.Checking(node), (CheckNode(),), again=True)
    because = why.Forced(node, hold.forced) if hold.forced else why.Released(node)
    return Decision(because, (Delete(attachment, hold.forced),), done="asked for a detach")


def _keep(volume: Volume, attachment: VolumeAttachment, hold: Hold, rules: Rules, now: Instant) -> Decision[Action]:
    """The node has the volume mounted, or may have it."""
    place = volume.place
    node = place.node.name
    if place.node.is_healthy and annotation(attachment, WAITS_SINCE):
        return Decision(why.WaitEnds(node), (MarkWait(attachment, begins=False),), again=True)
    if not place.node.is_healthy and place.waited_s is None and not rules.options.disable_force_detach:
        return Decision(why.WaitBegins(node), (MarkWait(attachment, begins=True),), again=True)
    # Detached by force, and the node is back, or no longer out of service. An earlier process took it off the report
    # first, and a Node that is gone reports nothing: its machine has not come back.
    may_be_late = place.node.is_there and not place.reported and place.delete_may_be_under_way
    if place.deletion is not None or may_be_late:
        return Decision(why.Fencing(node), (Fence(attachment),), again=True)
    if place.node.is_healthy and not place.mounted:
        return Decision(why.Unheard(node), after_s=place.unsaid_s)
    if place.node.is_healthy:
        return Decision(why.Mounted(node))
    if class_name := rules.class_to_read(volume, now):
        return Decision(why.AsksClass(class_name), (LookUpClass(class_name),), again=True)
    again_s = CLASS_AGAIN_S + SLACK_S if rules.needs_class(volume) else NEVER
    if may_be_forced(hold):
        return Decision(why.ForcedLater(node, hold.in_s), after_s=min(again_s, max(LEAST_S, hold.in_s)))
    return Decision(why.NeverForced(node), after_s=again_s if again_s < math.inf else None)


def _detach_failure(volume: Volume, attachment: VolumeAttachment) -> tuple[Action, ...]:
    """The claim hears why it takes so long; the pods elsewhere that wait hear it of their own keys. Upstream tells
    neither.
    """
    error = attachment.status.detach_error
    if error is None:
        return ()
    notes = detach_notes(volume.claims, volume.pv_name, volume.place.node.name, error.message)
    return (Tell("detach", f"{error.time} {error.message}", notes),)


def detach_notes(claims: Iterable[ObjectReference], pv_name: str, node: str, text: str) -> tuple[Note, ...]:
    message = f'DetachVolume.Detach failed for volume "{pv_name}" on node "{node}" : {text}'
    return tuple(Note(claim, "Warning", "FailedDetachVolume", message) for claim in claims)
