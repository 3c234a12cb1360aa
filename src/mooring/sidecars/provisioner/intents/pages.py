"""The entries of a journal of intents, spread over its pages."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from msgspec import structs

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.kube.errors import Conflict, TooLarge
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.lease_codec import ENTRY_BYTES_MAX, PAGE_BYTES_MAX, PAGES_MANY, PAGES_MAX, UnreadablePage
from mooring.sidecars.provisioner.model.intent import Intent

log = logger(__name__)

UNATTENDED_S: Final = 600.0
"""After that time the history of a volume is unknown: another program may have made it, and its user kept it."""

LATER: Final = "the volume's creation was begun by a later version of this provisioner and is written down in its form: start that one"

UNKNOWN: Final = b""
"""Stored in place of an entry whose write was not answered."""


@dataclasses.dataclass(slots=True, eq=False)
class JournalLease:
    """lease: as last read or written, None before its creation. counts: page 0 was written after its creation, and says so.

    entries: to be stored. stored: the entries that are, or may be; `UNKNOWN` where an answer was lost. packed: bytes of each entry.
    size: of them all.
    stale: not written since it last changed. ours: written since we hold the journal. written_at: on the clock.
    unreadable: its entries are left alone.
    """

    number: int
    lease: dict[str, Any] | None = None
    counts: bool = False
    entries: dict[str, bytes] = dataclasses.field(default_factory=dict)
    stored: dict[str, bytes] = dataclasses.field(default_factory=dict)
    packed: dict[str, int] = dataclasses.field(default_factory=dict)
    size: int = 0
    stale: bool = False
    ours: bool = False
    written_at: Instant = 0.0
    unreadable: bool = False

    def put(self, uid: str, text: bytes) -> None:
        self.drop(uid)
        self.entries[uid], self.packed[uid] = text, lease_codec.packed_bytes(text)
        self.size += self.packed[uid]
        self.stale = True

    def drop(self, uid: str) -> None:
        if self.entries.pop(uid, None) is not None:
            self.size -= self.packed.pop(uid)
            self.stale = True

    def has_space(self, uid: str, packed_bytes: int) -> bool:
        """True for an entry of this size in place of that of the uid."""
        others = self.size - self.packed.get(uid, 0)
        return not self.unreadable and (others == 0 or others + packed_bytes <= PAGE_BYTES_MAX)


class JournalEntries:
    """found: entries that others left, until the journal takes them from here. later: uids of those that a later version wrote.

    Those are kept as they are: that version may come back, and knows what they mean.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[int, JournalLease] = {}
        self._lease_of: dict[str, JournalLease] = {}
        self.found: dict[str, Intent] = {}
        self.later: set[str] = set()

    @property
    def pages(self) -> list[JournalLease]:
        """All, by number."""
        return [self._leases[number] for number in sorted(self._leases)]

    def is_stored(self, uid: str, text: bytes) -> bool:
        """True when exactly this is stored for certain under the uid."""
        found = self.saying(uid)
        return len(found) == 1 and found[0].counts and found[0].stored[uid] == text

    def saying(self, uid: str) -> list[JournalLease]:
        """The pages that may have an entry of it."""
        return [page for page in self.pages if uid in page.stored]

    def put(self, uid: str, text: bytes) -> JournalLease:
        """Writes the entry to the page that already holds it, else to the first page with space. Copies elsewhere remain until `moved()`.

        Raises TooLarge, Conflict.
        """
        if uid in self.later:
            raise Conflict(LATER)
        former = self._lease_of.get(uid)
        before = self.saying(uid)
        page = self._lease_of[uid] = self._page_for(uid, before if former is None else [former, *before], lease_codec.packed_bytes(text))
        page.put(uid, text)
        return page

    def put_back(self, uid: str, text: bytes) -> None:
        """Restores the entry from before the last `put`, on its page: it must not be missing there while another page is written."""
        there = [page for page in self.pages if page.entries.get(uid) == text] or [self._lease_of[uid]]
        page = self._lease_of[uid] = next((page for page in there if page.stored.get(uid) == text), there[0])
        page.put(uid, text)
        self.moved(uid)

    def moved(self, uid: str) -> list[JournalLease]:
        """Drops the copies on other pages; gives the pages that have to be written for that."""
        others = [page for page in self.pages if page is not self._lease_of.get(uid)]
        for page in others:
            page.drop(uid)
        return [page for page in others if uid in page.stored]

    def drop(self, uid: str) -> None:
        if self._lease_of.pop(uid, None) is not None:
            for page in self._leases.values():
                page.drop(uid)

    def _page_for(self, uid: str, first: list[JournalLease], packed_bytes: int) -> JournalLease:
        if packed_bytes > ENTRY_BYTES_MAX:
            raise TooLarge(f"the request is too large to be written down: {packed_bytes} bytes when packed, at most {ENTRY_BYTES_MAX}")
        ordered = self.pages
        for page in [*first, *ordered]:
            if page.has_space(uid, packed_bytes):
                return page
        if len(ordered) >= PAGES_MAX:
            raise TooLarge(f"the journal of intents is full: it has {len(ordered)} pages")
        if len(ordered) >= PAGES_MANY:
            log.error(
                "the journal of intents fills up: so many volumes are being made, or may have been; a full one takes no new claims. "
                "See which calls the driver does not answer",
                pages=len(ordered) + 1,
                pages_max=PAGES_MAX,
                intents=len(self._lease_of),
            )
        self._leases[len(ordered)] = JournalLease(len(ordered))
        return self._leases[len(ordered)]

    def _read(self, page: JournalLease, lease: dict[str, Any] | None) -> None:
        """Takes in the entries of a page. Intents that we have ended are not open again."""
        page.lease, page.stale, page.unreadable = lease, True, False
        if not page.counts:
            return
        try:
            texts = {} if lease is None else lease_codec.texts_of(lease)
        except UnreadablePage as error:
            page.unreadable = True
            log.error("a page of the journal of intents can't be read", page=page.number, why=str(error))
            return
        for uid, text in texts.items():
            if uid not in self._lease_of and not self.saying(uid):
                assert lease is not None, "it has intents"
                is_unattended = self._clock.wall_s() - lease_codec.written_wall_s(lease) > UNATTENDED_S
                self._take_in(page, uid, text, is_unattended=is_unattended)
        page.stored = texts

    def _take_in(self, page: JournalLease, uid: str, text: bytes, *, is_unattended: bool) -> None:
        """One entry that another process left."""
        self._lease_of[uid] = page
        try:
            intent = lease_codec.decoded(text)
        except UnreadablePage as error:
            self.later.add(uid)
            log.error("an intent can't be read: it is kept, and its claim waits for the version that wrote it", uid=uid, why=str(error))
        else:
            self.later.discard(uid)
            self.found[uid] = structs.replace(intent, unattended=intent.unattended or is_unattended)
            text = text if self.found[uid] == intent else lease_codec.encoded(self.found[uid])
        page.put(uid, text)
