"""Runs the server's controllers: a change of the store starts a turn, and one the next while work is left, small enough
for requests.
"""

from __future__ import annotations

import asyncio
import traceback

from mooring.apiserver.controllers.emptying import Emptier
from mooring.apiserver.controllers.garbage_collector import Collector
from mooring.apiserver.portions import Portion, PortionWorker
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import StoredChange
from mooring.base.clock import Clock
from mooring.base.log import logger

_log = logger(__name__)


class Housekeeping:
    """For one store, in one event loop; a store has one at the most. start() may be called before the loop's first
    turn.
    """

    def __init__(self, store: ObjectStore, *, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._workers: tuple[PortionWorker, ...] = (Collector(store), Emptier(store), *store.workers)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Handle | None = None
        self._next_at = 0.0
        store.on_change(self._changed)
        store.kinds.on_change(self._plan)

    def start(self) -> None:
        """From now on, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._plan()

    def close(self) -> None:
        """Stops the periodic run."""
        self._loop = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _changed(self, _resource: Resource, _change: StoredChange) -> None:
        self._plan()

    def _plan(self) -> None:
        """Sees to it that the next turn comes when it is due."""
        if self._loop is None:
            return
        due = min((due for due in (worker.due for worker in self._workers) if due is not None), default=None)
        if due is None or (self._next is not None and self._next_at <= due):
            return
        if self._next is not None:
            self._next.cancel()
        wait_s = due - self._clock.wall_s() if due else 0.0
        self._next = self._loop.call_later(wait_s, self._turn) if wait_s > 0 else self._loop.call_soon(self._turn)
        self._next_at = due

    def _turn(self) -> None:
        self._next = None
        now = self._clock.wall_s()
        for worker in self._workers:
            try:
                worker.work(now, Portion())
            except Exception as error:
                _log.error("The housekeeping of the API server failed", error=error, traceback=traceback.format_exc())
        self._plan()
