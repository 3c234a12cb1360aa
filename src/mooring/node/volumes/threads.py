"""Threads for work on a driver's folders: a few for each driver, so that a mount that hangs holds up its own driver's work alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 30.0


class Threads:
    """Pools by driver name."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}

    async def run(self, driver: str, work: Callable[..., T], *args: Any, limit_s: float | None = WAIT_S) -> T:
        """What the work returns, or raises. TimeoutError after limit_s: the thread is left to itself, for nothing can end it."""
        pool = self._pools.get(driver)
        if pool is None:
            pool = self._pools[driver] = ThreadPoolExecutor(THREADS, thread_name_prefix=f"node/{driver}")
        async with asyncio.timeout(limit_s):
            return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    def close(self) -> None:
        """Waits for nothing."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
