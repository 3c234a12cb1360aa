"""The pages of a journal as one holder keeps them: taking them over, and writing them so that no former holder can write there any more.

Who takes over lists all pages and writes its name on each, over what it has read; a conflict on the way means that somebody still
writes there, and it begins again. So a former holder that still lives finds its next write refused, for the version has moved on. Page 0
is always there and is taken first. A page that is new counts only once page 0 has been written after it, which shows that we still hold the
journal: who took over meanwhile has not seen the new page.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Final

from mooring.api.coordination import LEASES
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.kube.cluster import Cluster, Selection
from mooring.kube.errors import AlreadyExists, ApiError, Conflict, NotFound, TooLarge
from mooring.provisioner import pages
from mooring.provisioner.intents import Intent
from mooring.provisioner.pages import JOURNAL_LABEL, PAGE_BYTES_MAX, PAGES_MAX, Place, UnreadablePage

log = logger(__name__)

AGAIN_S: Final = 5.0
"""After the journal could not be taken over: how long until that is tried again."""

RETAKE_S: Final = 30.0
"""After somebody else has taken it: how long until we try to get it back. Who lost an election has ended by then."""

TRIES_MAX: Final = 5
_LEASES: Final = LEASES.whole()
_TAKEN: Final = "another provisioner of this driver has taken over the journal of intents"


class Superseded(Conflict):
    """Another provisioner has taken the journal over."""


@dataclasses.dataclass(slots=True, eq=False)
class Page:
    """lease: as last read or written, None before its creation. entries: what shall stand there. stored: the uids that do, we think.

    size: of the entries. stale: not written since it last changed. unreadable: its entries are left alone.
    """

    number: int
    lease: dict[str, Any] | None = None
    entries: dict[str, bytes] = dataclasses.field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    size: int = 0
    stale: bool = False
    unreadable: bool = False

    def put(self, uid: str, text: bytes) -> None:
        self.drop(uid)
        self.entries[uid] = text
        self.size += len(text) + 1
        self.stale = True

    def drop(self, uid: str) -> None:
        text = self.entries.pop(uid, None)
        if text is not None:
            self.size -= len(text) + 1
            self.stale = True


class Book:
    """identity: whose process this is. found: entries that others left, until somebody takes them from here."""

    def __init__(self, cluster: Cluster, place: Place, identity: str, clock: Clock) -> None:
        self._cluster, self._place, self._identity, self._clock = cluster, place, identity, clock
        self._pages: dict[int, Page] = {}
        self._page_of: dict[str, Page] = {}
        self._taking = asyncio.Lock()
        self._take_at: Instant = 0.0
        self._why_not: ApiError = Superseded(_TAKEN)
        self.held = False
        self.found: dict[str, Intent] = {}

    @property
    def pages(self) -> list[Page]:
        """All, by number."""
        return [self._pages[number] for number in sorted(self._pages)]

    @property
    def take_in_s(self) -> float:
        """Until the journal may be taken over."""
        return max(0.0, self._take_at - self._clock.now())

    # -- entries

    def page_of(self, uid: str) -> Page | None:
        """Where it stands, or stood last."""
        return self._page_of.get(uid)

    def put(self, uid: str, text: bytes) -> Page:
        """Enters it where it stands, or where there is room first. Raises TooLarge."""
        former = self._page_of.get(uid)
        page = self._page_for(former, len(text))
        if former is not None and former is not page:
            former.drop(uid)
        self._page_of[uid] = page
        page.put(uid, text)
        return page

    def drop(self, uid: str) -> None:
        self._page_of[uid].drop(uid)

    def _page_for(self, former: Page | None, length: int) -> Page:
        ordered = self.pages
        for page in ordered if former is None else [former, *ordered]:
            if not page.unreadable and (page.size + length < PAGE_BYTES_MAX or not page.entries):
                return page
        if len(ordered) >= PAGES_MAX:
            raise TooLarge(f"the journal of intents is full: it has {len(ordered)} pages")
        self._pages[len(ordered)] = Page(len(ordered))
        return self._pages[len(ordered)]

    def _read(self, page: Page, lease: dict[str, Any] | None) -> None:
        """Takes in what stands there. What we have ended is not open again."""
        page.lease, page.stale = lease, True
        try:
            entries = {} if lease is None else {intent.uid: intent for intent in pages.entries_of(lease)}
            page.unreadable = False
        except UnreadablePage as error:
            page.unreadable = True
            log.error("a page of the journal of intents can't be read", page=page.number, why=str(error))
            return
        for uid, intent in entries.items():
            former = self._page_of.get(uid)
            if former is None or (uid not in former.entries and uid not in former.stored):
                self.found[uid] = intent
                self._page_of[uid] = page
                page.put(uid, pages.encoded(intent))
        page.stored = frozenset(entries)

    # -- writing

    async def write(self, page: Page) -> None:
        """Returns when the page is stored as it was when this began. Raises Superseded, or another ApiError."""
        if not self.held:
            raise self._why_not
        is_new = page.lease is None and page.number > 0
        for left in reversed(range(TRIES_MAX)):
            try:
                await self._send(page)
                break
            except (Conflict, NotFound, AlreadyExists):
                if not left:
                    raise
                await self._look_again(page)
        if page.unreadable and page.entries:
            raise Conflict("a page of the journal of intents can't be read: going on with another")
        if is_new:
            await self.write(self._pages[0])

    async def _send(self, page: Page) -> None:
        entries = None if page.unreadable else dict(page.entries)
        texts = None if entries is None else entries.values()
        body = pages.page_body(self._place, page.number, page.lease, self._identity, texts, self._clock.wall_s())
        page.stale = False
        try:
            if page.lease is None:
                page.lease = await self._cluster.create(_LEASES, body, self._place.namespace)
            else:
                page.lease = await self._cluster.replace(_LEASES, body, self._place.namespace)
        except BaseException:
            page.stale = True
            raise
        if entries is not None:
            page.stored = frozenset(entries)

    async def _look_again(self, page: Page) -> None:
        """A write was refused, for the page is not as we know it: do we still hold the journal? Raises Superseded, ApiError."""
        first = self._pages[0]
        first.lease = await self._lease(0)
        if first.lease is not None and pages.holder_of(first.lease) != self._identity:
            log.error(_TAKEN, holder=pages.holder_of(first.lease))
            self.held, self._why_not, self._take_at = False, Superseded(_TAKEN), self._clock.now() + RETAKE_S
            raise self._why_not
        if page is not first:
            is_known = page.lease is not None and not page.unreadable
            self._read(page, await self._lease(page.number))
            page.unreadable = page.unreadable and not is_known  # all that stood there is in our hands: it is written anew

    async def _lease(self, number: int) -> dict[str, Any] | None:
        try:
            return await self._cluster.get(_LEASES, self._place.page_name(number), self._place.namespace)
        except NotFound:
            return None

    # -- taking over

    async def hold(self) -> None:
        """Returns once we hold the journal. Raises ApiError: what keeps us from it, for a while without asking again."""
        async with self._taking:
            if self.held:
                return
            if self.take_in_s > 0:
                raise self._why_not
            try:
                await self._take_over()
            except ApiError as error:
                self._why_not, self._take_at = error, self._clock.now() + AGAIN_S
                log.error("could not take over the journal of intents: no volume is created before that", error=error, again_in_s=AGAIN_S)
                raise
            self.held = True

    async def _take_over(self) -> None:
        for left in reversed(range(TRIES_MAX)):
            try:
                await self._try_to_take_over()
                break
            except (Conflict, NotFound, AlreadyExists):  # somebody still writes there
                if not left:
                    raise

    async def _try_to_take_over(self) -> None:
        selection = Selection(self._place.namespace, label_selector=f"{JOURNAL_LABEL}={self._place.label}")
        listed = await self._cluster.list(_LEASES, selection)
        leases = {number: lease for lease in listed.items if (number := self._place.page_number(lease)) is not None}
        last = max([0, *self._pages, *leases])
        for number in range(last + 1):
            self._read(self._pages.setdefault(number, Page(number)), leases.get(number))
        for number in sorted({0, *leases} | {page.number for page in self.pages if page.entries}):
            await self._send(self._pages[number])
