"""Threads for work on disks, a few for each driver: a file system that hangs keeps none from the volumes of others."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from mooring.base.log import logger

_log = logger(__name__)

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 30.0


class Threads:
    """Pools by driver name."""

    def __init__(self) -> None:
        self._pools: dict[str, DaemonPool] = {}
        self._left: dict[str, set[asyncio.Future[Any]]] = {}

    async def run(
        self, driver: str, work: Callable[..., T], *args: Any, limit_s: float | None = WAIT_S, about: str = ""
    ) -> T:
        """Returns and raises as the work does. TimeoutError after limit_s: the thread is left to itself, for nothing
        can end it.

        about: a volume, or a volume in a pod; what was left to itself comes to its end before anything else is done
        about the same.
        """
        pool = self._pools.get(driver)
        if pool is None:
            pool = self._pools[driver] = DaemonPool(THREADS, f"node/{driver}")
        async with asyncio.timeout(limit_s):
            if (left := self._left.get(about)) is not None:
                await asyncio.wait(left)
            doing = asyncio.get_running_loop().run_in_executor(pool, work, *args)
            try:
                await asyncio.wait([doing])
            except asyncio.CancelledError:
                self._leave(about, doing)
                raise
        return doing.result()

    def _leave(self, about: str, doing: asyncio.Future[Any]) -> None:
        """Leave the work to itself: only what comes next about the volume waits for it."""
        self._left.setdefault(about, set()).add(doing)

        def ended(doing: asyncio.Future[Any]) -> None:
            if not doing.cancelled() and (error := doing.exception()) is not None:
                _log.error(
                    "Work on a volume's files that nobody waited for any more has failed", error=error, volume=about
                )
            self._left[about].discard(doing)
            if not self._left[about]:
                del self._left[about]

        doing.add_done_callback(ended)

    def close(self) -> None:
        """Waits for nothing."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


class DaemonPool(Executor):
    """A pool whose threads the process does not wait for when it ends, as it would for those of a
    ThreadPoolExecutor.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads_count = 0

    def submit(self, work: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Called from one thread only."""
        future: Future[T] = Future()
        if self._threads_count < self._threads_max:
            self._start_thread()
        self._jobs.put((future, lambda: work(*args, **options)))
        return future

    def _start_thread(self) -> None:
        """Raises RuntimeError where the system gives none, and there is none yet."""
        name = f"{self._name}-{self._threads_count + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:
            if not self._threads_count:
                raise
        else:
            self._threads_count += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End each thread after its job. wait: not supported."""
        for _ in range(self._threads_count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            if future.set_running_or_notify_cancel():
                _settle(future, work)
            del job, future, work  # what it worked on is not kept until the next job


def _settle(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        answer = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(answer)
