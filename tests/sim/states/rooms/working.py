"""What the rooms of workloads have in common: a node that runs every pod, and controllers that begin anew."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from mooring.cluster.workloads.controller import Workloads
from tests.sim.states.world import StateWorld
from tests.support.eager_node import EagerNode

READY_S, END_S, LOOK_S = 2.0, 3.0, 1.0
_STILL_S: Final = 900.0
"""Longer than anything takes in these rooms."""


async def until_still(node: EagerNode) -> None:
    """It looks every second, and then no more."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STILL_S):
            await node.run()
    await asyncio.Event().wait()


async def controllers(world: StateWorld, ends_s: float | None) -> None:
    """ends_s: when the first process ends, None for never. The second one begins at that moment, and remembers
    nothing.
    """
    if ends_s is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ends_s):
                await Workloads(world.runtime).run()
    await Workloads(world.runtime).run()
