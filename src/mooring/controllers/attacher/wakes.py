"""What wakes a key: which change of which object makes the attacher look again.

Retries wait for the event that could heal them as well as for the clock: the volume, the node's registration, room on a full node, the
end of an attachment that held a single-node volume. Our own writes wake nobody but those who waited for a deletion; but what the answer
to a write shows of others' doing wakes as an event does, since the event will bring nothing new any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.api.core import PersistentVolume
from mooring.api.meta import is_deleting
from mooring.api.storage import CSINode, VolumeAttachment
from mooring.control.queue import WorkQueue
from mooring.controllers.attacher.view import BY_NODE, BY_VOLUME, View, same_but_for_version, volume_of, worth_a_look
from mooring.kube.cache.informer import Cause, Change


class Wakes:
    """Handlers for the three caches. ended: called with the name of an attachment that is no more."""

    def __init__(self, view: View, attachments: WorkQueue[str], volumes: WorkQueue[str], ended: Callable[[str], None]) -> None:
        self._view = view
        self._attachments = attachments
        self._volumes = volumes
        self._ended = ended
        self._full_nodes: set[str] = set()

    def node_is_full(self, node_name: str) -> None:
        """The driver said so: the next detach from this node is worth a try for who failed there."""
        self._full_nodes.add(node_name)

    def attachment_changed(self, change: Change[VolumeAttachment]) -> None:
        new = change.new
        if new is None:
            assert change.old is not None
            self._attachment_ended(change.old)
            return
        ours = new.spec.attacher == self._view.driver.name
        own = change.cause is Cause.OWN_WRITE
        news = _shows_more_than_our_write(change.old, new) if own else _is_news(change.old, new)
        if ours and news:
            self._attachments.add(new.metadata.name)
        if change.old is not None and self._view.holds(change.old) and not self._view.holds(new):
            self._place_freed(change.old)

    def _attachment_ended(self, old: VolumeAttachment) -> None:
        """The name may come again, as another attachment with no past: names are made of volume and node."""
        self._attachments.forget(old.metadata.name)
        self._ended(old.metadata.name)
        if old.spec.source.persistent_volume_name:
            self._volumes.add(old.spec.source.persistent_volume_name)
        self._place_freed(old)

    def _place_freed(self, old: VolumeAttachment) -> None:
        """The volume is attached there no more: one for a single node may move, and the node has room."""
        name, node_name = old.metadata.name, old.spec.node_name
        self._end_back_off(BY_VOLUME, volume_of(old), but=name)
        if node_name in self._full_nodes:
            self._full_nodes.discard(node_name)
            self._end_back_off(BY_NODE, node_name, but=name)
        else:  # who is being told just now that the node is full
            for attachment in self._view.attachments.by(BY_NODE, node_name):
                if attachment.metadata.name != name and self._attachments.in_hand(attachment.metadata.name):
                    self._attachments.add(attachment.metadata.name)

    def volume_changed(self, change: Change[PersistentVolume]) -> None:
        pv = change.new
        if pv is None:
            return
        if self._view.releasable(pv):
            self._volumes.add(pv.metadata.name)
        if change.cause is not Cause.OWN_WRITE and (change.old is None or not same_but_for_version(change.old, pv)):
            self._end_back_off(BY_VOLUME, pv.metadata.name)

    def call_ended(self, attachment: VolumeAttachment) -> None:
        """The volume, deleted meanwhile, may have waited for that."""
        pv = self._view.volume(attachment.spec.source.persistent_volume_name or "")
        if pv is not None and self._view.releasable(pv):
            self._volumes.add(pv.metadata.name)

    def taken_back(self, attachment: VolumeAttachment) -> None:
        """What the attachment, which is no more, may have left published is so no more: another node may have waited for that."""
        self._end_back_off(BY_VOLUME, volume_of(attachment))

    def node_changed(self, change: Change[CSINode]) -> None:
        node = change.new
        if node is None and change.old is not None:
            self._full_nodes.discard(change.old.metadata.name)
        if node is not None and (change.old is None or not same_but_for_version(change.old, node)):
            self._end_back_off(BY_NODE, node.metadata.name)

    def _end_back_off(self, index: str, value: str, *, but: str = "") -> None:
        self.retry_now(a for a in self._view.attachments.by(index, value) if a.metadata.name != but)

    def retry_now(self, attachments: Iterable[VolumeAttachment]) -> None:
        """Ends the back-off of those among them that have failed, or that are failing just now for what has changed since."""
        for attachment in attachments:
            name = attachment.metadata.name
            if self._attachments.failures(name) or self._attachments.in_hand(name):
                self._attachments.forget(name)  # what failed before was another situation
                self._attachments.add(name)


def _is_news(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """Whatever is worth a look; and success beside an error, which are two events if our answers to both were lost."""
    return worth_a_look(old, new) or (_has_both(new) and not (old is not None and _has_both(old)))


def _shows_more_than_our_write(old: VolumeAttachment | None, new: VolumeAttachment) -> bool:
    """True for another object, a deletion, or success beside an error: of one of the two, the answer was lost."""
    if old is None or is_deleting(new) != is_deleting(old):
        return True
    return _has_both(new) and not old.status.attached  # else it is the error of attaching it again, which has its back-off


def _has_both(attachment: VolumeAttachment) -> bool:
    """Attached, and yet with an attachError."""
    return attachment.status.attached and attachment.status.attach_error is not None
