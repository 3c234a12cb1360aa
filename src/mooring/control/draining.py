"""Workers that end in good order: no new work is begun, work in hand comes to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class WorkerGroup:
    """A controller's workers.

    async with workers.workers() as group:
        group.create_task(queue.work(handle))

    It is drained once all of them have ended; their queues are closed first.
    """

    def __init__(self) -> None:
        self._has_begun = False
        self._drained = asyncio.Event()

    @contextlib.asynccontextmanager
    async def workers(self) -> AsyncIterator[asyncio.TaskGroup]:
        """The group to start workers in; the block ends with the last of them."""
        self._has_begun = True
        async with asyncio.TaskGroup() as group:
            yield group
        self._drained.set()

    async def drained(self, timeout_s: float) -> bool:
        """Waits for the end, timeout_s at the most. False when that was too short; True at once when it has not begun."""
        if not self._has_begun:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._drained.wait()
        return self._drained.is_set()
