"""A driver knows how long its caller waits, and a caller that waits for ever does not keep a volume locked."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call, time_left_s
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.sdk import Plugin
from mooring.driver.server import serving
from mooring.wire.grpc.codes import Code
from tests.unit.driver.calls import a_creation, refused


class Asking(Plugin):
    """Notes the time that is left for each CreateVolume."""

    name = "asking.example.com"

    def __init__(self) -> None:
        self.left: list[float | None] = []
        self.stuck = False

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self.left.append(time_left_s())
        if self.stuck:
            await asyncio.Event().wait()
        return csi.CreateVolumeResponse(volume={"volume_id": "v"})

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        raise TimeoutError("of the backend's own")


async def test_a_call_knows_when_its_caller_gives_up() -> None:
    plugin = Asking()
    await InProcessDriver(plugin, clock=LoopClock()).create_volume(a_creation(), Call(timeout_s=50))
    await plugin.create_volume(a_creation())
    assert time_left_s() is None
    first, second = plugin.left
    assert first is not None
    assert second is not None
    assert 0 < first <= 50 < second <= Plugin.patience_s  # type: ignore[operator]


async def test_the_deadline_comes_over_the_socket(tmp_path: Path) -> None:
    plugin = Asking()
    async with serving(plugin, str(tmp_path / "csi.sock")) as path:
        driver = WireDriver(str(path), clock=LoopClock())
        await driver.connect(10)
        await driver.create_volume(a_creation(), Call(timeout_s=50))
        await driver.close()
    (left,) = plugin.left
    assert left is not None
    assert 0 < left <= 50.5


async def test_a_caller_without_a_deadline_is_answered_when_the_drivers_patience_ends() -> None:
    plugin = Asking()
    plugin.stuck, plugin.patience_s = True, 0.01
    await refused(plugin.create_volume(a_creation()), Code.DEADLINE_EXCEEDED, "CreateVolume took longer than 0.01 s")
    plugin.stuck = False
    await plugin.create_volume(a_creation())  # not locked any more


async def test_a_caller_with_a_deadline_has_its_own() -> None:
    plugin = Asking()
    plugin.patience_s = 0.0
    await InProcessDriver(plugin, clock=LoopClock()).create_volume(a_creation(), Call(timeout_s=50))


async def test_a_time_out_of_the_backends_tells_that_it_may_still_be_at_work() -> None:
    await refused(Asking().delete_volume(csi.DeleteVolumeRequest(volume_id="v")), Code.DEADLINE_EXCEEDED, "TimeoutErr")


async def test_without_patience_there_is_no_end() -> None:
    plugin = Asking()
    plugin.patience_s = None
    await plugin.create_volume(a_creation())
    assert [None] == plugin.left
