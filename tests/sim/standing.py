"""A process that stands still, as under SIGSTOP: none of its callbacks runs, and when it goes on, all that fell due are
ready at once.

All programs share one loop. What belongs to a process is known by its context: its tasks, its timers, and what waits
for an answer. The loop sets aside what of a stopped one is ready; the world goes on meanwhile: requests that were sent
arrive, calls take effect, and their answers lie ready. So everything that is the world's runs outside of a process: the
tasks of `WorldGroup`, and a line behind `outside`.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mooring.api.meta import Kind
from mooring.base import fence
from mooring.kube.cluster import EVERYTHING, Cluster, Request, Selection, WatchEvent
from mooring.kube.errors import Unreachable
from tests.support.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from tests.sim.line import Line

T = TypeVar("T")

PROCESS: Final[contextvars.ContextVar[object | None]] = contextvars.ContextVar("process", default=None)
"""Whose task this is: an incarnation (`Mortal`), None for the world."""


class StandingLoop(VirtualLoop):
    """A loop on which processes can stand still."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._stopped: dict[object, list[asyncio.Handle]] = {}

    def stop_process(self, process: object) -> None:
        """From the next turn of the loop on, nothing of it runs."""
        self._stopped.setdefault(process, [])

    def resume(self, process: object) -> None:
        """What is ready runs in the next turn, in any order."""
        self._ready.extend(self._stopped.pop(process, ()))

    def resume_all(self) -> None:
        for process in tuple(self._stopped):
            self.resume(process)

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        if not self._stopped:
            return
        handles = list(self._ready)
        self._ready.clear()
        for handle in handles:
            aside = self._stopped.get(handle._context.get(PROCESS))
            (self._ready if aside is None else aside).append(handle)


class WorldGroup(asyncio.TaskGroup):
    """Owns the world's tasks: none of them stands still with the process that caused it, or is held up by its fence."""

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        if context is None and PROCESS.get() is not None:
            context = contextvars.copy_context()
            context.run(PROCESS.set, None)
            context.run(fence._FENCE.set, None)
        return super().create_task(coro, name=name, context=context)

    async def apart(self, work: Callable[[], Awaitable[T]], name: str) -> T:
        """The world's part of what a process does; whoever gives it up ends it. Once the world is being taken down,
        nobody is answered.
        """
        part = _caught(work)
        try:
            task = self.create_task(part, name=name)
        except RuntimeError:
            part.close()
            raise asyncio.CancelledError from None
        try:
            answer, error = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]


async def _caught(work: Callable[[], Awaitable[T]]) -> tuple[T | None, Exception | None]:
    """What it came to: an error is its caller's, and not the group's."""
    try:
        return await work(), None
    except Exception as error:
        return None, error


def outside(line: Line) -> Cluster:
    """The line as a process sees it that may stand still: its requests go on without it once they are sent."""
    return _Outside(line) if line.mortal.may_stand_still else line


class _Outside(Cluster):
    def __init__(self, line: Line) -> None:
        self._line, self._mortal = line, line.mortal

    async def ask(self, request: Request) -> Any:
        await self._mortal.pause()
        if request.writes and (why := fence.closed()):  # no await from here to the sending
            raise Unreachable(f"{request.verb} was not sent: {why}")
        if request.writes:
            self._mortal.sends(f"{request.verb} {request.place}")
        return await self._line.group.apart(lambda: self._line.ask(request), f"line/{request.verb}/{request.place}")

    def watch(
        self, kind: Kind[T], selection: Selection = EVERYTHING, *, resource_version: str, timeout_s: float = 0.0
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Its events lie ready: the server keeps them until they are read."""
        return self._line.watch(kind, selection, resource_version=resource_version, timeout_s=timeout_s)
