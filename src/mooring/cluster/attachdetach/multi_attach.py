"""A pod waits for a volume that another node has: who holds it there, why, and whether that will end. Pure.

The first event has upstream's text to the letter: tools look for it. A wait that lasts is explained in a second one.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from mooring.api.meta import finalizers_of
from mooring.api.names import attacher_finalizer
from mooring.api.nodes import OUT_OF_SERVICE_TAINT
from mooring.api.storage import VolumeAttachment
from mooring.base.clock import Instant
from mooring.base.units import format_duration
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import Action, Note, NoteBlock, Tell, let_go
from mooring.cluster.attachdetach.facts import Place, Volume, Wish
from mooring.cluster.attachdetach.release import Rules, hold_of, may_be_forced
from mooring.control.decision import Decision
from mooring.control.events import REPEAT_S

EXPLAIN_AFTER_S: Final = 10.0
"""A wait that is over sooner is a pod that moves, and needs no explanation."""

APART_S: Final = 120.0
"""The shortest time between two events about one wait, when the holder changes."""

REMIND_S: Final = REPEAT_S
"""Seconds until a waiting pod hears the same again."""

MULTI_ATTACH: Final = "Multi-Attach error for volume"
EXCLUSIVE: Final = "Volume is already exclusively attached to one node and can't be attached to another"


class Holder(msgspec.Struct, frozen=True):
    """kind: for the metric. text: a sentence for people."""

    kind: str
    text: str


def blocked(volume: Volume, holder: Place, rules: Rules, now: Instant) -> Decision[Action]:
    """The decision for a node that has to wait for the holder. What happens there wakes it; the second event comes by
    time.
    """
    place, record = volume.place, volume.place.record
    since = now if record.blocked_since is None else record.blocked_since
    explains = now - since >= EXPLAIN_AFTER_S
    found = holder_of(volume, place.wishes[0], holder, rules)
    subject, mark = (
        ("blocked", f"{holder.node.name} {found.kind}")
        if explains
        else ("multi-attach", used_by(volume, place.wishes[0], holder))
    )
    notes = tuple(
        Note(wish.ref, "Warning", "FailedAttachVolume", _text(volume, wish, holder, rules, explains))
        for wish in place.wishes
    )
    return Decision(
        why.Blocked(place.node.name, found.text),
        (NoteBlock(found.kind), Tell(subject, mark, notes, apart_s=APART_S)),
        waits_for=frozenset({let_go(volume.unique)}),
        after_s=APART_S if explains else since + EXPLAIN_AFTER_S - now,
    )


def _text(volume: Volume, wish: Wish, holder: Place, rules: Rules, explains: bool) -> str:
    text = f'{MULTI_ATTACH} "{wish.pv_name}" {used_by(volume, wish, holder)}'
    return f"{text}: {holder_of(volume, wish, holder, rules).text}" if explains else text


def used_by(volume: Volume, wish: Wish, holder: Place) -> str:
    """Upstream's words about the pods on the nodes that have the volume, or get it now. Names of pods in other
    namespaces are not told.
    """
    others = [
        other
        for place in (volume.place, *volume.rivals)
        if (place.is_held or place is holder) and all(own.ref.uid != wish.ref.uid for own in place.wishes)
        for other in (*(one.ref for one in place.wishes), *place.doubts)
    ]
    near = sorted(other.name for other in others if other.namespace == wish.ref.namespace)
    far = len(others) - len(near)
    if not others:
        return EXCLUSIVE
    if not near:
        return f"Volume is already used by {far} pod(s) in different namespaces"
    text = f"Volume is already used by pod(s) {', '.join(near)}"
    return f"{text} and {far} pod(s) in different namespaces" if far else text


def holder_of(volume: Volume, wish: Wish, holder: Place, rules: Rules) -> Holder:
    """The holder of the volume, as far as the owner of this pod may know."""
    if holder.wishes:
        return _pod(wish, holder)
    if holder.doubts:
        return Holder(
            "pod_unresolved", f"a pod on node {holder.node.name} names its claim; this ends when that pod goes"
        )
    if holder.is_ending:
        return _detaching(holder)
    if holder.foreign and holder.attachment is None:
        text = (
            f"VolumeAttachment {holder.foreign[0]}, which was not made for a pod, attaches it to node "
            f"{holder.node.name}"
        )
        return Holder("foreign", f"{text}; this ends when somebody deletes that")
    if holder.attachment is None and holder.record.creating:
        text = f"a request to attach it to node {holder.node.name} was not answered"
        return Holder("unanswered", f"{text}; this ends once the API server says whether it was carried out")
    may_be_mounted = holder.unsaid_s > 0
    if holder.mounted or (may_be_mounted and not holder.node.is_healthy):
        return _mounted(volume, wish, holder, rules)
    if may_be_mounted:
        text = f"node {holder.node.name} was made anew and may have it mounted; this ends within a minute unless it has"
        return Holder("mounted", text)
    return Holder("detaching", f"node {holder.node.name} is about to let go of it")


def _pod(wish: Wish, holder: Place) -> Holder:
    node = holder.node.name
    near = [other for other in holder.wishes if other.ref.namespace == wish.ref.namespace]
    if not near:
        return Holder("pod", f"a pod of another namespace has it on node {node}; this ends only when that pod goes")
    other = near[0]
    if other.is_deleting:
        return Holder(
            "pod_deleting",
            f"pod {other.ref.name} on node {node} is being deleted; this ends when its containers have ended",
        )
    if other.workload and other.workload == wish.workload and other.workload.startswith("Deployment "):
        text = (
            f"pod {other.ref.name} on node {node} is of the same {wish.workload}, which waits for this pod before "
            "it deletes that one"
        )
        return Holder("rolling_update", f"{text}; this never ends by itself: use the update strategy Recreate")
    if not holder.node.is_healthy:
        text = (
            f"pod {other.ref.name} is on node {node}, which is not ready; this ends only when that pod's object is gone"
        )
        return Holder("pod_on_dead_node", f"{text}: once the node is sure to be down, taint it {OUT_OF_SERVICE_TAINT}")
    return Holder("pod", f"pod {other.ref.name} runs on node {node}; this ends only when that pod goes")


def _detaching(holder: Place) -> Holder:
    assert holder.attachment is not None
    meta, text = holder.attachment.metadata, f"it is being detached from node {holder.node.name}"
    error = holder.attachment.status.detach_error
    if error is None and (left := others_finalizers(holder.attachment)):
        what = (
            f"VolumeAttachment {meta.name}, which its attacher does not hold, is kept by the finalizers "
            f"{', '.join(left)}"
        )
        return Holder("finalizers", f"{text}: {what}; this ends when whoever has set them takes them away")
    if error is None:
        return Holder("detaching", f"{text}; this ends when driver {holder.attachment.spec.attacher} has done so")
    return Holder("detach_failed", f"{text}, and the driver {holder.attachment.spec.attacher} failed: {error.message}")


def others_finalizers(attachment: VolumeAttachment) -> tuple[str, ...]:
    """The finalizers that hold a deleted attachment without its attacher's; () while that is there."""
    held = finalizers_of(attachment)
    return () if attacher_finalizer(attachment.spec.attacher) in held else tuple(sorted(held))


def _mounted(volume: Volume, wish: Wish, holder: Place, rules: Rules) -> Holder:
    node = holder.node.name
    near = [ref for ref in holder.finished if ref.namespace == wish.ref.namespace]
    used = f"pod {near[0].name} on node {node} has finished, and" if near else "no pod uses it any more, and"
    if holder.node.is_out_of_service:
        text = f"{used} node {node}, which may have it mounted, is tainted {OUT_OF_SERVICE_TAINT}"
        return Holder("detaching", f"{text}: it is detached by force now")
    if holder.node.is_healthy:
        kind = "pod_finished" if near else "mounted"
        return Holder(kind, f"{used} node {node} still has it mounted; this ends when its kubelet has unmounted it")
    hold = hold_of(volume, holder, rules)
    gone = "is not ready" if holder.node.is_there else "is deleted"
    known = holder.node.is_there or holder.node_record.last_in_use is not None
    had = "had it mounted when it was last heard of" if known else "may have it mounted"
    text = f"{used} node {node}, which {gone}, {had}"
    if class_name := rules.unread_class(volume):
        text = f"{text}; StorageClass {class_name}, which may say when it is detached by force, can not be read"
        return Holder("dead_node", f"{text}; it is detached at once if the node is tainted {OUT_OF_SERVICE_TAINT}")
    if may_be_forced(hold):
        in_s = format_duration(float(math.ceil(hold.in_s)))
        return Holder(
            "dead_node",
            f"{text}; it is detached by force in {in_s}, at once if the node is tainted {OUT_OF_SERVICE_TAINT}",
        )
    return Holder("dead_node", f"{text}; this ends only when the node returns, or is tainted {OUT_OF_SERVICE_TAINT}")
