"""A state's changes reach the disk before any response, many in one write.

Changing is synchronous (`put`), so the next caller builds on it at once. `flushed` returns when the disk has all
changes so far: the first waiter writes for all. Every response waits first, reads too: none reveals a change that a
kill could undo.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from mooring.base.log import logger
from mooring.csi.errors import DriverError
from mooring.driver.hostpath.state import State
from mooring.wire.grpc.codes import Code

_log = logger(__name__)


class _Batch:
    """The changes that travel in one write, and how it ended."""

    def __init__(self) -> None:
        self.waiting = False  # something was put, and no write has taken it
        self.error: OSError | None = None


class StateJournal:
    """The newest state, and its way to the disk. state: what is on the disk now; write: blocks until the disk has it,
    OSError if not.
    """

    def __init__(self, state: State, write: Callable[[State], None]) -> None:
        self._on_disk = state
        self._state = state
        self._write = write
        self._writing = asyncio.Lock()
        self._batch = _Batch()
        self._facts: Callable[[State], State] = lambda found: found

    def keep(self, facts: Callable[[State], State]) -> None:
        """facts: puts into a state what has happened on the disk all the same, whatever was undone."""
        self._facts = facts

    @property
    def saved(self) -> State:
        """The state that the disk has."""
        return self._on_disk

    @property
    def state(self) -> State:
        """The newest state. It may not be on disk yet: wait for `flushed` before revealing it."""
        return self._state

    def put(self, state: State) -> None:
        """Makes this the newest state."""
        self._state = state
        self._batch.waiting = True

    async def flushed(self) -> None:
        """Returns once all changes so far are on disk. Cancelled, it lets a write that has begun finish.

        Raises DriverError when the disk refused it: all changes since the last good write are undone then, for
        everybody.
        """
        batch = self._batch
        async with self._writing:
            if batch.waiting:
                await self._write_batch()
        if batch.error is not None:
            full = batch.error.errno in (errno.ENOSPC, errno.EDQUOT)
            code = Code.RESOURCE_EXHAUSTED if full else Code.INTERNAL
            raise DriverError(code, f"the driver could not save its state: {batch.error.strerror}")

    async def _write_batch(self) -> None:
        batch, state = self._batch, self._state
        self._batch = _Batch()
        batch.waiting = False
        work = asyncio.get_running_loop().run_in_executor(None, self._write, state)
        cancelled = await _ended(work)
        failure = work.exception()
        if failure is None:
            self._on_disk = state
        elif isinstance(failure, OSError):
            self._undo(batch, failure)
        else:
            raise failure
        if cancelled is not None:
            raise cancelled

    def _undo(self, batch: _Batch, failure: OSError) -> None:
        """Back to what the disk has. Records put while the write ran build on the undone change, so they go too."""
        _log.error("Saving the state failed", error=failure)
        batch.error = self._batch.error = failure
        self._batch.waiting = False
        self._batch = _Batch()
        self._state = self._facts(self._on_disk)
        self._batch.waiting = self._state != self._on_disk


async def _ended(work: asyncio.Future[None]) -> asyncio.CancelledError | None:
    """Waits for work that can't be stopped; gives the cancellation that came meanwhile."""
    cancelled = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
