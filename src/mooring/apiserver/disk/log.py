"""Group commit: writes a store's changes into its file.

The store reports each change at once; one thread writes. The changes of one turn of the loop are committed together: a
write and all its consequences last, or none. During a commit the next turns gather for the next one: nobody waits for
more than the commit in flight and his own, and a hundred writers share one sync of the disk.

A refused commit is final: memory is ahead of the file then, and nobody may ever see that. From that moment every answer
is the error, and the process must end (`failed`). The next start shows the last commit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Final

from mooring.apiserver.disk.file import ObjectFile
from mooring.apiserver.disk.rows import DiskRow, StorageFailed, kind_of
from mooring.apiserver.resource import Resource
from mooring.apiserver.store import ObjectStore
from mooring.apiserver.table import StoredChange
from mooring.base.log import logger
from mooring.kube.errors import ServerError

_log = logger(__name__)

_CHANGES_MAX: Final = 1024
"""Changes in one commit, unless a single turn has made more."""

Written = tuple[Resource, StoredChange]


class Log:
    """`Durability` by a file. Made in the loop that it serves; the store must be as the file has it."""

    def __init__(self, store: ObjectStore, file: ObjectFile) -> None:
        assert store.version == file.version, "what the file doesn't know would never be committed"
        self.committed = file.version
        self.failure = ""
        self._failed = asyncio.Event()
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._turn: list[Written] = []
        self._changes: queue.SimpleQueue[list[Written] | None] = queue.SimpleQueue()
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._listeners: list[Callable[[Resource], None]] = []
        self._thread = threading.Thread(target=self._write, name="apiserver/log", daemon=True)
        self._thread.start()
        store.on_change(self._changed)

    async def wait_committed(self, version: int) -> None:
        if version <= self.committed:
            return
        if self.failure:
            raise self._refusal()
        done = self._loop.create_future()
        self._waiting.append((version, done))  # (versions only grow, so the first in line is the first to be served)
        await done

    async def failed(self) -> None:
        await self._failed.wait()

    def on_commit(self, listener: Callable[[Resource], None]) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        """Returns when everything is committed and the file closed. Later writes are refused: close the servers
        first.
        """
        self._hand_over()
        self._changes.put(None)
        await asyncio.shield(self._loop.run_in_executor(None, self._thread.join))
        self.failure = self.failure or "the file is closed"

    def _changed(self, resource: Resource, change: StoredChange) -> None:
        if not self._turn:
            self._loop.call_soon(self._hand_over)
        self._turn.append((resource, change))

    def _hand_over(self) -> None:
        if self._turn:
            self._changes.put(self._turn)
            self._turn = []

    def _committed(self, version: int, resources: tuple[Resource, ...]) -> None:
        self.committed = version
        while self._waiting and self._waiting[0][0] <= version:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_result(None)
        for resource in resources:
            for listener in self._listeners:
                listener(resource)

    def _give_up(self, error: Exception, trace: str) -> None:
        self.failure = str(error) if isinstance(error, StorageFailed) else f"{type(error).__name__}: {error}"
        self._failed.set()
        _log.error("The objects could not be saved; nothing is answered from now on", error=error, traceback=trace)
        while self._waiting:
            _, done = self._waiting.popleft()
            if not done.done():
                done.set_exception(self._refusal())

    def _refusal(self) -> ServerError:
        return ServerError(f"the server could not save its objects and ends: {self.failure}", reason="InternalError")

    # in the thread, which leaves all telling to the loop

    def _write(self) -> None:
        try:
            while batch := self._next_batch():
                self._commit(batch)
            self._file.close()
        except Exception as error:
            trace = "" if isinstance(error, StorageFailed) else traceback.format_exc()
            self._file.abandon()
            self._loop.call_soon_threadsafe(self._give_up, error, trace)

    def _next_batch(self) -> list[Written]:
        """Waits for a change and returns it with all that are queued; [] once the log is closed."""
        batch: list[Written] = []
        try:
            while len(batch) < _CHANGES_MAX:
                turn = self._changes.get_nowait() if batch else self._changes.get()
                if turn is None:
                    self._changes.put(None)  # for the next look, after this batch
                    break
                batch += turn
        except queue.Empty:
            pass
        return batch

    def _commit(self, batch: list[Written]) -> None:
        self._file.append([_entry(resource, change) for resource, change in batch])
        resources = {resource.storage: resource for resource, _ in batch}
        self._loop.call_soon_threadsafe(self._committed, batch[-1][1].rv, tuple(resources.values()))
        if self._file.is_long:
            self._file.fold()


def _entry(resource: Resource, change: StoredChange) -> DiskRow:
    key = change.key
    return DiskRow(
        kind_of(resource),
        key.namespace,
        key.name,
        change.rv,
        change.at,
        None if change.new is None else change.new.body,
    )
