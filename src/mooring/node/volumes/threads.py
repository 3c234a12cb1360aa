"""Threads for work on a driver's folders: a few for each driver, so that a mount that hangs holds up its own driver's work alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from mooring.base.log import logger

_log = logger(__name__)

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 30.0


class Threads:
    """Pools by driver name."""

    def __init__(self) -> None:
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._left: dict[str, asyncio.Future[Any]] = {}

    async def run(self, driver: str, work: Callable[..., T], *args: Any, limit_s: float | None = WAIT_S, about: str = "") -> T:
        """What the work returns, or raises. TimeoutError after limit_s: the thread is left to itself, for nothing can end it.

        about: the volume's name; what was left to itself comes to its end before anything else is done about the same volume.
        """
        pool = self._pools.get(driver)
        if pool is None:
            pool = self._pools[driver] = ThreadPoolExecutor(THREADS, thread_name_prefix=f"node/{driver}")
        async with asyncio.timeout(limit_s):
            if (left := self._left.get(about)) is not None:
                await asyncio.wait([left])
            doing = asyncio.get_running_loop().run_in_executor(pool, work, *args)
            try:
                await asyncio.wait([doing])
            except asyncio.CancelledError:
                self._leave(about, doing)
                raise
        return doing.result()

    def _leave(self, about: str, doing: asyncio.Future[Any]) -> None:
        self._left[about] = doing

        def ended(doing: asyncio.Future[Any]) -> None:
            if not doing.cancelled() and (error := doing.exception()) is not None:
                _log.error("Work on a volume's files that nobody waited for any more has failed", error=error, volume=about)
            if self._left.get(about) is doing:
                del self._left[about]

        doing.add_done_callback(ended)

    def close(self) -> None:
        """Waits for nothing."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
