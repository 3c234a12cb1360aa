"""Takes changes from reflector and own writes into a cache: prunes, interns and stores them, and passes them to the
readers.

A write is the own write of the reader that made it; to the others it is a change like any other, and so is to
everybody what a read shows. The watch may show the write before its answer arrives. So while a write is under way, the
feed holds the changes of its object back from the writer, until it knows which of them are the writer's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from mooring.api.meta import Key, Object, finalizers_of, is_deleting
from mooring.base.clock import Clock, Instant, give_way
from mooring.base.log import logger
from mooring.kube.cache.interner import Interner
from mooring.kube.cache.relist import Relist
from mooring.kube.cache.store import Cause, Change, Store
from mooring.kube.cluster import EventType, UnreadItem, WatchEvent, compare_versions

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

YIELD_EVERY: Final = 200
"""Objects of which a reader is told before others get their turn."""

_log = logger(__name__)


class OwnWrite(Generic[T]):
    """Our writes to one object that are under way: how many, their answers so far, and what the cache was shown
    meanwhile.
    """

    def __init__(self) -> None:
        self.count = 0
        self.observed: list[Change[T]] = []
        self._versions: set[str] = set()
        self._ended_uids: set[str] = set()

    def answered(self, obj: T) -> None:
        self._versions.add(obj.metadata.resource_version)
        if _is_over(obj):
            self._ended_uids.add(obj.metadata.uid)

    def found_gone(self, obj: T) -> None:
        self._ended_uids.add(obj.metadata.uid)

    def attributed(self) -> Iterator[Change[T]]:
        """The observed changes, with our own marked as such."""
        for change in self.observed:
            yield msgspec.structs.replace(change, cause=Cause.OWN_WRITE) if self._is_ours(change) else change

    def _is_ours(self, change: Change[T]) -> bool:
        if change.new is not None:
            return change.new.metadata.resource_version in self._versions
        assert change.old is not None
        return change.old.metadata.uid in self._ended_uids


def _is_over(obj: Object) -> bool:
    """True for an object whose last finalizer our write took: the server has removed it. A Pod in its grace period is
    still there.
    """
    return is_deleting(obj) and not finalizers_of(obj) and not obj.metadata.deletion_grace_period_seconds


class Pruning(Protocol[T]):
    """The part of each object that a reader asked for."""

    def __call__(self, obj: T, /) -> T | None:
        """The object with this part alone; None for one that the reader leaves out."""

    def keeps(self, obj: T, /) -> bool:
        """False for one that the reader leaves out."""


class FeedReader(Generic[T]):
    """One reader of a cache: its handlers, and its writes that are under way.

    prune: where the cache keeps more than the reader asked for, for others: changes are told as they would be to a
    reader of a cache of its own. An object that comes or goes is told as the cache has it: there is nothing to compare
    it with, and most of a start is that. resyncs: the reader is told of resyncs; others may have asked for them.
    comings: it is told of objects that come.
    """

    def __init__(self, prune: Pruning[T] | None = None, *, resyncs: bool = True) -> None:
        self.handlers: list[Handler[T]] = []
        self.resyncs, self.comings = resyncs, True
        self._prune = prune
        self._writes: dict[Key, OwnWrite[T]] = {}
        self._untold: dict[str, None] = {}  # keys, as text, of the objects that are still to be told of

    def is_to_be_told(self, store: Store[T]) -> bool:
        """Notes what is there, for `tell_all`. False when that is nothing."""
        self._untold = store.places()
        return bool(self._untold)

    async def tell_all(self, store: Store[T]) -> None:
        """Tells what was noted, as changes from nothing, some at a time: what changed last is told first, as it is by
        then.
        """
        for number, place in enumerate(tuple(self._untold), start=1):
            if place in self._untold:
                del self._untold[place]
                self.tell(Change(None, store.at(place), Cause.RELIST))
            if number % YIELD_EVERY == 0:
                await give_way()

    def _is_to_come(self, change: Change[T]) -> bool:
        """True for a change of an object that is still to be told of."""
        place = str(change.key)
        if place not in self._untold:
            return False
        if change.new is None:
            del self._untold[place]
        return True

    def tell(self, change: Change[T]) -> None:
        if (change.cause is Cause.RESYNC and not self.resyncs) or (change.old is None and not self.comings):
            return
        if self._untold and self._is_to_come(change):
            return
        if self._prune is not None:
            if change.old is None or change.new is None:
                if not self._prune.keeps(change.object):
                    return
            else:
                old, new = self._prune(change.old), self._prune(change.new)
                if old is None and new is None:
                    return
                change = Change(old, new, change.cause)
        self._deliver(change)

    def _deliver(self, change: Change[T]) -> None:
        write = self._writes.get(change.key) if self._writes else None
        if write is not None:
            write.observed.append(change)
            return
        for handler in self.handlers:
            handler(change)

    @contextlib.contextmanager
    def writing(self, key: Key) -> Iterator[OwnWrite[T]]:
        """Hold back the object's changes from this reader while a write of its own is under way; they are told then."""
        write = self._writes.setdefault(key, OwnWrite())
        write.count += 1
        try:
            yield write
        finally:
            write.count -= 1
            if not write.count:
                del self._writes[key]
                for change in write.attributed():
                    self._deliver(change)


class Feed(Generic[T]):
    """The reflector's sink, and the door for answers to requests: prunes, interns, stores, tells."""

    def __init__(
        self, store: Store[T], prune: Callable[[T], T | None], name: str, clock: Clock, may_be_missing: bool
    ) -> None:
        self._readers: list[FeedReader[T]] = []
        self.heard_at: Instant = -math.inf
        self._clock = clock
        self.synced = asyncio.Event()
        self._store = store
        self._prune = prune
        self.may_be_missing = may_be_missing
        self._interner = Interner()
        self._relist: Relist[T] | None = None
        self._tombstones_lost = 0
        self._log = _log.bind(informer=name)

    def join(self, reader: FeedReader[T]) -> None:
        """The reader is told all changes from now on."""
        assert reader not in self._readers
        self._readers.append(reader)

    def __contains__(self, reader: FeedReader[T]) -> bool:
        return reader in self._readers

    def leave(self, reader: FeedReader[T]) -> None:
        """The reader is told nothing more."""
        self._readers.remove(reader)

    def known(self) -> str:
        return self._store.known()

    def list_begins(self) -> None:
        self._relist = Relist(self._store)

    def page(self, objects: Sequence[T], version: str, unread: Sequence[UnreadItem]) -> None:
        assert self._relist is not None
        if self._relist.rewound(version):
            self._log.warning(
                "The API server's versions went back, believing the list alone",
                version=version,
                known=self._store.known(),
            )
        self._relist.keep(unread)
        kept = (self._known(obj) or self._kept(obj) for obj in objects)
        self.deliver(self._relist.page((obj for obj in kept if obj is not None), version))

    def list_ends(self, version: str) -> None:
        assert self._relist is not None
        self.deliver(self._relist.end(version))
        self._relist = None
        self.heard_at = self._clock.now()
        self.synced.set()

    def event(self, event: WatchEvent[T]) -> None:
        self.heard_at = self._clock.now()
        obj = event.object
        if obj is None:
            self._store.bookmark(event.resource_version)
        elif event.type is EventType.DELETED:
            self.deliver(self._store.delete(obj))
        elif not self._is_news(obj):
            self._store.bookmark(event.resource_version)
        elif (kept := self._kept(obj)) is not None:
            self.deliver(self._store.apply(kept))
        else:
            self._store.bookmark(event.resource_version)
            self.deliver(self._store.exclude(obj, Cause.WATCH))

    def set_back(self) -> None:
        self._store.set_back()

    def not_served(self) -> bool:
        if self.may_be_missing:
            self.synced.set()
        return self.may_be_missing

    def gone(self, obj: T, by: FeedReader[T] | None) -> None:
        """The API server does not know this stored object any more, by its answer to a write of this reader, or to a
        read.
        """
        self.deliver(self._store.bury(obj), by)

    def answered(self, obj: T, by: FeedReader[T] | None) -> None:
        """The API server has answered a write of this reader, or a read, with this object."""
        if _is_over(obj):
            self.gone(obj, by)
            if self._store.tombstones_lost > self._tombstones_lost:
                self._tombstones_lost = self._store.tombstones_lost
                self._log.warning(
                    "The watch is far behind our own deletions, deleted objects may show up again",
                    count=self._tombstones_lost,
                )
        elif (kept := self._kept(obj)) is not None:
            self.deliver(self._store.wrote(kept), by)
        else:
            self.deliver(self._store.exclude(obj, Cause.OWN_WRITE), by)

    def deliver(self, changes: Iterable[Change[T]], by: FeedReader[T] | None = None) -> None:
        """Tells all readers. by: the reader whose own write was answered; to the others it is a change by somebody
        else, as a read's answer is to all.
        """
        for change in changes:
            for reader in tuple(self._readers):
                foreign = change.cause is Cause.OWN_WRITE and reader is not by
                reader.tell(msgspec.structs.replace(change, cause=Cause.WATCH) if foreign else change)

    def _known(self, obj: T) -> T | None:
        """The stored object, if it is in this very state, as most are in a list that repeats another."""
        stored = self._store.like(obj)
        if stored is None or (stored.metadata.uid, stored.metadata.resource_version) != (
            obj.metadata.uid,
            obj.metadata.resource_version,
        ):
            return None
        return stored

    def _is_news(self, obj: T) -> bool:
        """False for the echo of an own write, which need not be looked at."""
        stored = self._store.like(obj)
        return stored is None or compare_versions(obj.metadata.resource_version, stored.metadata.resource_version) > 0

    def _kept(self, obj: T) -> T | None:
        kept = self._prune(obj)
        if kept is None:
            return None
        assert kept.metadata.resource_version == obj.metadata.resource_version, "prune took what the cache needs"
        assert kept.metadata.name == obj.metadata.name
        return self._interner.shared(kept, self._store.like(kept))
