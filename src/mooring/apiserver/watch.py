"""Watches: who waits for changes, and what each is told.

A watcher has no buffer of its own. It holds a version and reads on in the kind's history, which is bounded; one that is so slow
that its place is forgotten is cut off, and resumes or lists anew as after any broken connection. So a thousand watchers cost no
more memory than one, and none holds up another.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from typing import Final

from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.resource import Resource
from mooring.apiserver.scope import Scope
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import Change, History, Stored
from mooring.apiserver.watching import WatchOptions, start_of
from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.kube.cluster import EventType

BOOKMARK_PERIOD_S: Final = 15.0
"""Differs from kube-apiserver (a minute): the version of a quiet watch stays young, so a reconnect does not meet 410."""

_TIMEOUT_S_MIN: Final = 1800.0
_BATCH_MAX: Final = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Notice:
    """One line of a watch. stored: None for a BOOKMARK. initial_end: the bookmark after everything that was there."""

    type: EventType
    version: int
    stored: Stored | None = None
    initial_end: bool = False


class WatchHub:
    """Tells watchers of a store's changes, as far as they are committed. Belongs to one event loop."""

    def __init__(self, store: ObjectStore, *, clock: Clock, chance: Chance, durability: Durability | None = None) -> None:
        self._store, self._clock, self._chance = store, clock, chance
        self._durability = durability or InMemory(store)
        self._waiting: dict[tuple[str, str, str], dict[asyncio.Future[None], None]] = {}
        self._closed = False
        self._durability.on_commit(self._wake)
        store.kinds.on_change(self._wake_all)

    def close(self) -> None:
        """Ends all watches, as a time-out would."""
        self._closed = True
        self._wake_all()

    def _wake_all(self) -> None:
        for storage in list(self._waiting):
            self._wake_at(storage)

    async def watch(self, resource: Resource, scope: Scope, options: WatchOptions) -> AsyncGenerator[tuple[Notice, ...], None]:
        """Notices in batches, until the time is up or the watcher has fallen behind. Raises what `start_of` and `settled` raise."""
        store, history = self._store, self._store.table(resource).history
        start = start_of(options, store.version, history.floor)
        version = start.version
        end = self._clock.now() + (options.timeout_s or self._chance.uniform(_TIMEOUT_S_MIN, 2 * _TIMEOUT_S_MIN))
        found = store.list(resource, scope).items if start.initial else ()  # no await before: this is the state of `version`
        if min(version, store.version) > self._durability.committed:
            await self._durability.settled(min(version, store.version))
        if start.initial:
            for number in range(0, len(found), _BATCH_MAX):
                yield tuple(Notice(EventType.ADDED, stored.rv, stored) for stored in found[number : number + _BATCH_MAX])
            found = ()  # (a watch lives long)
            if options.bookmarks:
                yield (Notice(EventType.BOOKMARK, version, initial_end=True),)
        bookmark_at = self._next_bookmark()
        while version >= history.floor and (current := self._current(resource, history)) is not None:
            changes = _until(self._durability.committed, history.after(version, _BATCH_MAX))
            if changes:
                version = changes[-1].rv
                notices = _notices(changes, scope, current)
                if notices:
                    yield notices
                continue
            version = max(version, min(store.version, self._durability.committed))  # (nothing of this kind up to here)
            now = self._clock.now()
            if options.bookmarks and now >= min(bookmark_at, end):
                bookmark_at = self._next_bookmark()
                yield (Notice(EventType.BOOKMARK, version),)
            if now >= end or self._closed:
                return
            await self._changed(resource, (min(bookmark_at, end) if options.bookmarks else end) - now)

    def _current(self, resource: Resource, history: History) -> Resource | None:
        """The kind as it is now: a custom one may change. None when it has gone, or is another by now."""
        current = self._store.kinds.get(resource.path)
        return current if current is not None and self._store.table(current).history is history else None

    def _next_bookmark(self) -> float:
        return self._clock.now() + self._chance.jittered(BOOKMARK_PERIOD_S, 0.1)

    async def _changed(self, resource: Resource, timeout_s: float) -> None:
        """Returns when the kind has changed, or when the time is up."""
        waiting = self._waiting.setdefault(resource.storage, {})
        woken = asyncio.get_running_loop().create_future()
        waiting[woken] = None
        try:
            async with asyncio.timeout(timeout_s):
                await woken
        except TimeoutError:
            pass
        finally:
            waiting.pop(woken, None)

    def _wake(self, resource: Resource) -> None:
        self._wake_at(resource.storage)

    def _wake_at(self, storage: tuple[str, str, str]) -> None:
        waiting = self._waiting.pop(storage, {})
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)


def _until(committed: int, changes: list[Change]) -> list[Change]:
    """The changes that may be shown; of most lists, all."""
    while changes and changes[-1].rv > committed:
        changes.pop()
    return changes


def _notices(changes: list[Change], scope: Scope, resource: Resource) -> tuple[Notice, ...]:
    told = ((change.rv, change.seen_by(scope.matches)) for change in changes)
    return tuple(Notice(seen[0], version, seen[1].shown_by(resource)) for version, seen in told if seen is not None)
