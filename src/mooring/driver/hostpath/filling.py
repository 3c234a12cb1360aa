"""Copies under way, each in a thread: its record says `is_filling` until it ends, and is deleted when it fails. Callers
may come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.driver.hostpath.journal import StateJournal
from mooring.driver.hostpath.state import Snapshot, State, Volume
from mooring.driver.hostpath.statefile import StateFolder
from mooring.mounts.system import ToolFailed
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

COPIES_MAX: Final = 4
"""At once; others wait for their turn."""


Still = Callable[[Path], AbstractContextManager[None]]


class _Stopped(Exception):
    """Raised when the driver stops; the next start deletes partial data."""


class Filling:
    """The copies of one driver, from their beginning to their end. still: keeps others from writing to a file while it
    is copied.
    """

    def __init__(self, journal: StateJournal, folder: StateFolder, still: Still) -> None:
        self._journal = journal
        self._folder = folder
        self._still = still
        self._running: dict[str, asyncio.Future[None]] = {}
        self._ends: dict[
            str, bool
        ] = {}  # of copies of which the disk may not know that they have ended: whether they have succeeded
        journal.keep(self._with_ends)
        self._threads = ThreadPoolExecutor(COPIES_MAX, thread_name_prefix="driver/copy")
        self._stop = threading.Event()

    def close(self) -> None:
        """Cancels all copies, within the time of one chunk. They are not resumed."""
        self._stop.set()
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def filled(self, record_id: str) -> None:
        """Returns once the record has its data; cancelled, the copy goes on. Raises DriverError when it failed: the
        record is gone then.
        """
        cancelled = await self._saved()  # the disk knows of the copy before there is any
        copy = self._begun(record_id)
        if cancelled is not None:
            raise cancelled
        if copy is not None:
            await asyncio.wait([copy])
            _raise_failure(copy)

    async def _saved(self) -> asyncio.CancelledError | None:
        """Returns once the disk has all changes; gives the cancellation that came meanwhile, which waits for that.
        Raises DriverError.
        """
        cancelled = None
        while True:
            try:
                await self._journal.flushed()
            except asyncio.CancelledError as error:
                cancelled = error
            except DriverError:
                if cancelled is None:
                    raise
                return cancelled
            else:
                return cancelled

    def _begun(self, record_id: str) -> asyncio.Future[None] | None:
        """The copy that fills this record; None when it has nothing to wait for."""
        record = self._journal.state.owner(record_id)
        if record is None or not record.is_filling:
            return None
        if record_id not in self._running:
            copy = asyncio.get_running_loop().run_in_executor(self._threads, self._copy, record)
            copy.add_done_callback(lambda done: self._ended(record_id, done))
            self._running[record_id] = copy
        return self._running[record_id]

    def _copy(self, record: Volume | Snapshot) -> None:
        """In a thread."""
        with self._still(self._folder.data(record.source_id)) if record.is_file else contextlib.nullcontext():
            self._folder.copy(record.source_id, record.id, record.size_bytes if record.is_file else None, self._check)

    def _check(self) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _ended(self, record_id: str, copy: asyncio.Future[None]) -> None:
        """In the loop, before all waiters. May reach the disk with the next change: until then a restart removes the
        copy.
        """
        del self._running[record_id]
        if copy.cancelled() or isinstance(copy.exception(), _Stopped):
            return
        if copy.exception() is not None:
            _log.error("A copy failed", id=record_id, error=copy.exception())
        unsaved = {record.id for record in self._journal.saved.filling()}
        self._ends = {one: is_whole for one, is_whole in self._ends.items() if one in unsaved}
        self._ends[record_id] = copy.exception() is None
        self._journal.put(self._with_end(self._journal.state, record_id))

    def _with_ends(self, state: State) -> State:
        """A copy that has ended is not begun again: where the end was undone with a write that failed, it stands in the
        state once more.
        """
        for record in tuple(state.filling()):
            if record.id in self._ends:
                state = self._with_end(state, record.id)
        return state

    def _with_end(self, state: State, record_id: str) -> State:
        if self._ends[record_id]:
            return state.filled(record_id)
        state = state.without(record_id)
        is_left = os.path.lexists(
            self._folder.data(record_id)
        )  # what could not be removed either goes at the next start
        return state if is_left else state.forgotten(record_id)


def _raise_failure(copy: asyncio.Future[None]) -> None:
    failure = None if copy.cancelled() else copy.exception()
    if copy.cancelled() or isinstance(failure, _Stopped):
        raise DriverError(Code.UNAVAILABLE, "the driver ends, and the copy with it: try again")
    if isinstance(failure, OSError):
        full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
        code = Code.RESOURCE_EXHAUSTED if full else Code.INTERNAL
        raise DriverError(code, f"the data can't be copied: {failure.strerror}")
    if isinstance(failure, ToolFailed):
        raise DriverError(Code.INTERNAL, f"the data can't be copied: {failure}")
    if failure is not None:
        raise failure
