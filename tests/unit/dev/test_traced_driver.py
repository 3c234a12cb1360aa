"""A driver whose calls are told: what comes each second is told once."""

from __future__ import annotations

import io
from pathlib import Path

from mooring.base.clock import LoopClock
from mooring.conform.watched import Breaches
from mooring.csi.driver import Call
from mooring.csi.proto import csi_pb2 as csi
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
