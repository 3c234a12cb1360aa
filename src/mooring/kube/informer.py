"""A cache of one kind that follows the API server, and tells its handlers what changed.

    attachments = Informer(cluster, VOLUME_ATTACHMENTS, clock=clock, chance=chance, indexes={"pv": ...}, name="attacher/volumeattachments")
    attachments.on_change(lambda change: queue.add(...))
    group.create_task(attachments.run(), name=attachments.name)
    await attachments.synced()
    attachments.store.by("pv", "pv1")

Only what `prune` leaves is kept, and equal parts of objects are kept once. The answer of an own write enters at once (`wrote`), so
nobody acts twice on it. How lists, watch and own writes are brought together: `kube/store.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from mooring.api.meta import Kind, Object, finalizers_of, is_deleting, key_of
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.kube.cluster import EVERYTHING, Cluster, EventType, Selection, WatchEvent
from mooring.kube.index import IndexFunction
from mooring.kube.intern import Interner
from mooring.kube.reflector import Reflector
from mooring.kube.store import Cause, Change, Relist, Store
from mooring.kube.versions import order

__all__ = ["Cause", "Change", "Informer", "keep"]

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

RESYNC_PER_BREATH: Final = 200  # objects re-delivered before others get their turn

_log = logger(__name__)


def keep(obj: T) -> T:
    """Prunes nothing."""
    return obj


class Informer(Generic[T]):
    """prune: what to keep of an object, with its metadata's name, uid and resource_version; None leaves the object out.

    indexes: as for Store. resync_s: how often all objects are delivered again, as changes with cause RESYNC; 0 is never.
    name: of the task and in logs.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind[T],
        *,
        clock: Clock,
        chance: Chance,
        selection: Selection = EVERYTHING,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        prune: Callable[[T], T | None] = keep,
        resync_s: float = 0.0,
        page_limit: int = 500,
        name: str = "",
    ) -> None:
        assert resync_s >= 0
        self.name = name or f"informer/{kind.plural}"
        self.store: Store[T] = Store(indexes)
        self._feed = _Feed(self.store, prune, self.name)
        self._cluster, self._kind, self._selection, self._page_limit = cluster, kind, selection, page_limit
        self._clock, self._chance = clock, chance
        self._resync_s = resync_s
        self._running = False

    @property
    def has_synced(self) -> bool:
        """True while the cache follows the API server and has listed everything."""
        return self._feed.synced.is_set()

    async def synced(self) -> None:
        """Waits for the first list to be complete."""
        await self._feed.synced.wait()

    def on_change(self, handler: Handler[T]) -> None:
        """Calls the handler with each change, after the store has it. Handlers are synchronous and quick; they may read any store.

        After a change to nothing the store may already hold another object of that name, which the next change tells.
        """
        assert not self._running, "a handler that comes late has missed changes"
        self._feed.handlers.append(handler)

    def wrote(self, obj: T) -> None:
        """The API server has answered one of our writes with this object.

        An object with deletionTimestamp and without finalizers is taken for gone, so this is not for Pods in their grace period.
        """
        self._feed.wrote(obj)

    async def run(self) -> None:
        """Follows the API server until cancelled. Raises only what a handler raises. May be run again, and then lists again."""
        assert not self._running
        self._running = True
        reflector = Reflector(
            self._cluster,
            self._kind,
            self._feed,
            clock=self._clock,
            chance=self._chance,
            selection=self._selection,
            page_limit=self._page_limit,
            name=self.name,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(reflector.run(), name=f"{self.name}/reflector")
                if self._resync_s > 0:
                    group.create_task(self._resync(), name=f"{self.name}/resync")
        finally:
            self._running = False
            self._feed.synced.clear()

    async def _resync(self) -> None:
        await self.synced()
        while True:
            await self._clock.sleep(self._resync_s)
            for number, obj in enumerate(self.store.values(), start=1):
                current = self.store.get(key_of(obj))
                if current is not None:
                    self._feed.tell((Change(current, current, Cause.RESYNC),))
                if number % RESYNC_PER_BREATH == 0:
                    await self._clock.sleep(0)


class _Feed(Generic[T]):
    """The reflector's sink, and the door for own writes: prunes, interns, stores, tells."""

    def __init__(self, store: Store[T], prune: Callable[[T], T | None], name: str) -> None:
        self.handlers: list[Handler[T]] = []
        self.synced = asyncio.Event()
        self._store = store
        self._prune = prune
        self._interner = Interner()
        self._relist: Relist[T] | None = None
        self._tombstones_lost = 0
        self._log = _log.bind(informer=name)

    def list_begins(self) -> None:
        self._relist = self._store.relist()

    def page(self, objects: Sequence[T], version: str) -> None:
        assert self._relist is not None
        if self._relist.rewound(version):
            self._log.warning("The API server's versions went back, believing the list alone", version=version, known=self._store.version)
        kept = (self._known(obj) or self._kept(obj) for obj in objects)
        self.tell(self._relist.page((obj for obj in kept if obj is not None), version))

    def list_ends(self, version: str) -> None:
        assert self._relist is not None
        self.tell(self._relist.end(version))
        self._relist = None
        self.synced.set()

    def event(self, event: WatchEvent[T]) -> None:
        obj = event.object
        if obj is None:
            self._store.bookmark(event.resource_version)
        elif event.type is EventType.DELETED:
            self.tell(self._store.delete(obj))
        elif not self._is_news(obj):
            self._store.bookmark(event.resource_version)
        elif (kept := self._kept(obj)) is not None:
            self.tell(self._store.apply(kept))
        else:
            self._store.bookmark(event.resource_version)
            self.tell(self._store.exclude(obj, Cause.WATCH))

    def wrote(self, obj: T) -> None:
        if is_deleting(obj) and not finalizers_of(obj):
            self.tell(self._store.bury(obj))
            if self._store.tombstones_lost > self._tombstones_lost:
                self._tombstones_lost = self._store.tombstones_lost
                self._log.warning(
                    "The watch is far behind our own deletions, deleted objects may show up again", count=self._tombstones_lost
                )
        elif (kept := self._kept(obj)) is not None:
            self.tell(self._store.wrote(kept))
        else:
            self.tell(self._store.exclude(obj, Cause.OWN_WRITE))

    def tell(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            for handler in self.handlers:
                handler(change)

    def _known(self, obj: T) -> T | None:
        """What is stored already in this very state: most of a list that repeats another."""
        stored = self._store.get(key_of(obj))
        if stored is None or (stored.metadata.uid, stored.metadata.resource_version) != (obj.metadata.uid, obj.metadata.resource_version):
            return None
        return stored

    def _is_news(self, obj: T) -> bool:
        """False for the echo of an own write, which need not be looked at."""
        stored = self._store.get(key_of(obj))
        return stored is None or order(obj.metadata.resource_version, stored.metadata.resource_version) > 0

    def _kept(self, obj: T) -> T | None:
        kept = self._prune(obj)
        if kept is None:
            return None
        assert kept.metadata.resource_version == obj.metadata.resource_version, "prune took what the cache needs"
        assert key_of(kept) == key_of(obj)
        return self._interner.shared(kept)
