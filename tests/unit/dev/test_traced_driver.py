"""A driver whose calls are told: what comes each second is told once."""

from __future__ import annotations

import io
from pathlib import Path

from mooring.base.clock import LoopClock
from mooring.conform.watched import Breaches, WatchedDriver
from mooring.csi.capabilities import DriverInfo
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.introduction import asked_again
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.dev.traced import TracedDriver
from mooring.driver.sdk import Plugin
from mooring.driver.server import serving


class Slow(Plugin):
    """Gets ready at its third Probe."""

    name = "slow.csi.test"
    vendor_version = "1"
    probes = 0

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        self.probes += 1
        return csi.ProbeResponse(ready={"value": self.probes > 2})


async def test_a_driver_that_is_not_ready_is_told_once_and_its_readiness_too(tmp_path: Path) -> None:
    clock, stream = LoopClock(), io.StringIO()
    story, breaches = Story(PlainScreen(stream), clock), Breaches(lambda _: None, sees_mounts=False)
    async with serving(Slow(), str(tmp_path / "s"), grace_s=0.1):
        driver = TracedDriver(str(tmp_path / "s"), "driver", story, breaches=breaches, where="", clock=clock)
        await driver.connect(5)
        for _ in range(3):
            await driver.probe(csi.ProbeRequest(), Call(5))
        await driver.close()
    told = [line.split("→")[2].split("(")[0].strip() for line in stream.getvalue().splitlines()]
    assert ["not ready, asked again each second", "value=true"] == told


class Liar(Plugin):
    """Says that a volume is deleted, and lists it; and that it can tell its capacity."""

    name = "liar.csi.test"
    vendor_version = "1"

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        rpc = csi.ControllerServiceCapability.RPC
        types = (rpc.CREATE_DELETE_VOLUME, rpc.LIST_VOLUMES, rpc.GET_CAPACITY)
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc={"type": one}) for one in types]
        )

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        raise NotImplementedError

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        return csi.DeleteVolumeResponse()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        if not request.starting_token:
            return csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "a"}}], next_token="1")
        return csi.ListVolumesResponse(entries=[{"volume": {"volume_id": "b"}}])


async def test_a_deleted_volume_that_is_still_listed_is_told(tmp_path: Path) -> None:
    clock, told = LoopClock(), list[str]()
    story, breaches = (
        Story(PlainScreen(io.StringIO()), clock),
        Breaches(lambda one: told.append(one.line), sees_mounts=False, repeats=True),
    )
    async with serving(Liar(), str(tmp_path / "s"), grace_s=0.1):
        driver = TracedDriver(str(tmp_path / "s"), "driver", story, breaches=breaches, where="", clock=clock)
        await driver.connect(5)
        await driver.controller_get_capabilities(csi.ControllerGetCapabilitiesRequest(), Call(5))
        await driver.delete_volume(csi.DeleteVolumeRequest(volume_id="b"), Call(5))
        await driver.close()
    assert ["CSI605 ListVolumes of volume 'b': DeleteVolume has answered OK, and the volume is still listed"] == told


async def test_a_capability_that_is_not_served_is_told_at_the_start(tmp_path: Path) -> None:
    clock, told = LoopClock(), list[str]()
    breaches = Breaches(lambda one: told.append(one.line), sees_mounts=False)
    async with serving(Liar(), str(tmp_path / "s"), grace_s=0.1):
        capacity = csi.ControllerServiceCapability.RPC.GET_CAPACITY
        info = DriverInfo("liar.csi.test", "1", frozenset(), frozenset(), frozenset({capacity}))
        await asked_again(WatchedDriver(str(tmp_path / "s"), watch=breaches.watch(), clock=clock), info, 5)
    assert ["CSI105 GetCapacity: the driver advertises GET_CAPACITY, and answers Unimplemented"] == told
