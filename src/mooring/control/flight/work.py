"""A program's work with its recorder."""

from __future__ import annotations

import dataclasses
from typing import Any

from mooring.control.flight.ports import RecordedClock, RecordedCluster, RecordedRandom
from mooring.control.flight.recorder import Recorder
from mooring.control.manager import Work
from mooring.control.order import Order, ordered
from mooring.control.runtime import Runtime


def recorded(runtime: Runtime, recorder: Recorder) -> Runtime:
    """The same ports, with the recorder beside them."""
    return dataclasses.replace(
        runtime,
        cluster=RecordedCluster(runtime.cluster, recorder),
        clock=RecordedClock(runtime.clock, recorder),
        randomness=RecordedRandom(runtime.randomness, recorder),
    )


class OrderedWork:
    """A work whose steps an order hears, or directs."""

    def __init__(self, work: Work, order: Order) -> None:
        self.work, self.order = work, order

    @property
    def has_synced(self) -> bool:
        return self.work.has_synced

    @property
    def obstacle(self) -> str:
        return self.work.obstacle

    async def run(self) -> None:
        """As of the work; the order is that of all its tasks."""
        with ordered(self.order):
            await self.work.run()

    async def drain(self, timeout_s: float) -> bool:
        if isinstance(self.order, Recorder):
            self.order.drained()
        return await self.work.drain(timeout_s)

    def driver_returned(self) -> None:
        """The driver was away and is back; a work without a driver is never told."""
        work: Any = self.work
        if isinstance(self.order, Recorder):
            self.order.returned()
        work.driver_returned()
