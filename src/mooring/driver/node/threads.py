"""Blocking work of the node: in threads of its own, so that a tool that hangs stops neither the loop nor the writing of the state."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

THREADS_MAX: Final = 16


class Threads:
    """The threads, and a lock for each volume: nodes share a volume's loop device and its file."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="driver/node")
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._users: defaultdict[str, int] = defaultdict(int)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of the work. A caller that gives up is told so only after it: a mount that is half made has no owner."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        cancelled = None
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError as error:
                cancelled = error
        result = running.result()
        if cancelled is not None:
            raise cancelled
        return result

    @asynccontextmanager
    async def alone_with(self, volume_id: str) -> AsyncGenerator[None, None]:
        """One at a time for each volume, whatever its node."""
        self._users[volume_id] += 1
        try:
            async with self._locks[volume_id]:
                yield
        finally:
            self._users[volume_id] -= 1
            if not self._users[volume_id]:
                del self._users[volume_id], self._locks[volume_id]
