"""The controller's memory beside its caches: one record for each volume on each node, and for nodes the writes of their
report. It dies with the process; this is what that costs:

    what is lost                            what follows
    fenced_uid, deletions, unsure,          requests of the former process may be under way: a write fences an
    creating                                attachment before it is reported, or where it is mounted unreported; a
                                            POST of it that is carried out late makes an attachment nobody wants
    is_read                                 a GET of the Node before the first DELETE
    last_in_use, last_silence of a Node     each volume attached to it counts as mounted, and any mark of a wait holds
    that was deleted
    has_said, was_ready, unchanged_since    read from the Node's own times: a Node made anew that listed something and
                                            lists nothing now is waited for up to a minute again
    managed                                 a Node that has lost the annotation is managed no more: no attach there
    left, listing, unwanted                 of iSCSI and Fibre Channel: what a deleted Node had in use is free for
                                            other nodes, and the time for force begins anew, as upstream
    _last_classes                           of a volume without a PersistentVolume the class forbids nothing any more
    class_waits                             a GET of each class before anything is forced
    wait_mark, wait_began                   the wall clock is read once more
    old_error, seen_since, waiting_since,   events alone: a pod hears of something once more, or later
    blocked_since, blocked_by
    failures, not_before, gathers_until,    the first look writes at once, and looks at whole reports
    stale, are_all_stale
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import msgspec

from mooring.api.core import Node
from mooring.api.nodes import is_ready
from mooring.api.storage import VolumeAttachment
from mooring.base.backoff import BackOff
from mooring.base.clock import Instant
from mooring.base.randomness import Random


def error_mark(attachment: VolumeAttachment) -> str:
    """Tells one failed attach from another; "" for none."""
    error = attachment.status.attach_error
    return "" if error is None else f"{error.time} {error.message}"


class Deletion(msgspec.Struct):
    """A DELETE of one attachment that this process has sent, and that was not refused."""

    #: When it was sent first.
    since: Instant
    #: The API server has carried it out, though the cache may not show that yet. Until then it may have been carried
    #: out, or be carried out later: a fence ends that doubt.
    answered: bool = False


class Record(msgspec.Struct):
    """One volume on one node, beside what the objects say of it."""

    #: "" for a record that is not kept in a memory.
    node: str = ""
    #: A pod waits for the attach; None while none does.
    waiting_since: Instant | None = None
    #: A pod waits for another node to let the volume go; None while none does.
    blocked_since: Instant | None = None
    #: The kind of holder that it waits for.
    blocked_by: str = ""
    #: A POST of the attachment was sent, and its answer is not known yet.
    creating: bool = False
    #: The attachment that is there, and when this process saw it first.
    seen_uid: str = ""
    seen_since: Instant = -math.inf
    #: The error that an earlier attempt has left on it: not one of this attempt.
    old_error: str = ""
    #: The attachment of which no DELETE can be under way: this process made it, or has fenced it since. So one that
    #: is there under another uid was made by others, or before.
    fenced_uid: str = ""
    #: The mark of the wait for a forced detach, and when that wait began: worked out when this process saw it first.
    wait_mark: str = ""
    wait_began: Instant = -math.inf

    def observe(self, *, wanted: bool, attachment: VolumeAttachment | None, now: Instant) -> None:
        """Start and end the times by what is seen now."""
        if not wanted:
            self.waiting_since = None
        elif self.waiting_since is None and (attachment is None or not attachment.status.attached):
            self.waiting_since = now
        if attachment is None:
            return
        self.creating = False
        uid = attachment.metadata.uid
        if uid != self.seen_uid:
            self.seen_uid, self.seen_since = uid, now
            self.old_error = "" if uid == self.fenced_uid else error_mark(attachment)


class NodeRecord(msgspec.Struct):
    """A Node, beside what its object says."""

    #: Failed writes of the report in a row, and when the next one may be: whatever happens to the node's volumes
    #: meanwhile must not bring it at once.
    failures: int = 0
    not_before: Instant = -math.inf
    #: Until then changes are gathered for one write.
    gathers_until: Instant = -math.inf
    #: A write of the report is under way.
    writing: bool = False
    #: A write of the report was sent, and its answer was lost.
    unsure: bool = False
    #: Since the Node is there, this process has read it from the API server, after whatever an earlier one took off its
    #: report: the kubelet says by then what it has mounted.
    is_read: bool = False
    #: It was ready when this process saw it last, and since when it is, or is not, without a break: by its own times
    #: where this process did not see the change. None before the first look.
    was_ready: bool = False
    unchanged_since: Instant | None = None
    #: It has listed a volume in use, so its kubelet has looked what is mounted.
    has_said: bool = False
    #: What it listed in use when it was deleted; None where this process saw no deletion.
    last_in_use: frozenset[str] | None = None
    #: Since when it was not ready when it was deleted; "" for one that was ready, None where this process saw no
    #: deletion.
    last_silence: str | None = None
    #: The node-attached volumes that it lists and has in use though no pod wants them, and since when this process sees
    #: that: no object says when the last pod went.
    unwanted: dict[str, Instant] = msgspec.field(default_factory=dict)
    #: Its kubelet leaves attaching to controllers, or has done so since this process saw it first.
    managed: bool = False
    #: The volumes whose entry in the report may be wrong; are_all_stale: that of any may be; None before the first
    #: look.
    stale: set[str] = msgspec.field(default_factory=set)
    are_all_stale: bool | None = None
    #: What `View` has worked out from this Node, while attachments to it are orphans.
    named: tuple[Node | None, Mapping[str, str]] | None = None

    def failed(self, backoff: BackOff, now: Instant, randomness: Random) -> float:
        """Give the seconds until the next write."""
        self.failures += 1
        delay_s = backoff.jittered_s(self.failures, randomness)
        self.not_before = now + delay_s
        return delay_s

    def succeeded(self) -> None:
        self.failures, self.not_before = 0, -math.inf

    def mark(self, uniques: Iterable[str]) -> None:
        """These volumes' entries have to be looked at."""
        self.stale.update(uniques)

    def mark_all(self) -> None:
        self.are_all_stale = True

    def is_right(self) -> None:
        """The first look: no entries are stale but those that are marked."""
        if self.are_all_stale is None:
            self.are_all_stale = False

    def take_stale(self) -> Collection[str] | None:
        """Take the volumes whose entries are looked at now; None for all."""
        stale, self.stale, were_all_stale, self.are_all_stale = self.stale, set(), self.are_all_stale, False
        return stale if were_all_stale is False else None

    def see(self, node: Node, since: Instant, *, is_new: bool) -> None:
        """is_new: this process has not seen this very Node before. since: when it became ready, or not ready, where it
        was otherwise when it was seen last.
        """
        if is_new:
            self.is_read, self.has_said, self.unchanged_since = False, False, None
        self.has_said = self.has_said or bool(node.status.volumes_in_use)
        if self.unchanged_since is None or self.was_ready != is_ready(node):
            self.was_ready, self.unchanged_since = is_ready(node), since

    def gone(self, in_use: Collection[str], silence: str, now: Instant, *, was_heard: bool) -> None:
        """The Node was deleted. in_use: what it listed last. was_heard: its kubelet had said what is mounted; else what
        the Node before it listed counts, too.
        """
        before = () if was_heard else self.last_in_use or ()
        self.last_silence = silence
        if self.was_ready:
            self.was_ready, self.unchanged_since = False, now
        self.last_in_use, self.named, self.is_read = frozenset((*in_use, *before)), None, False


def take_off(holders: dict[str, set[str]], node: str, *, but: Collection[str] = ()) -> bool:
    """Take the node from the holders of all volumes but these. Return whether it was one."""
    names = [name for name, nodes in holders.items() if node in nodes and name not in but]
    for name in names:
        holders[name].discard(node)
        if not holders[name]:
            del holders[name]
    return bool(names)


class Memory:
    """Records by volume and node. class_waits: of StorageClasses, their annotation in seconds (None without), and when
    it was read.

    deletions: DELETEs by the uid of the attachment, which may lose its volume meanwhile, or get one, until it is gone.
    """

    def __init__(self) -> None:
        # A volume on one node, as most are, has the bare record.
        self._records: dict[str, dict[str, Record] | Record] = {}
        self._nodes: dict[str, NodeRecord] = {}
        self._last_classes: dict[str, str] = {}  # by volume
        self.deletions: dict[str, Deletion] = {}
        self.class_waits: dict[str, tuple[float | None, Instant]] = {}
        #: The nodes whose report gets a node-attached volume with a write that has no answer yet, by the volume's name.
        self.listing: dict[str, set[str]] = {}
        #: The nodes that were deleted while they listed such a volume and had it in use, by its name: their machines
        #: may run on.
        self.left: dict[str, set[str]] = {}

    def keep(self, unique: str, record: Record) -> None:
        found = self._records.get(unique)
        if found is None or found is record:
            self._records[unique] = record
        elif isinstance(found, dict):
            found[record.node] = record
        else:
            self._records[unique] = {found.node: found, record.node: record}

    def find(self, unique: str, node: str) -> Record | None:
        found = self._records.get(unique)
        if isinstance(found, Record):
            return found if found.node == node else None
        return None if found is None else found.get(node)

    def nodes_of(self, unique: str) -> tuple[str, ...]:
        return tuple(self._records_of(unique))

    def creating(self, unique: str) -> list[str]:
        """The nodes for which a POST of the volume's attachment has no answer yet."""
        return [node for node, record in self._records_of(unique).items() if record.creating]

    def _records_of(self, unique: str) -> Mapping[str, Record]:
        found = self._records.get(unique, {})
        return {found.node: found} if isinstance(found, Record) else found

    def class_of(self, unique: str) -> str:
        """The StorageClass of the last PersistentVolume of a volume that has none any more: what it says of forced
        detaches still counts.
        """
        return self._last_classes.get(unique, "")

    def lost_volume(self, unique: str, class_name: str) -> None:
        """The volume's last PersistentVolume is gone, which had this class. Heard also before this process acts."""
        self._last_classes[unique] = class_name

    def forget(self, unique: str, node: str) -> None:
        """The node has nothing to do with the volume any more."""
        found = self._records.get(unique)
        if isinstance(found, dict):
            found.pop(node, None)
            if len(found) == 1:
                (self._records[unique],) = found.values()
        elif found is not None and found.node == node:
            del self._records[unique]
        if unique not in self._records:
            self._last_classes.pop(unique, None)

    def node(self, name: str) -> NodeRecord:
        """The node's record, to be read; where there is none an empty one, which is not kept."""
        return self._nodes.get(name) or NodeRecord()

    def keep_node(self, name: str) -> NodeRecord:
        """The node's record, to be changed. It is kept while the Node exists, or an attachment to it."""
        return self._nodes.setdefault(name, NodeRecord())

    def forget_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def records(self) -> Iterable[Record]:
        return (record for unique in self._records for record in self._records_of(unique).values())
