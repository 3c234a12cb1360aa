"""The driver's threads, one at a time: each runs until it stops for a while, or ends, and the loop goes on only
then.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, Final

from tests.sim.course import BoundedLoop

_own: Final = threading.local()


class _Thread:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._goes, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._context, self._work = contextvars.copy_context(), work
        self.done: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        _own.thread = self
        self._goes.acquire()
        try:
            self.done = self._context.run(self._work)
        except BaseException as error:
            self.error = error
        self.has_ended = True
        self._stands.release()

    def go(self) -> None:
        """Until it stops, or has ended."""
        self._goes.release()
        self._stands.acquire()

    def finish(self) -> None:
        while not self.has_ended:
            self.go()

    def stop(self) -> None:
        """Called in the thread itself."""
        self._stands.release()
        self._goes.acquire()


def stop() -> None:
    """Stops the thread that this runs in, for a while."""
    if (thread := getattr(_own, "thread", None)) is not None:
        thread.stop()


class ThreadLoop(BoundedLoop):
    """pause_s: gives how long a thread stands each time."""

    pause_s: Callable[[], float]

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._running: set[asyncio.Task[None]] = set()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        return self.begin(lambda: func(*args))

    def begin(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """As a thread of its own. Nothing of it has an effect once the life is over, and it is ended then."""
        answer, thread = self.create_future(), _Thread(work)
        task = self.create_task(self._live(thread), name="driver/thread", context=contextvars.Context())
        self._running.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            thread.finish()
            if not answer.done() and thread.error is None:
                answer.set_result(thread.done)
            elif not answer.done():
                assert thread.error is not None
                answer.set_exception(thread.error)

        task.add_done_callback(ended)
        return answer

    async def _live(self, thread: _Thread) -> None:
        while not thread.has_ended:
            await asyncio.sleep(self.pause_s())
            thread.go()
