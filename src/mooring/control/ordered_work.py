"""A program's work in an order, which hears its steps, or directs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.control.manager import Work
from mooring.control.order import Order, ordered


class OrderedWork:
    """make: called in the order, as `run` is."""

    def __init__(self, make: Callable[[], Work], order: Order) -> None:
        self._order = order
        with ordered(order):
            self._work = make()

    @property
    def has_synced(self) -> bool:
        return self._work.has_synced

    @property
    def obstacle(self) -> str:
        return self._work.obstacle

    async def follow(self) -> None:
        """As of the work; the order is that of all its tasks."""
        with ordered(self._order):
            await self._work.follow()

    async def caught_up(self) -> None:
        await self._work.caught_up()

    async def run(self) -> None:
        """As of the work; the order is that of all its tasks."""
        with ordered(self._order):
            await self._work.run()

    async def drain(self, timeout_s: float) -> bool:
        return await self._work.drain(timeout_s)

    def driver_returned(self) -> None:
        """The driver was away and is back; a work without a driver is never told."""
        work: Any = self._work
        work.driver_returned()
