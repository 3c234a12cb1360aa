"""A cache of one kind that follows the API server, and tells its handlers what changed.

    attachments = Informer(cluster, VOLUME_ATTACHMENTS, clock=clock, randomness=randomness, indexes={"pv": ...})
    attachments.on_change(lambda change: queue.add(...))
    group.create_task(attachments.run(), name=attachments.name)
    await attachments.synced()
    attachments.store.by("pv", "pv1")

Only what `prune` leaves is kept, and equal parts of objects are kept once. The answer of an own write enters at once
(`wrote`), so nobody acts twice on it. How watch and own writes come in: `kube/cache/feed.py`; how lists join them:
`kube/cache/store.py`.

Several readers of one cache have an `Informer` each (`share`): the store is one, handlers and own writes are each
reader's. A reader's life:

| state       | comes by                           | its handlers are told of            | has_synced, once filled |
| --- | --- | --- | --- |
| mute        | share, leave                       | nothing                             | no                      |
| being told  | join, where something is there     | changes, and what is there, in turn | no                      |
| looks first | looks_first                        | changes, and what goes              | yes                     |
| told        | join, end of tell_all, begin_looks | everything                          | yes                     |

A cache of one reader is told from the beginning. `run` fills the store by a list, follows it by a watch, and begins
anew when it is run again; `caught_up` waits until the store has all that the API server has now.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from mooring.api.meta import Key, Kind, Object, key_of
from mooring.base import heap
from mooring.base.clock import Clock, Instant
from mooring.base.randomness import Random
from mooring.kube.cache.feed import YIELD_EVERY, Feed, FeedReader, Handler, OwnWrite, Pruning
from mooring.kube.cache.reflector import Reflector
from mooring.kube.cache.store import Cause, Change, IndexFunction, Store
from mooring.kube.cluster import EVERYTHING, Cluster, Selection
from mooring.kube.errors import ApiError, Forbidden, NotFound, NotServed, SetBack
from mooring.kube.list_all import list_all

__all__ = ["Cause", "Change", "FreshCache", "Informer", "keep", "obstacles"]

T = TypeVar("T", bound=Object)

SILENCE_S_MAX: Final = 120.0
"""How long a watch may be silent: after that two bookmarks of the API server did not come."""


def keep(obj: T) -> T:
    """Prunes nothing."""
    return obj


def obstacles(informers: Iterable[Informer[Any]]) -> str:
    """The error that keeps any of them from following the API server, "" for none known."""
    return "; ".join(filter(None, (informer.obstacle for informer in informers)))


class _Run(msgspec.Struct, Generic[T]):
    """The following of the API server, which is one for all readers."""

    resync_s: float
    is_running: bool = False
    reflector: Reflector[T] | None = None


class Informer(Generic[T]):
    """prune: what to keep of an object, with its metadata's name, uid and resource_version; None leaves the object out.

    indexes: as for Store. resync_s: how often all objects are delivered again, as changes with cause RESYNC; 0 is
    never. may_be_missing: a kind that is not served, as yet, counts as one without objects. name: of the task and in
    logs.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[T],
        *,
        clock: Clock,
        randomness: Random,
        selection: Selection = EVERYTHING,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        prune: Callable[[T], T | None] = keep,
        resync_s: float = 0.0,
        page_limit: int = 500,
        may_be_missing: bool = False,
        name: str = "",
    ) -> None:
        assert resync_s >= 0
        self.name = name or f"informer/{kind.plural}"
        self.store: Store[T] = Store(indexes)
        self._feed = Feed(self.store, prune, self.name, clock, may_be_missing)
        self._reader: FeedReader[T] = FeedReader()
        self._feed.join(self._reader)
        self._is_told = asyncio.Event()
        self._is_told.set()
        self._cluster, self._kind, self._selection, self._page_limit = cluster, kind, selection, page_limit
        self._clock, self._randomness = clock, randomness
        self._run: _Run[T] = _Run(resync_s)
        self._is_share = False

    def share(self, prune: Pruning[T]) -> Informer[T]:
        """The same cache for another reader, with handlers and own writes of its own. It is told nothing before `join`.

        prune: the part of an object that this reader asked for; its handlers are told of changes of that, though the
        store has more.
        """
        other = copy.copy(self)
        other._reader, other._is_share = FeedReader(prune, resyncs=False), True
        other._is_told = asyncio.Event()
        return other

    def wants_resyncs(self) -> None:
        """The handlers of this share are told of resyncs, too."""
        self._reader.resyncs = True

    def join(self) -> bool:
        """From now on the handlers are told what happens. True when something is there, which `tell_all` tells them."""
        self._feed.join(self._reader)
        if self._reader.is_to_be_told(self.store):
            return True
        self._is_told.set()
        return False

    async def tell_all(self) -> None:
        """Tells the handlers what is there, as changes from nothing."""
        await self._reader.tell_all(self.store)
        self._is_told.set()

    def looks_first(self) -> None:
        """Join as `join` does; but of objects that are there, or come, the handlers are told nothing before
        `begin_looks`: they look themselves.

        Whoever runs the cache has joined already.
        """
        self._reader.comings = False
        if self._reader not in self._feed:
            self._feed.join(self._reader)
        self._is_told.set()

    def begin_looks(self) -> None:
        """The handlers are about to look at what is there: they are told of objects that come from now on."""
        self._reader.comings = True

    def leave(self) -> None:
        """The handlers are told nothing more."""
        self._is_told.clear()
        self._feed.leave(self._reader)

    async def caught_up(self) -> None:
        """Returns once the cache has shown all that the API server has now; at once where it is not followed yet."""
        if self._run.reflector is not None and self.is_running:
            await self.filled()
            await self._run.reflector.caught_up()

    def also(self, indexes: Mapping[str, IndexFunction[T]], resync_s: float, *, may_be_missing: bool) -> None:
        """A further reader's wishes: indexes, the shortest time between resyncs, a kind that has to be there. Nothing
        new once it runs.
        """
        self.store.index(indexes)
        self._feed.may_be_missing = self._feed.may_be_missing and may_be_missing
        if resync_s > 0:
            self._run.resync_s = min(self._run.resync_s or resync_s, resync_s)

    @property
    def scope(self) -> tuple[Kind[T], Selection]:
        """The objects that are followed."""
        return self._kind, self._selection

    @property
    def is_running(self) -> bool:
        """True while the API server is followed, or asked again and again."""
        return self._run.is_running

    @property
    def has_synced(self) -> bool:
        """True while the cache follows the API server and has listed everything, and the handlers know all of it, or
        look first.
        """
        return self.is_filled and self._is_told.is_set()

    @property
    def is_filled(self) -> bool:
        """True while the cache follows the API server and has listed everything."""
        return self._feed.synced.is_set()

    @property
    def heard_at(self) -> Instant:
        """When list or watch told something last, if only a bookmark; a server sends one about each minute."""
        return self._feed.heard_at

    @property
    def resource(self) -> str:
        """The kind's name in URLs, with its group."""
        return self._kind.resource

    @property
    def is_healthy(self) -> bool:
        """True while everything is listed, and neither list nor watch has failed since it last told something.

        A kind that is not served is fine where it may be missing.
        """
        trouble = None if self._run.reflector is None else self._run.reflector.trouble
        return self.is_filled and (trouble is None or (self._feed.may_be_missing and isinstance(trouble, NotServed)))

    @property
    def obstacle(self) -> str:
        """The API server's error that keeps the cache from following, "" for none.

        Once filled, the cache reports only missing rights, and a server that was set back, until all is listed again.
        """
        trouble = None if self._run.reflector is None else self._run.reflector.trouble
        if trouble is None or (self.is_filled and not isinstance(trouble, Forbidden | SetBack)):
            return ""
        return f"can't follow {self._kind.plural}: {trouble}"

    async def filled(self) -> None:
        """Waits for the first list to be complete."""
        await self._feed.synced.wait()

    async def synced(self) -> None:
        """Waits for the first list to be complete, and for the handlers to know it."""
        await self.filled()
        await self._is_told.wait()

    def on_change(self, handler: Handler[T]) -> None:
        """Calls the handler with each change, after the store has it. Handlers are synchronous and quick; they may read
        any store.

        The store may already hold something newer, which the next change tells: another object of that name after a
        change to nothing, or what came while a write of ours was under way (`write`).
        """
        assert self._is_share or not self.is_running, "a handler that comes late has missed changes"
        self._reader.handlers.append(handler)

    async def write(self, key: Key, request: Awaitable[T]) -> T:
        """Makes one of our writes to the object of this key, and lets the answer in (`wrote`). Raises what the request
        raises.

        The watch may show the write before its answer is here: that, too, is told as our own, once the answer has come.
        An answer that the object is no more enters, too: it may be long until the watch says so. One from before what
        is known here shows that the server was set back: then all is listed anew.
        """
        with self._reader.writing(key) as write:
            return await self._answer(key, request, self._reader, write)

    async def read(self, key: Key, request: Awaitable[T]) -> T:
        """Makes a read of the object of this key, and lets the answer in as `write` does. What is new in it is told as
        a change by others, since its event comes to nothing when it comes; so is a write of ours that was not answered.
        """
        return await self._answer(key, request, None, OwnWrite())

    async def _answer(self, key: Key, request: Awaitable[T], by: FeedReader[T] | None, write: OwnWrite[T]) -> T:
        before, sight = self.store.get(key), self.store.sight(key)
        try:
            answer = await request
        except NotFound as error:
            if before is not None and error.details.get("name") == key.name:
                write.found_gone(before)
                self._feed.gone(before, by)
            raise
        write.answered(answer)
        self._feed.answered(answer, by)
        if self.store.is_of_before(answer, sight) and self._run.reflector is not None:
            self._run.reflector.set_back(self.store.known(), answer.metadata.resource_version)
        return answer

    def wrote(self, obj: T) -> None:
        """The API server has answered one of our writes with this object. Where the event can come first, use `write`.

        An object with deletionTimestamp, and without finalizers and time left, is taken for gone.
        """
        self._feed.answered(obj, self._reader)

    def observed(self, obj: T) -> None:
        """The API server has answered a read with this object. As `read`, where nothing was known of it."""
        self._feed.answered(obj, None)

    async def run(self) -> None:
        """Follows the API server until cancelled. Raises only what a handler raises. May be run again, and then lists
        again.
        """
        assert not self.is_running
        assert not self._is_share
        self._run.is_running = True
        reflector = self._run.reflector = Reflector(
            self._cluster,
            self._kind,
            self._feed,
            clock=self._clock,
            randomness=self._randomness,
            selection=self._selection,
            page_limit=self._page_limit,
            name=self.name,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reflector.run(), name=f"{self.name}/reflector")
                if self._run.resync_s > 0:
                    group.create_task(self._resync(), name=f"{self.name}/resync")
        finally:
            self._run.is_running = False
            self._feed.synced.clear()
            heap.thaw()  # what has followed is about to end, and would stay for ever

    async def _resync(self) -> None:
        await self.filled()
        while True:
            await self._clock.sleep(self._run.resync_s)
            for number, obj in enumerate(self.store.values(), start=1):
                current = self.store.get(key_of(obj))
                if current is not None:
                    self._feed.deliver((Change(current, current, Cause.RESYNC),))
                if number % YIELD_EVERY == 0:
                    await self._clock.sleep(0)


class FreshCache(Generic[T]):
    """A cache that something irrevocable relies on: the API server itself is asked where a watch may hide what is
    there.

    informer: the cache.
    """

    def __init__(self, cluster: Cluster, clock: Clock, informer: Informer[T]) -> None:
        self._cluster, self._clock, self._informer = cluster, clock, informer
        self._listing = asyncio.Lock()  # one list at a time
        self._listed_at: Instant = -math.inf
        self._failure: ApiError | None = None

    async def look(self) -> None:
        """Returns when the cache has the objects of a while ago. Raises ApiError."""
        if self._clock.now() - self._informer.heard_at > SILENCE_S_MAX:
            await self.list()

    async def list(self) -> None:
        """Returns when the cache has every object that is there now; some that are gone may be in it as well. Raises
        ApiError.
        """
        asked_at = self._clock.now()
        async with self._listing:
            if (
                self._listed_at < asked_at
            ):  # else the list of somebody before us, which began after we had asked, is ours as well
                began_at = self._clock.now()
                self._failure = await self._list()
                self._listed_at = began_at
            if self._failure is not None:
                raise copy.copy(self._failure)  # of its own for each: a shared one would keep the frames of all

    async def _list(self) -> ApiError | None:
        """Puts the objects into the cache; those that are gone leave it with the watch. Gives the error, if there was
        one.
        """
        try:
            async for obj in list_all(self._cluster, *self._informer.scope):
                self._informer.observed(obj)
        except ApiError as error:
            return error
        return None
