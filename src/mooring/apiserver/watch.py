"""Watches on a store's changes.

A watcher has no buffer of its own. It holds a version and reads on in the kind's bounded history; one so slow that its
version has left the history is closed, and resumes or lists anew as after any broken connection. So a thousand watchers
cost no more memory than one, and none delays another. Watches of the same kind and scope share a `WatchBuffer`: their
events are made and encoded once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final
from weakref import WeakValueDictionary

from mooring.apiserver.durability import Durability, InMemory
from mooring.apiserver.listing import ListScope, WatchOptions, watch_start_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.watch_buffer import Batch, Beginning, WatchBuffer, WatchItem
from mooring.base.clock import Clock
from mooring.base.randomness import Random
from mooring.kube.cluster import EventType

BOOKMARK_PERIOD_S: Final = 15.0
"""Differs from kube-apiserver (a minute): the version of a quiet watch stays young, so a reconnect does not meet
410.
"""
LAST_BOOKMARK_S: Final = 2.0
"""Before the time of a watch is over, as kube-apiserver: who goes on from there has a young version. A shorter watch
has it at its end.
"""

_TIMEOUT_S_MIN: Final = 1800.0

Place = tuple[str, str, str]
"""The key of the changes that wake a watch: `Resource.storage`."""


class Cursor:
    """One watch, step by step, without waiting. needs: the version that must be committed before the first step."""

    def __init__(
        self, hub: WatchHub, buffer: WatchBuffer, resource: Resource, scope: ListScope, options: WatchOptions
    ) -> None:
        self._hub, self._buffer, self.resource = hub, buffer, resource
        store = hub.store
        start = watch_start_of(options, store.version, store.table(resource).history.floor)
        self._version = start.version
        found = tuple(store.table(resource).items(scope.namespace)) if start.initial else ()
        self._beginning: Beginning | None = Beginning(start.version, resource, scope, found) if found else None
        self._bookmarks, self._initial_end = options.bookmarks, start.initial and options.bookmarks
        self._end = hub.clock.now() + (options.timeout_s or hub.randomness.uniform(_TIMEOUT_S_MIN, 2 * _TIMEOUT_S_MIN))
        is_short = self._end - hub.clock.now() <= LAST_BOOKMARK_S
        self._last_at = self._end - (0.0 if is_short else LAST_BOOKMARK_S)
        self._bookmark_at = self._next_bookmark()
        self.needs = min(start.version, store.version)
        self.is_over = False

    @property
    def wake_at(self) -> float:
        """When there is something to do even if nothing changes."""
        return min(self._bookmark_at, self._end) if self._bookmarks else self._end

    def take(self) -> Batch | None:
        """The next batch, which may have no items; None when there is nothing for now, or for ever (`is_over`)."""
        if self._beginning is not None:
            batch = self._beginning.take()
            if batch is not None:
                return batch
            self._beginning = None
        if self._initial_end:
            self._initial_end = False
            return Batch(self._version, (WatchItem(EventType.BOOKMARK, self._version, initial_end=True),))
        if self.is_over or not self._buffer.has(self._version):
            self.is_over = True
            return None
        batch = self._buffer.after(self._version)
        if batch is None:
            return self._at_rest()
        self._version = batch.version
        return batch

    def _at_rest(self) -> Batch | None:
        self._version = max(self._version, self._hub.shown)  # (nothing of this kind up to here)
        now = self._hub.clock.now()
        self.is_over = now >= self._end or self._hub.is_closed
        if self._bookmarks and now >= self._bookmark_at:
            self._bookmark_at = self._next_bookmark()
            if self._version > self._hub.shown:
                return None  # (the watch began with a version that is yet to come: none has been reached)
            return Batch(self._version, (WatchItem(EventType.BOOKMARK, self._version),))
        return None

    def _next_bookmark(self) -> float:
        now = self._hub.clock.now()
        due_at = now + self._hub.randomness.jittered(BOOKMARK_PERIOD_S, 0.1)
        return min(due_at, self._last_at) if now < self._last_at else due_at


class WatchHub:
    """Wakes watchers at a store's committed changes. Belongs to one event loop."""

    def __init__(
        self, store: ObjectStore, *, clock: Clock, randomness: Random, durability: Durability | None = None
    ) -> None:
        self.store, self.clock, self.randomness = store, clock, randomness
        self._durability = durability or InMemory(store)
        self._buffers: WeakValueDictionary[tuple[object, ...], WatchBuffer] = WeakValueDictionary()
        self._waiting: dict[Place, dict[asyncio.Future[None], None]] = {}
        self._listeners: list[Callable[[Place | None], None]] = []
        self.is_closed = False
        self._durability.on_commit(lambda resource: self._wake(resource.storage))
        store.kinds.on_change(self._wake_all)

    @property
    def shown(self) -> int:
        """The newest version that may be shown."""
        return min(self.store.version, self._durability.committed)

    def close(self) -> None:
        """Ends all watches, as a time-out would."""
        self.is_closed = True
        self._wake_all()

    def on_wake(self, listener: Callable[[Place | None], None]) -> None:
        """Calls listener with the place whose watches have something to take; None: all."""
        self._listeners.append(listener)

    def cursor(self, resource: Resource, scope: ListScope, options: WatchOptions) -> Cursor:
        """A watch at its beginning. Raises what `watch_start_of` raises."""
        key = (resource.path, id(self.store.table(resource).history), scope)
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = WatchBuffer(self.store, self._durability, resource, scope)
        cursor = Cursor(self, buffer, resource, scope, options)
        self._buffers[key] = buffer
        return cursor

    async def watch(
        self, resource: Resource, scope: ListScope, options: WatchOptions
    ) -> AsyncGenerator[tuple[WatchItem, ...], None]:
        """Items in batches, until the time is up or the watcher has fallen behind.

        Raises what `watch_start_of` and `wait_committed` raise.
        """
        cursor = self.cursor(resource, scope, options)
        if cursor.needs > self._durability.committed:
            await self._durability.wait_committed(cursor.needs)
        while True:
            batch = cursor.take()
            if batch is not None:
                if batch.items:
                    yield batch.items
            elif cursor.is_over:
                return
            else:
                await self._changed(resource.storage, cursor.wake_at - self.clock.now())

    async def _changed(self, place: Place, timeout_s: float) -> None:
        """Returns when the kind has changed, or when the time is up."""
        waiting = self._waiting.setdefault(place, {})
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        waiting[woken] = None
        timer = loop.call_later(timeout_s, _wake_up, woken)
        try:
            await woken
        finally:
            timer.cancel()
            waiting.pop(woken, None)

    def _wake_all(self) -> None:
        for place in list(self._waiting):
            self._wake_waiting(place)
        for listener in self._listeners:
            listener(None)

    def _wake(self, place: Place) -> None:
        self._wake_waiting(place)
        for listener in self._listeners:
            listener(place)

    def _wake_waiting(self, place: Place) -> None:
        waiting = self._waiting.pop(place, {})
        for woken in waiting:
            _wake_up(woken)


def _wake_up(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)
