"""Time as everybody reads it."""

from __future__ import annotations

import asyncio

from mooring.base.clock import LoopClock, SharedClock


async def test_a_shared_clock_is_the_loops_in_other_threads_too() -> None:
    """B4: Who tells that the event loop is held is in another thread."""
    clock, before = SharedClock(), LoopClock().now()
    assert before <= await asyncio.to_thread(clock.now) <= LoopClock().now()
