"""Queues with their workers: what every part of the binder runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from mooring.base.chance import Chance
from mooring.base.clock import Clock
from mooring.base.log import logger
from mooring.base.metrics import Metrics
from mooring.kube.errors import ApiError
from mooring.kube.queue import BackOff, QueueMetrics, WorkQueue

_log = logger(__name__)
K = TypeVar("K", bound=Hashable)

BACK_OFF: Final = BackOff(0.1, 60.0)


class Workers(Generic[K]):
    """One queue, and how many at once work on its keys. handle: raises ApiError for what is to be tried again."""

    def __init__(
        self,
        name: str,
        count: int,
        handle: Callable[[K], Awaitable[None]],
        *,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        back_off: BackOff = BACK_OFF,
    ) -> None:
        self.queue: WorkQueue[K] = WorkQueue(name, clock=clock, chance=chance, backoff=back_off, metrics=metrics.once(QueueMetrics))
        self._count, self._handle = count, handle

    async def run(self) -> None:
        """Works until the queue is closed."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._count):
                group.create_task(self.queue.work(self._try), name=f"binder/{self.queue.name}/{number}")

    async def _try(self, key: K) -> None:
        try:
            await self._handle(key)
        except ApiError as error:
            _log.error("could not be done, trying again", error=error, key=str(key), retry_in_s=round(self.queue.retry(key), 3))
