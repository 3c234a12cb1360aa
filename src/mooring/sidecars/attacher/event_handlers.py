"""The changes that wake attachments and volumes.

Retries wait for the event that could heal them as well as for the clock: the volume, the node's registration, room on a full node, the end
of an attachment that held a single-node volume. Our own writes wake only keys that wait for a deletion. But if the answer to a write shows
a change by others, that wakes keys as its event would, since the event will bring nothing new any more.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from mooring.api.core import PersistentVolume, SecretReference
from mooring.api.meta import is_deleting
from mooring.api.storage import CSINode, VolumeAttachment
from mooring.control.backlog import newest_keys
from mooring.control.controller import Controller
from mooring.control.decision import rests
from mooring.control.slim import changed
from mooring.control.topics import Topic
from mooring.kube.cache.informer import Cause, Change
from mooring.sidecars.attacher.decide import decide_attachment
from mooring.sidecars.attacher.memory import secret_read
from mooring.sidecars.attacher.view import BY_NODE, BY_VOLUME, VOLUME, View, node_mask


def room_on(node_name: str) -> Topic:
    """Told when a volume is attached to this node no more."""
    return f"room/{node_name}"


class EventHandlers:
    """Handlers for the three caches, of one driver's attacher."""

    def __init__(self, view: View, attachments: Controller[str], volumes: Controller[str]) -> None:
        self._view, self._memory = view, view.memory
        self._attachments, self._volumes = attachments, volumes
        self._node = node_mask(view.driver.name)

    def look_at_all(self) -> None:
        """A term begins."""
        view = self._view
        at_rest = rests(functools.partial(decide_attachment, view))
        self._attachments.add_later(
            self._attachments.newest_due(view.attachments, lambda one: one.metadata.name, at_rest)
        )
        self._volumes.add_later(newest_keys(view.volumes, lambda pv: pv.metadata.name if view.releasable(pv) else None))

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        new = change.new
        if new is None:
            assert change.old is not None
            self._attachment_ended(change.old)
            return
        ours = new.spec.attacher == self._view.driver.name
        if ours and is_news(change.old, new, own=change.cause is Cause.OWN_WRITE):
            self._attachments.add(new.metadata.name)
        if change.old is not None and self._view.holds(change.old) and not self._view.holds(new):
            self._place_freed(change.old)

    def _attachment_ended(self, old: VolumeAttachment) -> None:
        """The name may come again, as another attachment without failures: names are made of volume and node."""
        name = old.metadata.name
        self._attachments.forget(name)
        if self._memory.ended(name):
            self._attachments.add(name)
        if old.spec.source.persistent_volume_name:
            self._volumes.add(old.spec.source.persistent_volume_name)
        self._place_freed(old)

    def _place_freed(self, old: VolumeAttachment) -> None:
        """The volume is no longer attached there: one for a single node may move, and the node has room."""
        self.retry_now(one for one in self._view.of_same_volume(old) if one.metadata.name != old.metadata.name)
        self._attachments.tell(room_on(old.spec.node_name))

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        pv = change.new
        if pv is None:
            self._volumes.forget(change.key.name)
            self._memory.volume_sure(change.key.name)
            return
        if self._view.releasable(pv):
            self._volumes.add(pv.metadata.name)
        looked_up = change.old is None  # by one attachment, as an own write is told; the others wait for it, too
        if (looked_up or change.cause is not Cause.OWN_WRITE) and changed(change.old, pv, VOLUME):
            self._retry(BY_VOLUME, pv.metadata.name)

    def publish_undone(self, attachment: VolumeAttachment) -> None:
        """The publish that the vanished attachment may have left behind is undone: another node may have waited for that."""
        self.retry_now(self._view.of_same_volume(attachment))

    def secret_read(self, ref: SecretReference) -> None:
        """Its reading has ended: others share what came of it."""
        self._attachments.tell(secret_read(ref))

    def node_changed(self, change: Change[CSINode]) -> None:
        if change.new is not None and changed(change.old, change.new, self._node):
            self._retry(BY_NODE, change.key.name)

    def _retry(self, index: str, value: str) -> None:
        self.retry_now(self._view.attachments.by(index, value))

    def retry_now(self, attachments: Iterable[VolumeAttachment]) -> None:
        """Ends the back-off of those among them that have failed, or are failing at this moment for a reason that has changed."""
        self._attachments.retry_now(attachment.metadata.name for attachment in attachments)


def is_news(old: VolumeAttachment | None, new: VolumeAttachment, *, own: bool = False) -> bool:
    """True for a change that wakes the attachment. own: it is the answer to one of our writes.

    Success beside an error is two events if our answers to both were lost.
    """
    if own:
        return _shows_more_than_our_write(old, new)
    return worth_a_look(old, new) or (_has_both(new) and not (old is not None and _has_both(old)))


def worth_a_look(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """False for an update of errors or of field managers alone, so that error reports don't defeat the back-off.

    As external-attacher 4.12, which ignores such updates; managedFields are not decoded at all.
    """
    if old is None or old.metadata.resource_version == new.metadata.resource_version:
        return True
    has_errors = any((va.status.attach_error, va.status.detach_error) != (None, None) for va in (old, new))
    return not has_errors or _without_errors(old) != _without_errors(new)


def _without_errors(attachment: VolumeAttachment) -> VolumeAttachment:
    status = msgspec.structs.replace(attachment.status, attach_error=None, detach_error=None)
    meta = msgspec.structs.replace(
        attachment.metadata,
        resource_version="",
        finalizers=attachment.metadata.finalizers or None,
        labels=attachment.metadata.labels or None,
        annotations=attachment.metadata.annotations or None,
    )
    return msgspec.structs.replace(attachment, metadata=meta, status=status)


def _shows_more_than_our_write(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """True for another object, a deletion, or success beside an error: of one of the two, the answer was lost."""
    if old is None or is_deleting(new) != is_deleting(old):
        return True
    return (
        _has_both(new) and not old.status.attached
    )  # else it is the error of attaching it again, which has its back-off


def _has_both(attachment: VolumeAttachment) -> bool:
    """Attached, and yet with an attachError."""
    return attachment.status.attached and attachment.status.attach_error is not None
