"""The attach/detach controller's decisions: the next step for one volume on each node that wants it, has it, or may have it.

Pure. Each step goes as far as can be known now; the change that it causes brings the volume again. A single-node volume is attached to
another node only when no attachment of it exists any more, in whatever state. Differs from upstream, where a failed detach frees the
volume.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from mooring.base.clock import Instant
from mooring.cluster.attachdetach import reasons as why
from mooring.cluster.attachdetach.decision import (
    CheckNode,
    Create,
    Delete,
    LookUpAttachment,
    LookUpClass,
    MarkReports,
    Note,
    Step,
    TakeSteps,
    Tell,
    VolumeAction,
    report_written,
)
from mooring.cluster.attachdetach.facts import Place, Volume, Wish
from mooring.cluster.attachdetach.memory import error_mark
from mooring.cluster.attachdetach.multi_attach import blocked_step
from mooring.cluster.attachdetach.options import NEVER
from mooring.cluster.attachdetach.release import (
    CLASS_FRESH_S,
    Hold,
    Rules,
    hold_of,
    is_to_be_reported,
    may_be_forced,
    place_ahead,
)
from mooring.cluster.attachdetach.waited import quarters_s
from mooring.control.decision import Decision

FAILED: Final = "FailedAttachVolume"
SUCCEEDED: Final = "SuccessfulAttachVolume"
DELETING: Final = "volume attachment is being deleted"

CHECK_FRESH_S: Final = 1.0
"""How long a node's answer about what it has mounted is taken for true; one answer serves all detaches of that moment."""

STAMP_S: Final = 1.0
"""How long two objects may have the same creation time: the API server writes down whole seconds."""

LOOK_AGAIN_S: Final = CLASS_FRESH_S + 1.0
"""A StorageClass that nobody watches may say something else by then: what said never may say soon."""


def decide_volume(volume: Volume, rules: Rules, now: Instant) -> Decision[VolumeAction]:
    """The next steps for a volume, node by node in the order of their names."""
    places = [volume.places[node] for node in sorted(volume.places)]
    first = _first_to_attach(places)
    steps = tuple(_step(volume, place, first, rules, now) for place in places)
    stale = tuple(place.node.name for place in places if _is_stale(volume, place, rules, now))
    because = (
        why.Nothing()
        if not steps
        else steps[0].because
        if len(steps) == 1
        else why.Steps(tuple(step.because for step in steps))
    )
    marks = (MarkReports(stale),) if stale else ()
    return Decision(because, (*marks, TakeSteps(volume, steps)))


def _is_stale(volume: Volume, place: Place, rules: Rules, now: Instant) -> bool:
    """True when the Node tells something else of the volume than it should."""
    reported, (waited_s, _) = is_to_be_reported(volume, place, rules, now), quarters_s(volume, place, rules, now)
    return (reported, waited_s) != (place.reported, place.waited_before_s)


def _first_to_attach(places: Sequence[Place]) -> str:
    """Picks, among the nodes that want a volume that none has, the one whose pod is the oldest; "" while any has it."""
    if any(place.is_held for place in places):
        return ""
    waiting = [(min(wish.created for wish in place.wishes), place.node.name) for place in places if place.wishes]
    return min(waiting)[1] if waiting else ""


def _step(volume: Volume, place: Place, first: str, rules: Rules, now: Instant) -> Step:
    if place.attachment is None and (place.record.creating or _open_s(place, now) == 0):
        return _look_up(place, now)
    if place.may_be_deleted:
        return _delete_again(volume, place, rules, now)
    if place.is_wanted and (place.is_ending or not place.is_former):
        return _attach(volume, place, first, rules, now)
    return _release(volume, place, rules, now)


def _open_s(place: Place, now: Instant) -> float | None:
    """Seconds until a POST whose answer was lost can be carried out no more; None where there is none."""
    return max(0.0, place.record.open_until - now) if place.record.open_posts else None


def _look_up(place: Place, now: Instant) -> Step:
    node = place.node.name
    if now < place.record.not_before:
        return _backing_off(place, now)
    return Step(node, why.CreateUnknown(node), (LookUpAttachment(node),), again=True)


def _delete_again(volume: Volume, place: Place, rules: Rules, now: Instant) -> Step:
    """A wish for the volume does not change this: a DELETE may be carried out long after its answer was lost. Only another answer tells its
    end.

    One that was forced is sent again only where force is right still: the node may be back, with the volume mounted all the time. Others
    need no look at the node: what is not reported is not mounted. But where it was reported since, by another controller, it may be.

    It goes before the telling: an event that finds no room must not keep it from being sent, nor leave it for one that is on its way.
    """
    assert place.attachment is not None
    assert place.deletion is not None
    node, meta, left_s = place.node.name, place.attachment.metadata, place.record.not_before - now
    actions: tuple[Tell | Delete, ...] = _failure(place, "deleting", meta.uid, DELETING, now) if place.wishes else ()
    hold = hold_of(volume, place, rules, now)
    may_be_mounted = place.deletion.was_reported and (place.reported or hold.mounted)
    if may_be_mounted or (place.deletion.forced and (place.is_wanted or not hold.forced)):
        return _wait_for_delete(place, actions, now)
    if left_s <= 0 and not place.deletion.on_its_way:
        actions = (Delete(node, meta.name, meta.uid, place.deletion.forced), *actions)
    return Step(node, why.DeleteUnknown(node), actions, wake_s=left_s if left_s > 0 else None)


def _wait_for_delete(place: Place, tells: tuple[Tell | Delete, ...], now: Instant) -> Step:
    """Until it can be carried out no more. The API server says then whether it was."""
    assert place.deletion is not None
    node, left_s = place.node.name, max(place.deletion.open_until, place.record.not_before) - now
    if left_s > 0:
        return Step(node, why.DeleteOpen(node), tells, wake_s=left_s)
    return Step(node, why.DeleteOpen(node), (LookUpAttachment(node), *tells), again=True)


# -- wanted


def _attach(volume: Volume, place: Place, first: str, rules: Rules, now: Instant) -> Step:
    node, attachment = place.node.name, place.attachment
    if attachment is None:
        return _create(volume, place, first, rules, now)
    if not place.intact:
        name, spec = attachment.metadata.name, attachment.spec
        about = f"attacher {spec.attacher}, node {spec.node_name} and PersistentVolume {spec.source.persistent_volume_name or 'none'}"
        text = f'VolumeAttachment "{name}" is about {about}'
        return Step(node, why.Mismatch(node, name), _failure(place, "mismatch", attachment.metadata.uid, text, now))
    if place.is_ending:
        return Step(node, why.DetachingFirst(node), _failure(place, "deleting", attachment.metadata.uid, DELETING, now))
    if attachment.status.attached and now < place.inherited_until:
        return Step(node, why.MayBeDeleted(node), wake_s=place.inherited_until - now)
    if attachment.status.attached:
        ahead = place_ahead(volume, place) if place.wishes else None
        return _attached(place) if ahead is None else blocked_step(volume, place, ahead, rules, now)
    error = attachment.status.attach_error
    if error is not None:
        return Step(
            node,
            why.AttachFailed(node, volume.driver, error.message),
            _failure(place, "error", error_mark(attachment), error.message, now),
        )
    return _wait(volume, place, rules, now)


def _create(volume: Volume, place: Place, first: str, rules: Rules, now: Instant) -> Step:
    node = place.node.name
    if not place.wishes:
        return Step(node, why.MayBeWanted(node), wake_s=_open_s(place, now))
    others = [
        other for name, other in sorted(volume.places.items()) if name != node and (other.is_held or name == first)
    ]
    if volume.single_node and others:
        return blocked_step(volume, place, others[0], rules, now)
    if now < place.record.not_before:
        return _backing_off(place, now)
    wish = place.wishes[0]
    return Step(node, why.Wanted(node), (Create(node, wish.pv_name, wish.inline),))


def _attached(place: Place) -> Step:
    node = place.node.name
    if place.record.waiting_since is None:
        return Step(node, why.Attached(node))
    notes = tuple(
        Note(wish.ref, "Normal", SUCCEEDED, f'AttachVolume.Attach succeeded for volume "{wish.pv_name}" ')
        for wish in place.wishes
    )
    return Step(node, why.Attached(node), (Tell(node, "attached", "", notes, ends_wait=True),))


def _wait(volume: Volume, place: Place, rules: Rules, now: Instant) -> Step:
    """For the attacher. A pod is told after each two minutes in vain; what it waited for another node before does not count."""
    node, timeout_s = place.node.name, rules.options.attach_timeout_s
    since = now if place.record.waiting_since is None else max(place.record.waiting_since, place.record.seen_since)
    periods = int((now - since) // timeout_s)
    text = f"timed out waiting for external-attacher of {volume.driver} CSI driver to attach volume {volume.handle}"
    tells = _failure(place, "timeout", str(periods), text, now) if periods else ()
    return Step(node, why.Attaching(node, volume.driver), tells, wake_s=since + (periods + 1) * timeout_s - now)


def _failure(place: Place, subject: str, mark: str, text: str, now: Instant) -> tuple[Tell, ...]:
    """The events of a failed attach: for each mark and pod once, since one may come when others have waited long; again after a while."""
    untold = tuple(wish for wish in place.wishes if not place.record.has_told(subject, mark, now, wish.ref.uid))
    if place.record.has_told(subject, mark, now) and not untold:
        return ()
    return (Tell(place.node.name, subject, mark, failed_notes(untold, text)),)


def failed_notes(wishes: Iterable[Wish], text: str) -> tuple[Note, ...]:
    """For each pod that waits."""

    def note(wish: Wish) -> Note:
        return Note(wish.ref, "Warning", FAILED, f'AttachVolume.Attach failed for volume "{wish.pv_name}" : {text}')

    return tuple(note(wish) for wish in wishes)


def _backing_off(place: Place, now: Instant) -> Step:
    return Step(place.node.name, why.BackingOff(place.node.name), wake_s=place.record.not_before - now)


# -- not wanted


def _release(volume: Volume, place: Place, rules: Rules, now: Instant) -> Step:
    node, attachment = place.node.name, place.attachment
    if attachment is None and place.record.open_posts:
        return Step(node, why.CreateOpen(node), wake_s=_open_s(place, now))
    if attachment is None or not place.intact:
        return Step(node, why.Foreign(node) if place.foreign else why.Nothing())
    if place.is_ending:
        return Step(node, why.Detaching(node), _detach_failure(volume, place, now))
    hold = hold_of(volume, place, rules, now)
    if hold.stays:
        return _kept(volume, place, hold, rules, now)
    if place.reported or place.node_record.unsure or place.node_record.writing:
        return Step(node, why.Unreporting(node), waits_for=frozenset({report_written(node)}))
    new_s = place.record.seen_since + STAMP_S - now
    if (
        new_s > 0
    ):  # a later process could not tell a pod that comes now from one that it was made for (`_may_have_been_unwanted`)
        return Step(node, why.TooNew(node), wake_s=new_s)
    if now < place.record.not_before:
        return _backing_off(place, now)
    if not hold.forced and now - place.node_record.checked_at > CHECK_FRESH_S:
        return Step(node, why.Checking(node), (CheckNode(node),), again=True)
    because = why.Forced(node, hold.forced) if hold.forced else why.Released(node)
    return Step(node, because, (Delete(node, attachment.metadata.name, attachment.metadata.uid, hold.forced),))


def _kept(volume: Volume, place: Place, hold: Hold, rules: Rules, now: Instant) -> Step:
    node = place.node.name
    if place.node.is_healthy and not place.mounted:
        return Step(node, why.Unheard(node), wake_s=place.may_be_mounted_until - now)
    if place.node.is_healthy:
        return Step(node, why.Mounted(node))
    if class_name := rules.class_to_read(volume, now):
        if now < place.record.not_before:
            return _backing_off(place, now)
        return Step(node, why.AsksClass(class_name), (LookUpClass(node, class_name),), again=True)
    again_s = LOOK_AGAIN_S if rules.needs_class(volume) else NEVER
    if may_be_forced(hold):
        _, quarter_s = quarters_s(volume, place, rules, now)
        return Step(
            node, why.ForcedLater(node, hold.in_s), wake_s=min(again_s, hold.in_s if quarter_s is None else quarter_s)
        )
    return Step(node, why.NeverForced(node), wake_s=again_s if again_s < NEVER else None)


def _detach_failure(volume: Volume, place: Place, now: Instant) -> tuple[Tell, ...]:
    """The claim, and the pods elsewhere that wait for this detach, hear why it takes so long. Upstream tells nobody."""
    assert place.attachment is not None
    error = place.attachment.status.detach_error
    if error is None or place.record.has_told("detach", f"{error.time} {error.message}", now):
        return ()
    return (
        Tell(place.node.name, "detach", f"{error.time} {error.message}", detach_notes(volume, place, error.message)),
    )


def detach_notes(volume: Volume, place: Place, text: str) -> tuple[Note, ...]:
    waiting = [
        (wish.ref, wish.pv_name) for other in volume.places.values() if other is not place for wish in other.wishes
    ]
    message = 'DetachVolume.Detach failed for volume "{}" on node "{}" : {}'
    return tuple(
        Note(ref, "Warning", "FailedDetachVolume", message.format(pv_name, place.node.name, text))
        for ref, pv_name in (*((claim, volume.pv_name) for claim in volume.claims), *waiting)
    )
