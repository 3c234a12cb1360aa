"""Lists a kind and watches it from there, for ever, through all failures of server, network and proxies.

A list is read in pages, always at the newest state. Where the server forgets that state before the last page, larger
pages are asked for the next time; where a page is larger than the client takes, smaller ones. The watch resumes at the
last version:

| it ended by                        | within a second, no news | after a second  | with news, or after 120 s |
| --- | --- | --- | --- |
| its time, or a cut                 | back-off                 | at once         | at once                   |
| no answer, or an error of the server | back-off               | back-off        | at once                   |
| 410, the version is forgotten      | list at once, the second time after a back-off | the same | list at once  |
| a server that was set back         | list at once             | list at once    | list at once              |

A balancer or proxy cuts a silent connection, and the watch of a quiet kind is silent for minutes: such a cut is no
failure. The back-off begins anew with each watch after which the next is opened at once. A list that works does not
reset it, since a server may answer each list and refuse each watch. Each watch is asked to end after 5 to 10 minutes,
so a dead one is noticed. An error is logged once until its text changes, and retried. A kind that is not served is such
an error: the cache keeps its content.

A server that was restored from a backup goes on from older versions. It accepts a watch from a version that it has yet
to reach, is silent until then, and never shows what the restore undid. So the reflector asks for the server's version
before each watch but one that begins right after the request for its list. If the version went back, it lists all
again. A bookmark, or the answer to a request of others, may show that, too (`set_back`). A restore between that answer
and the watch is noticed when the watch is over.

Who has to know that nothing is missing waits for `caught_up`. The watch begins anew then, and is asked to end so soon
that the server sends a bookmark after about a second. A kind that fits one page is listed in its place, and so is one
whose bookmark does not come.

Source: client-go tools/cache (reflector): its times and back-off. Differs from client-go: only the newest state is
listed, never "any" (resourceVersion 0 answers without pages, and may be older than what is known); no streaming list.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import Final, Generic, Protocol, TypeVar

from mooring.api.meta import Kind
from mooring.base import heap
from mooring.base.backoff import BackOff
from mooring.base.clock import Clock
from mooring.base.log import LogOnce, logger
from mooring.base.randomness import Random
from mooring.kube.cache.catching_up import CatchingUp
from mooring.kube.cluster import (
    EVERYTHING,
    Cluster,
    EventType,
    Page,
    Selection,
    UnreadItem,
    WatchEvent,
    compare_versions,
)
from mooring.kube.errors import AnswerTooLarge, ApiError, Gone, NoAnswer, NotServed, SetBack, Unreachable

T = TypeVar("T")

BACKOFF: Final = BackOff(base_s=0.8, cap_s=30.0, jitter=0.0)  # and up to as much again at random
HEALTHY_S: Final = 120.0  # a watch that lived this long wipes out the failures before it
SHORT_S: Final = 1.0  # a watch that ended earlier without news has failed
WATCH_S: Final = (300.0, 600.0)
CATCHING_UP_S: Final = (
    3.0  # a server sends a bookmark two seconds before the time of a watch is over, and counts whole seconds
)
WATCH_GRACE_S: Final = 60.0  # beyond the time that the server was asked to keep
PAGE_S: Final = 120.0  # no shorter than a client gives a list
PAGES_GROW: Final = 4  # times, when a list broke off because pages took too long
LISTED_S: Final = 1.0  # no server is restored in less; a list that was asked for longer ago may be of before that
PROOFS_MAX: Final = 3  # in a row: a server that takes long for each answer is watched all the same
RETRY_AFTER_S_MAX: Final = 300.0
YIELD_EVERY: Final = 100  # objects: neither a burst of events nor a page holds up the loop any longer

_log = logger(__name__)


class ObjectSink(Protocol[T]):
    """Where the objects go."""

    def known(self) -> str:
        """The newest version that the server is known to have come to, "" for none: an answer to an own write may be
        ahead of the watch.
        """

    def list_begins(self) -> None:
        """A list was asked for; one that had begun before and did not end is void."""

    def page(self, objects: Sequence[T], version: str, unread: Sequence[UnreadItem]) -> None:
        """unread: objects that are there and can't be read."""

    def list_ends(self, version: str) -> None:
        """All pages were delivered: what is not among them is gone."""

    def event(self, event: WatchEvent[T]) -> None: ...

    def set_back(self) -> None:
        """The server was set back: what the next list says is all that counts, whatever its version."""

    def not_served(self) -> bool:
        """The server has no such kind, as yet or any more. True where it may be missing."""


class Reflector(Generic[T]):
    """name: of the tasks and in logs. page_limit: objects a page, at first."""

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[T],
        sink: ObjectSink[T],
        *,
        clock: Clock,
        randomness: Random,
        selection: Selection = EVERYTHING,
        page_limit: int = 500,
        name: str = "",
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._sink = sink
        self._clock = clock
        self._randomness = randomness
        self._selection = selection
        self._page_limit = page_limit
        self._version = ""  # the watch goes on after it; "" lists first
        self._failures = 0
        self._forgotten = False  # the server said so since the last healthy watch; the second time we wait
        self._has_news = False  # the running watch has shown a change
        self._proved_at = (
            -math.inf
        )  # when it was last known that the server's versions go on; what was asked for then proves it
        self._catching_up = CatchingUp()
        self._has_pages = False  # the last list had several
        self._is_fresh = False  # a long list has come in, and no bookmark since
        self._shown: SetBack | None = None  # by an answer to others, since the last list was asked for
        self._time: asyncio.Timeout | None = None  # of the running watch
        self._pause: asyncio.Timeout | None = None  # after a failure
        self._log = _log.bind(reflector=name or kind.plural)
        self._log_once = LogOnce(self._log, over="The API server answers again")
        self.trouble: ApiError | None = None
        """The last error of list or watch, until one of them works again; SetBack until all is listed again,
        whatever comes after it.
        """

    async def run(self) -> None:
        while True:
            try:
                await self._catch_up()
                delay_s = await self._watch()
            except ApiError as error:
                delay_s = self._failed(error)
            await self._rest(delay_s)

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as self._pause:
                await self._clock.sleep(seconds)
        self._pause = None

    def set_back(self, known: str, version: str) -> None:
        """An answer to others has shown that the server was set back: all is listed again, at once.

        known: the version that it had. version: that it answered.
        """
        self._shown = self._set_back(known, version)
        _end(self._time)

    async def caught_up(self) -> None:
        """Returns once everything has been shown that the server has now; or that a kind which may be missing is."""
        wanted = self._catching_up.asks()
        _end(self._time)
        _end(self._pause)
        await wanted

    async def _catch_up(self) -> None:
        """List all, where needed, and make sure that the server goes on from there. Raises ApiError."""
        while not self._version or (self._catching_up.asking and not self._has_pages):
            await self._list()
        for _ in range(PROOFS_MAX):
            is_known = self._clock.now() - self._proved_at <= LISTED_S and not self._catching_up.asking
            if self._shown is not None or is_known:
                break
            await self._check_version()
        if self._shown is not None:
            self._version = ""
            raise self._shown

    async def _list(self) -> None:
        """Raises ApiError."""
        self._shown, self._proved_at = None, self._clock.now()
        waiting = self._catching_up.everybody
        self._sink.list_begins()
        page = await self._page_of_list("")
        await self._take_page(page)
        has_pages = bool(page.continue_token)
        while page.continue_token:
            page = await self._page_of_list(page.continue_token)
            await self._take_page(page)
            heap.settle()
        self._sink.list_ends(page.resource_version)
        self._catching_up.end(waiting)
        self._has_pages = has_pages
        if has_pages:
            heap.trim()
            self._is_fresh = True
        self._version = page.resource_version
        self._is_well()
        self._log.info(4, "Listed", version=self._version)

    async def _take_page(self, page: Page[T]) -> None:
        """Some objects at a time: several readers of a cache take half a millisecond for each."""
        self._sink.page(page.items[:YIELD_EVERY], page.resource_version, page.unread)
        for begin in range(YIELD_EVERY, len(page.items), YIELD_EVERY):
            await self._clock.sleep(0)
            self._sink.page(page.items[begin : begin + YIELD_EVERY], page.resource_version, ())

    async def _page_of_list(self, token: str) -> Page[T]:
        """Raises ApiError. Where the size of its pages broke a list off, the next one has larger or smaller ones."""
        try:
            return await self._page(self._page_limit, token)
        except AnswerTooLarge:
            self._page_limit = max(1, self._page_limit // 2)
            raise
        except Gone:
            if token:
                self._page_limit *= PAGES_GROW
            raise

    async def _check_version(self) -> None:
        """Raises SetBack, and any other ApiError."""
        told, asked_at, waiting = self._sink.known(), self._clock.now(), self._catching_up.asked()
        known = told if compare_versions(told, self._version) > 0 else self._version
        page = await self._page(1, "")
        if compare_versions(page.resource_version, known) < 0:
            raise self._set_back(known, page.resource_version)
        self._proved_at = asked_at
        self._catching_up.answered(waiting, page.resource_version)
        self._catching_up.came_to(self._version)

    def _set_back(self, known: str, version: str) -> SetBack:
        """known: the version that the server had. version: the one that it has now."""
        error = SetBack(f"the API server was set back from version {known} to {version}, as by a restore from a backup")
        self._version = ""
        self._sink.set_back()
        return error

    async def _page(self, limit: int, token: str) -> Page[T]:
        """Raises ApiError."""
        try:
            async with asyncio.timeout(PAGE_S):
                return await self._cluster.list(self._kind, self._selection, limit=limit, continue_token=token)
        except TimeoutError:
            raise Unreachable(f"no answer to a list of {self._kind.resource} within {PAGE_S:g} s") from None

    async def _watch(self) -> float:
        """Watches until the stream ends. Returns how many seconds to wait before the next; raises ApiError when it
        failed at once.
        """
        began, catches_up = self._clock.now(), bool(self._catching_up.waiting)
        self._has_news = False
        error: ApiError | None = None
        try:
            await self._read_events()
        except ApiError as caught:
            error = caught
        error, lived_s = self._shown or error, self._clock.now() - began
        if isinstance(error, Gone) or (catches_up and self._catching_up.waiting and not self._catching_up.asking):
            self._version = ""
        self._proved_at = -math.inf
        if isinstance(error, SetBack):
            return self._failed(error)
        if error is None and self._catching_up.asking:
            return 0.0
        # Seconds without any answer are no life: a server that is away is tried ever more seldom.
        is_end_or_cut = error is None or (isinstance(error, Unreachable) and not isinstance(error, NoAnswer))
        if lived_s >= HEALTHY_S or self._has_news or (is_end_or_cut and lived_s >= SHORT_S):
            self._failures, self._forgotten = 0, False
            self.trouble = None
            self._log.info(
                4,
                "The watch ended",
                after_s=round(lived_s, 1),
                why="its time was over" if error is None else str(error),
            )
            return 0.0
        return self._failed(error or Unreachable(f"the server ended the watch of {self._kind.resource} at once"))

    async def _read_events(self) -> None:
        """Hands the events of one watch on. Raises ApiError; a server that forgets to end it in time is left
        silently.
        """
        # Short also for waits that began during the last proof: the server is asked for its version when this ends.
        timeout_s = CATCHING_UP_S if self._catching_up.everybody else self._randomness.uniform(*WATCH_S)
        watch = self._cluster.watch(self._kind, self._selection, resource_version=self._version, timeout_s=timeout_s)
        count = 0
        try:
            async with asyncio.timeout(timeout_s + WATCH_GRACE_S) as self._time, contextlib.aclosing(watch) as events:
                async for event in events:
                    self._take(event)
                    count += 1
                    if count % YIELD_EVERY == 0:
                        await self._clock.sleep(0)
        except TimeoutError:
            return
        finally:
            self._time = None

    def _take(self, event: WatchEvent[T]) -> None:
        if event.type is EventType.BOOKMARK and compare_versions(event.resource_version, self._version) < 0:
            raise self._set_back(self._version, event.resource_version)
        self._is_well()
        self._sink.event(event)
        if self._is_fresh and event.type is EventType.BOOKMARK:  # by now the readers have made of it what they keep
            self._is_fresh = False
            heap.settle()
            heap.trim()
        if compare_versions(event.resource_version, self._version) > 0:
            self._version = event.resource_version
            if self._catching_up.waiting:
                self._catching_up.came_to(self._version)
            self._has_news = self._has_news or event.type is not EventType.BOOKMARK

    def _is_well(self) -> None:
        self.trouble = None
        self._log_once.reset()

    def _failed(self, error: ApiError) -> float:
        """Notes a failure. Returns how many seconds to wait."""
        self._failures += 1
        if not isinstance(self.trouble, SetBack):
            self.trouble = error
        if isinstance(error, Gone):
            if isinstance(error, SetBack):
                self._log.warning("Listing all again", why=str(error))
            else:
                self._log.info(2, "The API server has forgotten this version, listing again", why=str(error))
            if not self._forgotten:
                self._forgotten = True
                return 0.0
        elif isinstance(error, NotServed):
            if self._sink.not_served():
                self._catching_up.end(self._catching_up.everybody)
            self._log_once.info("The API server does not serve this kind, looking for it now and then", error)
        else:
            self._log_once.error("Failed to list or watch, trying again", error)
        delay_s = BACKOFF.delay_s(self._failures) * self._randomness.uniform(1.0, 2.0)
        return max(delay_s, min(error.retry_after_s or 0.0, RETRY_AFTER_S_MAX))


def _end(time: asyncio.Timeout | None) -> None:
    """Let what runs under this timeout end in the next turn of the loop."""
    if time is not None and not time.expired():
        time.reschedule(0.0)
