"""The driver's Probe as an HTTP answer, over a real socket."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.base.clock import LoopClock
from mooring.base.errors import ConfigError
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver
from mooring.driver.server import serving
from mooring.sidecars.livenessprobe.probe import NOT_READY, Prober
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import LOST_TEXT
from tests.unit.node.plugin_world import real_time


class ProbedDriver:
    name = "d1"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer or csi.ProbeResponse()

    async def get_plugin_info(self, request: Any) -> csi.GetPluginInfoResponse:
        return csi.GetPluginInfoResponse(name=self.name)

    async def probe(self, request: Any) -> csi.ProbeResponse:
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "hangs":
            await asyncio.get_running_loop().create_future()
        answer: csi.ProbeResponse = self.answer
        return answer


Opens = Callable[..., AbstractAsyncContextManager[tuple[Path, Prober]]]


@pytest.fixture
def a_prober() -> Opens:
    """Opens a prober and a place for its driver's socket: a_prober(timeout_s=2.0)."""

    @asynccontextmanager
    async def opened(timeout_s: float = 2.0) -> AsyncIterator[tuple[Path, Prober]]:
        with tempfile.TemporaryDirectory(prefix="liv-") as folder:
            path, clock = Path(folder) / "csi.sock", LoopClock()
            prober = Prober(str(path), lambda: WireDriver(str(path), clock=clock), clock=clock, timeout_s=timeout_s)
            try:
                yield path, prober
            finally:
                await prober.close()

    return opened


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (csi.ProbeResponse(), 200, "ok"),
        (csi.ProbeResponse(ready={"value": True}), 200, "ok"),
        (csi.ProbeResponse(ready={"value": False}), 500, NOT_READY),
        (DriverError(Code.FAILED_PRECONDITION, "no disk"), 500, "no disk"),
    ],
)
@real_time
async def test_LIV1_the_answer_is_the_drivers(a_prober: Opens, answer: Any, code: int, text: str) -> None:
    async with a_prober() as (path, prober), serving(ProbedDriver(answer), str(path), grace_s=0.0):
        found = await prober.health()
        assert (code, True) == (found[0], text in found[1])


@real_time
async def test_LIV1_a_driver_that_hangs_is_told_within_the_time_limit(a_prober: Opens) -> None:
    async with a_prober(0.2) as (path, prober), serving(ProbedDriver("hangs"), str(path), grace_s=0.0):
        began = time.monotonic()
        assert 500 == (await prober.health())[0]
        assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(("text", "asked", "code"), [(LOST_TEXT, 2, 200), ("I am not well", 1, 500)])
@real_time
async def test_a_driver_is_asked_once_more_only_when_the_connection_was_broken(a_prober: Opens, text: str, asked: int, code: int) -> None:
    class Unavailable(ProbedDriver):
        asked = 0

        async def probe(self, request: Any) -> csi.ProbeResponse:
            self.asked += 1
            if self.asked == 1:
                raise DriverError(Code.UNAVAILABLE, text)
            return await super().probe(request)

    driver = Unavailable()
    async with a_prober() as (path, prober), serving(driver, str(path), grace_s=0.0):
        assert (code, asked) == ((await prober.health())[0], driver.asked)


@real_time
async def test_LIV1_a_driver_that_is_away_is_told_with_its_socket_and_found_again(a_prober: Opens) -> None:
    async with a_prober(0.2) as (path, prober):
        code, text = await prober.health()
        assert (500, True) == (code, str(path) in text)
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            assert (200, "ok") == await prober.health()
        assert 500 == (await prober.health())[0]
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            while (await prober.health())[0] != 200:  # noqa: ASYNC110 - the driver is another party
                await asyncio.sleep(0.01)


@real_time
async def test_LIV2_a_driver_is_waited_for(a_prober: Opens) -> None:
    async with a_prober() as (path, prober), asyncio.TaskGroup() as group:
        name = group.create_task(prober.introduce(), name="introduce")
        await asyncio.sleep(0.1)
        assert (False, False) == (name.done(), prober.is_connected)
        async with serving(ProbedDriver(), str(path), grace_s=0.0):
            assert ("d1", True) == (await name, prober.is_connected)


@real_time
async def test_a_driver_without_a_name_is_refused(a_prober: Opens) -> None:
    driver = ProbedDriver()
    driver.name = ""
    async with a_prober() as (path, prober), serving(driver, str(path), grace_s=0.0):
        with pytest.raises(ConfigError, match="driver name is empty"):
            await prober.introduce()
