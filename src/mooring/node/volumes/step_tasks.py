"""The steps that are under way, each in a task of its own: a driver that hangs keeps no worker from the volumes of others.

Their number has the bound that matters: one for each volume on the node, and one for each pod that a volume is being taken from.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable

from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.control.draining import WorkerGroup

_log = logger(__name__)


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
