"""From every state of a claim and its volume: the driver is not called twice for one state, and the claim gets on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.csi.proto import csi_pb2 as csi
from tests.support.resizing import (
    INFEASIBLE,
    NODE_INFEASIBLE,
    NODE_PENDING,
    NODE_PROGRESS,
    PROGRESS,
    ResizerWorld,
    ResizingDriver,
)
from tests.support.scripted_driver import RPC
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time
STEPS = (None, PROGRESS, INFEASIBLE, NODE_PENDING, NODE_PROGRESS, NODE_INFEASIBLE)
SIZES = [one for one in itertools.product((1, 2), (None, 1, 2, 3, 5), (1, 2, 3, 5)) if one[0] <= one[2]]
"""What the claim has, what it was allocated, what its volume has; it asks for 3 GiB."""


class Noting(ResizingDriver):
    """Notes the claim and the volume at each call."""

    world: ResizerWorld

    def __init__(self, **more: Any) -> None:
        super().__init__((RPC.EXPAND_VOLUME,), **more)
        self.seen: list[Any] = []

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        self.seen.append((request.capacity_range.required_bytes, *await self.world.state()))
        return await super().controller_expand_volume(request)


@pytest.mark.parametrize("node_step", [True, False], ids=["node", "controller"])
@pytest.mark.parametrize("step", STEPS)
async def test_the_driver_is_not_called_twice_for_one_state(step: str | None, node_step: bool) -> None:
    for cap, alloc, pv in SIZES:
        driver = Noting(node_step=node_step)
        world = driver.world = await ResizerWorld(driver, resync_s=0.0).volume(3, cap, alloc, step, pv)
        async with world.resizing():
            await world.settle(20)
        assert len(set(driver.seen)) == len(driver.seen) <= 3, (cap, alloc, step, pv, driver.seen)
        assert node_step or step in (NODE_PENDING, NODE_PROGRESS) or (await world.state())[0] in ("3Gi", "5Gi")
