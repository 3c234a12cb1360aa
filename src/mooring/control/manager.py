"""Caches, controllers and what runs beside them, as one: started together, and ended in good order.

    manager = Manager(caches, controller, another)
    await manager.run()             until cancelled, or until drained

The order: the parts beside the caches start with them; once the caches are filled the first looks are taken, and the
controllers work; when they drain, they take no new key, and when the last one has ended, everything beside them
finishes its own work (events are sent, say) and is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from mooring.base.errors import first_of
from mooring.base.log import logger
from mooring.control.caches import Caches
from mooring.control.events import EventRecorder
from mooring.control.queue import WorkerGroup

_log = logger(__name__)

DRAIN_S_MAX: Final = 20.0
"""How long the end of a program waits for the work in hand."""

FINISH_S_MAX: Final = 2.0
"""How long the end waits for the parts beside the controllers: events that are not sent yet, intents not yet closed."""


class Worker(Protocol):
    """A controller, a part that has several, or a part that runs beside them."""

    async def run(self) -> None:
        """Works until cancelled, or until drained."""
        ...

    async def drain(self, timeout_s: float) -> object:
        """Begins nothing new, lets the work in hand end, timeout_s at the most."""
        ...


class Work(Worker, Protocol):
    """The work of a program while it may act: one object for one term of leadership.

    A standby has the object of its next term, and lets it `follow`; then `run` begins with caches that are filled.
    """

    async def follow(self) -> None:
        """Follows the API server, and does nothing else, until cancelled; it goes on beside `run`."""
        ...

    async def caught_up(self) -> None:
        """Returns once caches that are followed have shown all that the API server has now; at once where none is
        followed yet.
        """
        ...

    async def drain(self, timeout_s: float) -> bool:
        """Begin nothing new and let the rest end, as a Worker does. False when timeout_s was too short."""
        ...

    @property
    def has_synced(self) -> bool:
        """True once its caches are filled."""
        ...

    @property
    def obstacle(self) -> str:
        """The obstacle to filling or following its caches, "" for none that is known."""
        ...


async def run_until(stop: asyncio.Event, work: Work, timeout_s: float = DRAIN_S_MAX) -> None:
    """Works until `stop` is set and the work in hand has ended, for timeout_s after that at the most. Raises the error
    of the work.
    """
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(work.run(), name="work/run")
            stopping = group.create_task(stop.wait(), name="work/stop")
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if stop.is_set() and not (work.has_synced and await work.drain(timeout_s)):
                running.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from None  # its own traceback says it all


class Loop:
    """A coroutine that never ends, as something that runs beside controllers."""

    def __init__(self, run: Callable[[], Awaitable[None]]) -> None:
        self._run = run

    async def run(self) -> None:
        await self._run()

    async def drain(self, timeout_s: float) -> bool:
        """There is nothing to finish."""
        return True


class Idle:
    """A worker that does nothing, in place of controllers: a program does not end for want of work."""

    def __init__(self) -> None:
        self._is_to_end = asyncio.Event()

    async def run(self) -> None:
        """Waits until cancelled, or until drained."""
        await self._is_to_end.wait()

    async def drain(self, timeout_s: float) -> bool:
        self._is_to_end.set()
        return True


class Manager:
    """The whole of a program: one object for one term of leadership.

    workers: controllers, and parts made of them. prepare: awaited before the controllers work, while the caches are
    being filled. first_looks: with them, the handlers are not told of each object that is there. They are awaited once
    the caches are filled, one after the other, before the controllers work: they learn what decisions read beside the
    caches, and put all keys that need a look into backlogs (`Controller.add_later`). So the first look at a large
    cluster is in nobody's way. events: the recorder that the workers use; it runs as long as the caches.
    """

    def __init__(
        self,
        caches: Caches,
        *workers: Worker,
        prepare: Callable[[], Awaitable[None]] | None = None,
        first_looks: Sequence[Callable[[], Awaitable[None]]] = (),
        events: EventRecorder | None = None,
    ) -> None:
        self.caches = caches
        self._workers, self._prepare, self._first_looks = workers, prepare, first_looks
        self._beside: dict[str, Worker] = {} if events is None else {"events": events}
        self._work = WorkerGroup()

    def beside(self, name: str, what: Worker) -> None:
        """Runs this as long as the caches run. name: its task's."""
        assert name not in self._beside
        self._beside[name] = what

    @property
    def has_synced(self) -> bool:
        """True while every cache follows the API server and has listed everything: once it works, until it ends."""
        return self.caches.has_synced

    @property
    def obstacle(self) -> str:
        """The obstacle to following the API server, "" for none that is known."""
        return self.caches.obstacle

    async def follow(self) -> None:
        """Fills the caches of a standby, until cancelled."""
        await self.caches.follow(at_once=True)

    async def caught_up(self) -> None:
        """Returns once the caches of a standby lack nothing that the API server has now."""
        await self.caches.caught_up()

    async def run(self) -> None:
        """Works until cancelled, or until drained. Raises the error of a worker, or of a part beside them."""
        try:
            await self._run()
        finally:
            self.caches.end()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            helpers = self.caches.start(group, telling=not self._first_looks)
            helpers += [group.create_task(what.run(), name=name) for name, what in self._beside.items()]
            if self._prepare is not None:
                await self._prepare()
            if self._first_looks:
                await self.caches.filled()
                self.caches.begin_looks()
                for look in self._first_looks:
                    await look()
            else:
                await self.caches.synced()
            _log.info(2, "caches synced")
            async with self._work.workers() as workers:
                for number, worker in enumerate(self._workers):
                    workers.create_task(worker.run(), name=f"{getattr(worker, 'name', type(worker).__name__)}/{number}")
            await asyncio.gather(*(what.drain(FINISH_S_MAX) for what in self._beside.values()))
            for helper in helpers:
                helper.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Takes no new work, lets the work in hand end and be stored; then run() returns. False when timeout_s was too
        short.
        """
        draining = asyncio.gather(*(worker.drain(timeout_s) for worker in self._workers))
        _, is_drained = await asyncio.gather(draining, self._work.drained(timeout_s))
        return is_drained


class Managers:
    """Several managers as one, each on a share of the same caches; it is also the work of a term.

    caches: the shared ones.
    """

    def __init__(self, caches: Caches, members: Mapping[str, Work]) -> None:
        self._caches, self.members = caches, members
        self._is_followed = False

    @property
    def has_synced(self) -> bool:
        """True while each has the caches that it needs."""
        return all(member.has_synced for member in self.members.values())

    @property
    def obstacle(self) -> str:
        """The obstacles of all, each once."""
        return "; ".join(dict.fromkeys(filter(None, (member.obstacle for member in self.members.values()))))

    async def follow(self) -> None:
        """Fills the caches of a standby, until cancelled."""
        self._is_followed = True
        await self._caches.follow(at_once=True)

    async def caught_up(self) -> None:
        """Returns once the caches of a standby lack nothing that the API server has now."""
        await asyncio.gather(*(member.caught_up() for member in self.members.values()))

    async def run(self) -> None:
        """Works until cancelled, or until all have drained. Raises the error of any."""
        async with asyncio.TaskGroup() as group:
            following = [] if self._is_followed else [group.create_task(self._caches.follow(), name="caches/follow")]
            async with asyncio.TaskGroup() as working:
                for name, member in self.members.items():
                    working.create_task(member.run(), name=name)
            for task in following:
                task.cancel()

    async def drain(self, timeout_s: float) -> bool:
        """Drains all at once. False when timeout_s was too short for one."""
        return all(await asyncio.gather(*(member.drain(timeout_s) for member in self.members.values())))
