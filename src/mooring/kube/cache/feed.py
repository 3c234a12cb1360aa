"""What the reflector and our own writes tell a cache: pruned, interned, stored, and told to its handlers.

The watch may show a write of ours before its answer is here. While one is under way the changes of its object are held back, so that
those which are ours can be told as such.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from mooring.api.meta import Key, Object, finalizers_of, is_deleting, key_of
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.kube.cache.interner import Interner
from mooring.kube.cache.store import Cause, Change, Relist, Store
from mooring.kube.cluster import EventType, WatchEvent
from mooring.kube.versions import order

T = TypeVar("T", bound=Object)
Handler = Callable[[Change[T]], None]

_log = logger(__name__)


class OwnWrite(Generic[T]):
    """Our writes to one object that are under way: how many, their answers so far, and what the cache was shown meanwhile."""

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
            yield dataclasses.replace(change, cause=Cause.OWN_WRITE) if self._is_ours(change) else change

    def _is_ours(self, change: Change[T]) -> bool:
        if change.new is not None:
            return change.new.metadata.resource_version in self._versions
        assert change.old is not None
        return change.old.metadata.uid in self._ended_uids


def _is_over(obj: Object) -> bool:
    """True for an object whose last finalizer our write took: the server has removed it."""
    return is_deleting(obj) and not finalizers_of(obj)


class Feed(Generic[T]):
    """The reflector's sink, and the door for own writes: prunes, interns, stores, tells."""

    def __init__(self, store: Store[T], prune: Callable[[T], T | None], name: str, clock: Clock, may_be_missing: bool) -> None:
        self.handlers: list[Handler[T]] = []
        self.heard_at: Instant = -math.inf
        self._clock = clock
        self.synced = asyncio.Event()
        self._store = store
        self._prune = prune
        self.may_be_missing = may_be_missing
        self._interner = Interner()
        self._relist: Relist[T] | None = None
        self._writes: dict[Key, OwnWrite[T]] = {}
        self._tombstones_lost = 0
        self._log = _log.bind(informer=name)

    def list_begins(self) -> None:
        self._relist = self._store.relist()

    def page(self, objects: Sequence[T], version: str) -> None:
        assert self._relist is not None
        if self._relist.rewound(version):
            self._log.warning("The API server's versions went back, believing the list alone", version=version, known=self._store.version)
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

    def not_served(self) -> None:
        if self.may_be_missing:
            self.synced.set()

    def gone(self, obj: T) -> None:
        """The API server does not know this stored object any more."""
        self.deliver(self._store.bury(obj))

    def wrote(self, obj: T) -> None:
        if _is_over(obj):
            self.gone(obj)
            if self._store.tombstones_lost > self._tombstones_lost:
                self._tombstones_lost = self._store.tombstones_lost
                self._log.warning(
                    "The watch is far behind our own deletions, deleted objects may show up again", count=self._tombstones_lost
                )
        elif (kept := self._kept(obj)) is not None:
            self.deliver(self._store.wrote(kept))
        else:
            self.deliver(self._store.exclude(obj, Cause.OWN_WRITE))

    @contextlib.contextmanager
    def writing(self, key: Key) -> Iterator[OwnWrite[T]]:
        """While our write to this object is under way, what is seen of it is told later."""
        write = self._writes.setdefault(key, OwnWrite())
        write.count += 1
        try:
            yield write
        finally:
            write.count -= 1
            if not write.count:
                del self._writes[key]
                self.deliver(write.attributed())

    def deliver(self, changes: Iterable[Change[T]]) -> None:
        for change in changes:
            write = self._writes.get(change.key)
            if write is not None:
                write.observed.append(change)
                continue
            for handler in self.handlers:
                handler(change)

    def _known(self, obj: T) -> T | None:
        """The stored object in this very state: most of a list that repeats another."""
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
