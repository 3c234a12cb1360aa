"""What an agent hands to a thread, done at once in the loop's own thread, in virtual time: by the kernel that
`kernel.py` plays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NoReturn

from mooring.base.randomness import Random
from tests.sim.course import BoundedLoop
from tests.sim.mortal import Mortal
from tests.sim.node.kernel import Kernel, Killed
from tests.sim.node.machine import Machine

HUNG_S_MAX: Final = 90.0
_WALKS_SEED: Final = 1 << 48


class Disk(Kernel):
    """The machine's disk, as one incarnation of its agent uses it."""

    def __init__(self, world: Any, machine: Machine, mortal: Mortal) -> None:
        super().__init__(world, machine, mortal)
        self._walks = Random(_WALKS_SEED + world.plan.seed + mortal.number)

    async def work(self, answer: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        """As a thread: work of a caller that has ended is not begun; what hangs may begin after its caller gave up."""
        await self._mortal.point("before work on the disk")
        if answer.cancelled():
            return
        if self._world.faulty and self._randomness.happens(self._faults.hung):
            self._machine.hung_count += 1
            try:
                await self._world.clock.sleep(self._randomness.uniform(0.0, HUNG_S_MAX))
            finally:
                self._machine.hung_count -= 1
        if not self._mortal.alive:
            return
        try:
            with self._as_kernel():
                done, error = work(), None
        except Killed:
            return
        except Exception as raised:
            done, error = None, raised
        if self._has_walked:
            self._has_walked = False
            await self._world.clock.sleep(self._walks.uniform(0.0, self._world.plan.habits.walk_s))
        await self._mortal.point("after work on the disk")
        if answer.done():
            return
        if error is None:
            answer.set_result(done)
        else:
            answer.set_exception(error)


DISK: Final[ContextVar[Disk]] = ContextVar("disk")
"""Of the agent whose task this is."""


def _no_disk(work: object) -> NoReturn:
    raise AssertionError(f"work for a thread outside of an agent: {work}")


class NodeLoop(BoundedLoop):
    """Hands what is meant for a thread to the disk of the agent that asks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._threads: set[asyncio.Task[None]] = set()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        disk = DISK.get(None)
        if disk is None:
            _no_disk(func)
        answer = self.create_future()
        task = self.create_task(disk.work(answer, lambda: func(*args)), name="disk")
        self._threads.add(task)
        task.add_done_callback(self._threads.discard)
        return answer
