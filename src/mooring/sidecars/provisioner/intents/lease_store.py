r"""The pages of a journal as one holder keeps them: taking them over, and writing them so that no former holder can
write there any more.

A new holder reads all pages, by their names, and writes its own name on each, over the version that it has read; a
conflict on the way means that another process still writes there, and it begins again. So a former holder that still
lives finds its next write refused, for the version has changed. Page 0 is always there and is taken first. It says how
many pages count: a new page counts once page 0 has been written after it, which shows that we still hold the journal. A
holder that took over meanwhile has not read the new page, and the intents on it were never begun. The pages stand in no
cache, and a conflict asks who holds the journal: so they have no `ObjectWriter`.

A page (`JournalLease`), and what each event does to it:

    put, drop            `entries` changed, `stale`                   written with the next write
    written              `stored` = what was sent, not stale, `ours`  a new page: page 0 next, then it `counts`
    not answered         `stored` has UNKNOWN where texts differ      written again before anybody relies on an entry
    conflict             read anew: still ours?                       yes: sent again; no: not held any more
    taken over           others' entries are `found`, or `later`      ours are put in again; those that we ended are not
    can't be read        `unreadable`: left as it is                  its entries that are known here go to other pages

An entry is on one page. One that outgrows it, or whose page can't be read, moves:

    page a  [x] --put--> page b [x, stale] --written--> page b [x] --moved--> page a [stale] --written--> page a []
                              \--not written: put_back on a, where it is stored

Until the last write both have it, and a new holder may take either: the driver is not called before.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any, Final

import msgspec

from mooring.api.coordination import LEASES
from mooring.api.core import NODES
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.kube.cluster import Cluster
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooLarge
from mooring.sidecars.provisioner.intents import lease_codec
from mooring.sidecars.provisioner.intents.lease_codec import (
    ENTRY_BYTES_MAX,
    LATER,
    PAGES_MANY,
    PAGES_MAX,
    UNATTENDED_S,
    UNKNOWN,
    JournalLease,
    JournalLocation,
    UnreadablePage,
)
from mooring.sidecars.provisioner.model.intent import ClaimIntents, OwnVolume

log = logger(__name__)

AGAIN_S: Final = 5.0
"""How long until taking over the journal is tried again, after it failed."""

RETAKE_S: Final = 30.0
"""How long until we try to get the journal back, after another process has taken it. A process that lost an election
has ended by then.
"""

REFRESH_S: Final = 240.0
"""How often a page with open intents is written at the least, so that these are not taken for unattended."""

TRIES_MAX: Final = 5
_LEASES: Final = LEASES.whole()
_TAKEN: Final = (
    "another provisioner of this driver has taken over the journal of intents: end one of the two, or let them "
    "elect a leader"
)


class JournalEntries:
    """found: entries that others left, until the journal takes them from here. later: uids of those that a later
    version wrote.

    They are kept as they are: that version may come back, and knows what they mean.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[int, JournalLease] = {}
        self._lease_of: dict[str, JournalLease] = {}
        self.found: dict[str, ClaimIntents] = {}
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
        """Writes the entry to the page that already holds it, else to the first page with space. Copies elsewhere
        remain until `moved()`.

        Raises TooLarge, Conflict.
        """
        if uid in self.later:
            raise Conflict(LATER)
        former, before, packed_bytes = self._lease_of.get(uid), self.saying(uid), lease_codec.packed_bytes(text)
        page = self._page_for(uid, before if former is None else [former, *before], packed_bytes)
        self._lease_of[uid] = page
        page.put(uid, text, packed_bytes)
        return page

    def put_back(self, uid: str, text: bytes) -> None:
        """Restores the entry from before the last `put`, on its page: it must not be missing there while another page
        is written.
        """
        there = [page for page in self.pages if page.entries.get(uid) == text] or [self._lease_of[uid]]
        page = self._lease_of[uid] = next((page for page in there if page.stored.get(uid) == text), there[0])
        page.put(uid, text, lease_codec.packed_bytes(text))
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
            raise TooLarge(
                "what was asked for and is asked for now is too large to be written down: "
                f"{packed_bytes} bytes when packed, at most {ENTRY_BYTES_MAX}"
            )
        ordered = self.pages
        for page in [*first, *ordered]:
            if page.has_space(uid, packed_bytes):
                return page
        if len(ordered) >= PAGES_MAX:
            raise TooLarge(f"the journal of intents is full: it has {len(ordered)} pages")
        if len(ordered) >= PAGES_MANY:
            log.error(
                "the journal of intents fills up: so many volumes are being made, or may have been; a full one "
                "takes no new claims. "
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
        """Take in an entry that another process left."""
        self._lease_of[uid] = page
        try:
            entry = lease_codec.decoded(text)
        except UnreadablePage as error:
            self.later.add(uid)
            log.error(
                "an intent can't be read: it is kept, and its claim waits for the version that wrote it",
                uid=uid,
                why=str(error),
            )
        else:
            self.later.discard(uid)
            if is_unattended and entry.own is OwnVolume.NONE:
                entry = msgspec.structs.replace(entry, own=OwnVolume.UNSEEN)
                text = lease_codec.encoded(entry)
            self.found[uid] = entry
        page.put(uid, text, lease_codec.packed_bytes(text))


class Superseded(Conflict):
    """Another provisioner has taken the journal over."""


class LeaseStore(JournalEntries):
    """The pages as Leases. identity: of this process."""

    def __init__(self, cluster: Cluster, place: JournalLocation, identity: str, clock: Clock) -> None:
        super().__init__(clock)
        self._cluster, self._location, self._identity = cluster, place, identity
        self._count = 1
        self._taking = asyncio.Lock()
        self._take_at: Instant = 0.0
        self._why_not: ApiError | None = None
        self.held = False

    @property
    def takeover_in_s(self) -> float:
        """The seconds until the journal may be taken over."""
        return max(0.0, self._take_at - self._clock.now())

    def is_due(self, page: JournalLease) -> bool:
        """True when it has open intents and has not been written for a while."""
        return bool(page.entries) and self._clock.now() >= page.written_at + REFRESH_S

    async def write(self, page: JournalLease) -> None:
        """Returns when the page is stored as it was when this began, and counts. Raises Superseded, or another
        ApiError.
        """
        if not self.held:
            raise self._not_held()
        if page.unreadable:
            raise Conflict("a page of the journal of intents can't be read: going on with another")
        await self._store(page)
        if not page.counts:
            for before in self.pages[: page.number]:
                if not before.ours:
                    await self._store(before)
            await self._store(self._leases[0])

    async def _store(self, page: JournalLease) -> None:
        for left in reversed(range(TRIES_MAX)):
            try:
                await self._send(page)
                return
            except (Conflict, NotFound, AlreadyExists):
                if not left:
                    raise
                await self._look_again(page)

    async def _send(self, page: JournalLease) -> None:
        is_new, owner = page.lease is None, await self._owner() if page.lease is None else None
        entries = None if page.unreadable else dict(page.entries)
        texts = None if entries is None else entries.values()
        counted = self._countable() if page.number == 0 else []
        body = lease_codec.page_body(
            self._location,
            page.number,
            page.lease,
            self._identity,
            texts,
            self._clock.wall_s(),
            count=len(counted),
            owner=owner,
        )
        page.stale = False
        try:
            made = self._cluster.create if is_new else self._cluster.replace
            page.lease = await made(_LEASES, body, self._location.namespace)
        except BaseException:
            page.stale = True
            for uid, text in (entries or {}).items():
                page.stored[uid] = text if page.stored.get(uid) == text else UNKNOWN
            raise
        page.ours, page.counts, page.written_at = True, page.counts and not is_new, self._clock.now()
        if entries is not None:
            page.stored = entries
        if counted:
            self._count = len(counted)
            for one in counted:
                one.counts = one.counts or one.ours

    def _countable(self) -> list[JournalLease]:
        """The pages that count, and those written since: if page 0 can be written now, nobody has taken the journal
        over since.
        """
        ordered = self.pages
        count = self._count
        while count < len(ordered) and ordered[count].ours:
            count += 1
        return ordered[:count]

    async def _owner(self) -> dict[str, Any] | None:
        """The owner of a new page: the one node that is served, so that the journal goes when the node is gone for
        good.
        """
        if not self._location.node_name:
            return None
        try:
            node = await self._cluster.get(NODES, self._location.node_name)
        except ApiError as error:
            log.info(2, "a page of the journal of intents has no owner", node=self._location.node_name, why=str(error))
            return None
        return {
            "apiVersion": NODES.api_version,
            "kind": NODES.name,
            "name": self._location.node_name,
            "uid": node.metadata.uid,
        }

    async def _look_again(self, page: JournalLease) -> None:
        """A write was refused, for the page has changed: checks whether we still hold the journal. Raises Superseded,
        ApiError.

        The page is read before page 0: a process that takes over after that writes on it, too, and our next write is
        refused.
        """
        first = self._leases[0]
        lease = None if page is first else await self._lease(page.number)
        first.lease = await self._lease(0)
        if first.lease is not None and lease_codec.holder_of(first.lease) != self._identity:
            log.error(_TAKEN, holder=lease_codec.holder_of(first.lease), again_in_s=RETAKE_S)
            self.held, self._why_not, self._take_at = False, Superseded(_TAKEN), self._clock.now() + RETAKE_S
            raise self._not_held()
        if page is not first:
            is_known = not page.unreadable
            self._read(page, lease)
            page.unreadable = page.unreadable and not is_known  # all its entries are known here: it is written anew

    async def _lease(self, number: int) -> dict[str, Any] | None:
        try:
            return await self._cluster.get(_LEASES, self._location.page_name(number), self._location.namespace)
        except NotFound:
            return None

    # -- taking over

    async def hold(self) -> None:
        """Returns once we hold the journal. Raises ApiError, which is repeated for a while without a new try."""
        async with self._taking:
            if self.held:
                return
            if self.takeover_in_s > 0:
                raise self._not_held()
            try:
                await self._take_over()
            except ApiError as error:
                self._why_not, self._take_at = copy.copy(error), self._clock.now() + AGAIN_S
                self._why_not.args = (
                    f"could not take over the journal of intents, tried again every {AGAIN_S:.0f} s: {error}",
                )
                log.error(
                    "could not take over the journal of intents: no volume is created before that",
                    error=error,
                    again_in_s=AGAIN_S,
                )
                raise self._not_held() from error
            if self._why_not is not None:
                log.info(
                    0, "took over the journal of intents: volumes are created again", Lease=self._location.page_name(0)
                )
            self.held, self._why_not = True, None

    def _not_held(self) -> ApiError:
        """The reason, as a new exception each time: one that is raised again and again keeps every frame that it went
        through.
        """
        return Superseded(_TAKEN) if self._why_not is None else copy.copy(self._why_not)

    async def _take_over(self) -> None:
        for left in reversed(range(TRIES_MAX)):
            try:
                await self._try_to_take_over()
                break
            except (Conflict, NotFound, AlreadyExists):  # another process still writes there
                if not left:
                    raise

    async def _try_to_take_over(self) -> None:
        """The open intents of others, and our ended ones, are as the pages say now; our open ones are added to that."""
        self._drop_others()
        leases = await self._all_leases()
        self._count = lease_codec.count_of(leases[0]) or len(leases)
        for number in range(max(len(leases), len(self._leases))):
            page = self._leases.setdefault(number, JournalLease(number))
            page.counts = number < self._count
            self._read(page, leases[number] if number < len(leases) else None)
        for page in self.pages:
            if page.unreadable:
                for uid, text in list(page.entries.items()):
                    self.put(uid, text)
                    self.moved(uid)
        for page in self.pages:
            if page.counts or page.lease is not None or page.entries:
                await self._send(page)
        if not all(page.counts for page in self.pages if page.entries):
            await self._send(self._leases[0])

    def _drop_others(self) -> None:
        for uid in (*self.found, *self.later):
            self.drop(uid)
        self.found, self.later = {}, set()
        for page in self._leases.values():
            page.stored, page.ours = {}, False

    async def _all_leases(self) -> list[dict[str, Any] | None]:
        """Return the pages in order, page 0 always, up to the first that is not there and that page 0 does not name."""
        leases = [await self._lease(0)]
        while len(leases) < PAGES_MAX:
            lease = await self._lease(len(leases))
            if lease is None and len(leases) >= lease_codec.count_of(leases[0]):
                break
            leases.append(lease)
        return leases
