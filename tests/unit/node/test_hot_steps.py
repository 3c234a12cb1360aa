"""A step that the node takes again and again, though it went well: our slip, which the driver must not pay for."""

from __future__ import annotations

import pytest

from mooring.node.volumes.state.actual import Device, VolumeState
from mooring.node.volumes.state.desired import PodUse
from mooring.node.volumes.steps.file_system import FileSystemSteps
from tests.support.node_driver import PUBLISH, STAGE
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.node.volume_world import VolumesWorld, world

__all__ = ["world"]


@in_virtual_time
@each_row("takes_s", [0.0, 0.5], fresh=[world])
async def test_a_step_that_is_forgotten_is_held_back_and_named(
    world: VolumesWorld, takes_s: float, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = FileSystemSteps.stage

    async def forgotten(steps: FileSystemSteps, state: VolumeState, use: PodUse) -> None:
        await world.clock.sleep(takes_s)
        await stage(steps, state, use)
        state.device = Device.ABSENT

    monkeypatch.setattr(FileSystemSteps, "stage", forgotten)
    async with world.agent():
        await world.pod(await world.volume())
        await world.settle(100.0)
    assert 3 < len(world.driver.made(STAGE)) < 60
    assert not world.driver.made(PUBLISH)
    assert 1 == sum("again and again" in message for message in caplog.messages)
