"""The controller's memory beside its caches: one record for each volume on each node, and for nodes the writes of their report.

The Events already sent stand here and not in `EventOnce`, which knows one object and its text: each pod that waits for a volume on a node
hears once of the volume's state, and a new state is news for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from mooring.api.core import Node
from mooring.api.storage import VolumeAttachment
from mooring.base.backoff import BackOff
from mooring.base.clock import Instant
from mooring.base.randomness import Random
from mooring.control.events import REPEAT_S
from mooring.kube.errors import LATE_S

REMIND_S: Final = REPEAT_S
"""Seconds until a waiting pod hears the same again."""


def error_mark(attachment: VolumeAttachment) -> str:
    """Tells one failed attach from another; "" for none."""
    error = attachment.status.attach_error
    return "" if error is None else f"{error.time} {error.message}"


class Deletion(msgspec.Struct):
    """A DELETE of one attachment that was sent and not refused. forced: as of `decision.Delete`. on_its_way: it has no answer yet.

    unanswered: the answer to it was lost: until a later one is answered, it may have been carried out, or yet be, until open_until.
    was_reported: the Node has listed the volume as attached since, as only another controller can have said.
    """

    forced: str
    since: Instant
    on_its_way: bool = True
    unanswered: bool = False
    open_until: Instant = -math.inf
    was_reported: bool = False

    def looked_up(self, *, is_ending: bool, asked_at: Instant) -> bool:
        """The API server was asked for the attachment. is_ending: or gone. False where the DELETE was never carried out, nor ever will."""
        if is_ending:
            self.unanswered = False
        return is_ending or asked_at < self.open_until


class Told(msgspec.Struct, frozen=True):
    """What was told last. heard: when, by the uids of the pods; None for everybody then."""

    mark: str
    at: Instant
    heard: Mapping[str, Instant] | None = None

    def heard_at(self, uid: str) -> Instant:
        """uid: "" for anybody."""
        return self.at if not uid or self.heard is None else self.heard.get(uid, -math.inf)


NOTHING_TOLD: Final[Mapping[str, Told]] = MappingProxyType({})
"""Of almost all records: one for all of them."""


class Paced(msgspec.Struct, gc=False):
    """What failed is tried again at `not_before`, whatever wakes its key meanwhile. failures: in a row.

    The kit's back-off is a key's, and a change ends it. But a volume's key stands for all its nodes, each of which fails for itself; and
    whatever happens to a node's volumes must not bring a refused report of it again at once.

    It is in no reference cycle, so the collector leaves it alone: a large cluster has one for each volume.
    """

    failures: int = 0
    not_before: Instant = -math.inf

    def failed(self, backoff: BackOff, now: Instant, randomness: Random) -> float:
        """Gives the seconds until the next try."""
        self.failures += 1
        delay_s = backoff.jittered_s(self.failures, randomness)
        self.not_before = now + delay_s
        return delay_s

    def succeeded(self) -> None:
        self.failures, self.not_before = 0, -math.inf


class Record(Paced):
    """One volume on one node. Times are None while what they count is not so. node: "" for a record that no memory holds.

    unwanted_since: no pod wants it there. unhealthy_since: the node is not ready, in the silence of this mark.
    waiting_since: a pod waits for the attach. blocked_since: a pod waits for another node to let go.
    creating: a POST of its attachment was sent, and the answer is not known.
    open_posts: of how many it is not known whether they were, or will be, carried out; open_until: none of them is after that.
    seen_uid: of the attachment that is there, and seen_since when. made_uid: of the one that this process made. told: by subject, never
    changed in place.
    """

    node: str = ""
    observed: bool = False
    unwanted_since: Instant | None = None
    unhealthy_since: Instant | None = None
    silence: str = ""
    waiting_since: Instant | None = None
    blocked_since: Instant | None = None
    blocked_by: str = ""
    creating: bool = False
    open_posts: int = 0
    open_until: Instant = -math.inf
    seen_uid: str = ""
    seen_since: Instant = -math.inf
    made_uid: str = ""
    told: Mapping[str, Told] = msgspec.field(default_factory=lambda: NOTHING_TOLD)

    def observe(
        self,
        *,
        wanted: bool,
        healthy: bool,
        attachment: VolumeAttachment | None,
        now: Instant,
        silence: str = "",
        waited_before_s: float = 0.0,
    ) -> None:
        """Starts and ends the times by what is seen now. waited_before_s: under an earlier process, which counts at the first look.

        silence: tells one silence of the node from another, between which it was heard though nobody looked. "" where it can't be told.
        """
        if not self.observed and waited_before_s and not wanted and not healthy:
            self.unwanted_since = self.unhealthy_since = now - waited_before_s
        elif silence and silence != self.silence:
            self.unhealthy_since = None
        self.observed, self.silence = True, silence or self.silence
        self.unwanted_since = None if wanted else _began(self.unwanted_since, now)
        self.unhealthy_since = None if healthy else _began(self.unhealthy_since, now)
        if not wanted:
            self.waiting_since = self.blocked_since = None
        elif attachment is None or not attachment.status.attached:
            self.waiting_since = _began(self.waiting_since, now)
        if attachment is not None:
            self.creating = False
            self._meet(attachment, now)

    def _meet(self, attachment: VolumeAttachment, now: Instant) -> None:
        """An error that an earlier attempt left behind is not told as one of this attempt."""
        uid = attachment.metadata.uid
        if uid == self.seen_uid:
            return
        self.seen_uid, self.seen_since = uid, now
        if uid != self.made_uid:
            mark = error_mark(attachment)
            self._note("error", Told(mark, now) if mark else None)
            self._one_was_carried_out()

    def post_lost(self, now: Instant) -> None:
        """A POST was sent, and no answer came."""
        self.creating, self.open_posts, self.open_until = True, self.open_posts + 1, now + LATE_S

    def looked_up(self, uid: str, asked_at: Instant) -> None:
        """The API server was asked for the attachment. uid: "" for none: a POST may still be on its way to it, for a while."""
        self.creating = False
        if not uid:
            self.open_posts = 0 if asked_at >= self.open_until else self.open_posts
        elif uid not in (self.made_uid, self.seen_uid):
            self.made_uid = uid
            self._one_was_carried_out()

    def _one_was_carried_out(self) -> None:
        """What an answered POST has made is not among them."""
        self.open_posts = max(0, self.open_posts - 1)

    def has_told(self, subject: str, mark: str, now: Instant, uid: str = "") -> bool:
        """True when it was told, and not so long ago that nobody can read it. uid: of the pod that is to hear it, "" for anybody."""
        told = self.told.get(subject)
        return told is not None and told.mark == mark and now - told.heard_at(uid) < REMIND_S

    def tells(self, subject: str, mark: str, uids: Iterable[str], now: Instant) -> None:
        """These hear it now, beside those who have heard the same."""
        before = self.told.get(subject)
        heard = before.heard or {} if before is not None and before.mark == mark else {}
        kept = {uid: at for uid, at in heard.items() if now - at < REMIND_S}
        self._note(subject, Told(mark, now, {**kept, **dict.fromkeys(uids, now)}))

    def untold(self, *subjects: str) -> None:
        """Whatever of these was told is told again when it comes up again."""
        for subject in subjects:
            self._note(subject, None)

    def _note(self, subject: str, told: Told | None) -> None:
        if told is not None:
            self.told = {**self.told, subject: told}
        elif subject in self.told:
            self.told = {one: what for one, what in self.told.items() if one != subject} or NOTHING_TOLD


def _began(since: Instant | None, now: Instant) -> Instant:
    return now if since is None else since


UNHEARD_S: Final = 60.0
"""How long a Node that was made anew, and is ready, may list nothing in use though its machine has volumes mounted: a kubelet registers
before it has looked what is mounted, and says so with its first status after that. A kubelet that is silent says nothing."""


class NodeRecord(Paced):
    """What is remembered of a Node.

    gathers_until: what comes before is told in one write. writing: the report is being written. stale: the volumes whose entry in the
    report may be wrong; are_all_stale: or that of any; None before the first look.

    checked_at: when the node was asked for last: what its object shows is at least that new.

    unsure: a write of the report was sent, and the answer is not known. last_in_use: of a Node that was deleted; None where this process
    saw none go; unheard_until: until then a Node that came without a list may have mounted what one before it had, without an end as
    long as it is not ready. silences: how often it was seen ready, which ends one, though no decision may be made before the next one.
    named: what `View` has worked out from this Node, while attachments to it are orphans. managed: its kubelet leaves attaching to
    controllers, or has done so since this process saw it first.
    """

    checked_at: Instant = -math.inf
    gathers_until: Instant = -math.inf
    writing: bool = False
    unsure: bool = False
    last_in_use: frozenset[str] | None = None
    unheard_until: Instant = -math.inf
    silences: int = 0
    managed: bool = False
    stale: set[str] = msgspec.field(default_factory=set)
    are_all_stale: bool | None = None
    named: tuple[Node | None, Mapping[str, str]] | None = None

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
        """Those whose entries are looked at now; None for all."""
        stale, self.stale, were_all_stale, self.are_all_stale = self.stale, set(), self.are_all_stale, False
        return stale if were_all_stale is False else None

    def heard(self, in_use: Collection[str], *, is_new: bool, is_ready: bool, now: Instant) -> bool:
        """What the Node lists in use. is_new: it came just now. True when it is known from now on: one that lists anything has looked.

        One that is found silent soon after its minute may have been silent in it: that it is not ready is seen late.
        """
        was_unheard = now < self.unheard_until + (0.0 if is_ready else UNHEARD_S)
        if in_use:
            self.unheard_until = -math.inf
        elif was_unheard or is_new:
            begins = is_new or math.isinf(self.unheard_until)
            self.unheard_until = math.inf if not is_ready else now + UNHEARD_S if begins else self.unheard_until
        return was_unheard and bool(in_use)

    def gone(self, in_use: Collection[str], now: Instant) -> None:
        """The Node was deleted. in_use: what it listed last. Of one that was never heard of, what the one before it listed counts, too."""
        before = self.last_in_use or () if now < self.unheard_until else ()
        self.last_in_use, self.named = frozenset((*in_use, *before)), None


class Memory:
    """Records by volume and node. class_waits: of StorageClasses, their annotation in seconds (None without), and when it was read.

    deletions: by the uid of the attachment, which may lose its volume meanwhile, or get one, until it is gone.

    began: when this process began to act. An earlier request of another controller may be carried out for LATE_S.
    """

    def __init__(self, began: Instant = -math.inf) -> None:
        self.began = began
        self._records: dict[
            str, dict[str, Record] | Record
        ] = {}  # a volume on one node, as most are, has the bare record
        self._nodes: dict[str, NodeRecord] = {}
        self._last_classes: dict[str, str] = {}  # by volume
        self.deletions: dict[str, Deletion] = {}
        self.class_waits: dict[str, tuple[float | None, Instant]] = {}

    def record(self, unique: str, node: str) -> Record:
        found = self.find(unique, node)
        if found is None:
            found = Record(node=node)
            self._hold(unique, {**self._records_of(unique), node: found})
        return found

    def find(self, unique: str, node: str) -> Record | None:
        found = self._records.get(unique)
        if isinstance(found, Record):
            return found if found.node == node else None
        return None if found is None else found.get(node)

    def nodes_of(self, unique: str) -> tuple[str, ...]:
        return tuple(self._records_of(unique))

    def _records_of(self, unique: str) -> Mapping[str, Record]:
        found = self._records.get(unique, {})
        return {found.node: found} if isinstance(found, Record) else found

    def _hold(self, unique: str, records: dict[str, Record]) -> None:
        if records:
            self._records[unique] = next(iter(records.values())) if len(records) == 1 else records
        else:
            self._records.pop(unique, None)

    def class_of(self, unique: str) -> str:
        """The StorageClass of a volume whose PersistentVolume is gone, of the last one: what it says of forced detaches still counts."""
        return self._last_classes.get(unique, "")

    def lost_volume(self, unique: str, class_name: str) -> None:
        """The volume's last PersistentVolume is gone, which had this class. Heard also before this process acts."""
        self._last_classes[unique] = class_name

    def keep(self, unique: str, nodes: Collection[str]) -> None:
        """Forgets the volume on all nodes but these."""
        if not nodes:
            self._last_classes.pop(unique, None)
        records = self._records_of(unique)
        if any(node not in nodes for node in records):
            self._hold(unique, {node: record for node, record in records.items() if node in nodes})

    def node(self, name: str) -> NodeRecord:
        return self._nodes.setdefault(name, NodeRecord())

    def nodes(self) -> tuple[str, ...]:
        """Those that something is remembered of."""
        return tuple(self._nodes)

    def forget_node(self, name: str) -> None:
        self._nodes.pop(name, None)

    def records(self) -> Iterable[Record]:
        return (record for unique in self._records for record in self._records_of(unique).values())
