"""How the steps of volumes run: each in a task of its own, its work on the disk in threads of its driver, mounts within a limit.

A driver that hangs keeps no worker, and no thread, from the volumes of others. The number of tasks has the bound that matters: one for
each volume on the node, and one for each pod that a volume is being taken from. Each driver has a few threads. Where the node's owner sets
a limit to the mounts of a driver, they go first that come first.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from typing import Any, Final, TypeVar

from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.control.draining import WorkerGroup

_log = logger(__name__)

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 30.0


class Threads:
    """Pools by driver name."""

    def __init__(self) -> None:
        self._pools: dict[str, DaemonPool] = {}
        self._left: dict[str, set[asyncio.Future[Any]]] = {}

    async def run(self, driver: str, work: Callable[..., T], *args: Any, limit_s: float | None = WAIT_S, about: str = "") -> T:
        """What the work returns, or raises. TimeoutError after limit_s: the thread is left to itself, for nothing can end it.

        about: a volume, or a volume in a pod; what was left to itself comes to its end before anything else is done about the same.
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
        """Nobody waits for the work any more, but what comes next about the volume."""
        self._left.setdefault(about, set()).add(doing)

        def ended(doing: asyncio.Future[Any]) -> None:
            if not doing.cancelled() and (error := doing.exception()) is not None:
                _log.error("Work on a volume's files that nobody waited for any more has failed", error=error, volume=about)
            self._left[about].discard(doing)
            if not self._left[about]:
                del self._left[about]

        doing.add_done_callback(ended)

    def close(self) -> None:
        """Waits for nothing."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)


class DaemonPool(Executor):
    """A pool whose threads the process does not wait for when it ends, as it would for those of a ThreadPoolExecutor."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max, self._name = threads_max, name
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads_count = 0

    def submit(self, work: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Called from one thread only."""
        future: Future[T] = Future()
        self._jobs.put((future, lambda: work(*args, **options)))
        if self._threads_count < self._threads_max:
            self._threads_count += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads_count}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Each thread ends after its job. wait: not supported."""
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


class StepTasks:
    """failed: called with the volume whose step has ended in a way that nobody expected."""

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed = failed
        self._workers = WorkerGroup()
        self._group: asyncio.TaskGroup | None = None
        self._is_to_end = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled, or until drained and the last step has ended."""
        async with self._workers.workers() as group:
            self._group = group
            await self._is_to_end.wait()

    async def drain(self, timeout_s: float) -> bool:
        """Begins no new step, lets those under way end. False when timeout_s was too short."""
        self._is_to_end.set()
        return await self._workers.drained(timeout_s)

    @property
    def is_open(self) -> bool:
        """False before the start, and once the agent ends."""
        return self._group is not None and not self._is_to_end.is_set()

    def begin(self, unique: str, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Carries out a step of a volume. name: of the step. Steps may begin. Raises CancelledError where the agent is being cancelled."""
        assert self._group is not None
        work = self._carry_out(unique, step)
        try:
            self._group.create_task(work, name=f"node/step/{name}/{unique}")
        except RuntimeError:  # the group takes no task any more: who asks for one is about to be cancelled, too
            work.close()
            raise asyncio.CancelledError from None

    async def _carry_out(self, unique: str, step: Callable[[], Awaitable[None]]) -> None:
        try:
            await step()
        except Exception as error:  # must not end the steps of other volumes
            trace = Lines("".join(traceback.format_exception(error)))
            _log.error("failed unexpectedly, trying again", error=error, volume=unique, traceback=trace)
            self._failed(unique)


class MountSlots:
    """limit: for each driver, 0 for none. wake: called with the name of a volume that may find a free slot."""

    def __init__(self, limit: int, wake: Callable[[str], None]) -> None:
        self._limit, self._wake = limit, wake
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, None]] = {}  # by driver: volumes, in the order in which they came

    def has_free(self, driver: str) -> bool:
        return not self._limit or self._busy[driver] < self._limit

    def wait(self, driver: str, unique: str) -> None:
        """The volume is woken when it is its turn."""
        self._waiting.setdefault(driver, {})[unique] = None

    def take(self, driver: str) -> None:
        self._busy[driver] += 1

    def give_back(self, driver: str) -> None:
        self._busy[driver] -= 1

    def pass_on(self) -> None:
        """Wakes as many volumes as there are free slots. To be called whenever a volume was dealt with: it may not have needed its slot."""
        for driver, waiting in self._waiting.items():
            for unique in list(waiting)[: max(0, self._limit - self._busy[driver])]:
                del waiting[unique]
                self._wake(unique)
