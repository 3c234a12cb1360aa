"""The calls to a driver under test, and what the book makes of them where the plug-in itself is the cause."""

from __future__ import annotations

import asyncio
import io

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call, Driver
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.dev.screen import PlainScreen
from mooring.dev.story import Story
from mooring.testing.driver_calls import DriverCalls
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import LOST_TEXT
from tests.support.virtual_loop import in_virtual_time

pytestmark = in_virtual_time


class Table:
    """Calls of a driver's controller, and how each ends."""

    def __init__(self) -> None:
        clock = LoopClock()
        self.calls = DriverCalls(clock, Story(PlainScreen(io.StringIO()), clock), clock.now)
        self.ends: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> asyncio.Task[csi.ControllerGetCapabilitiesResponse]:
        async def send(*_: object) -> csi.ControllerGetCapabilitiesResponse:
            await self.ends
            raise DriverError(Code.UNAVAILABLE, LOST_TEXT)

        request = csi.ControllerGetCapabilitiesRequest()
        return asyncio.create_task(self.calls.make(Driver.controller_get_capabilities, request, Call(10), "", send))

    async def lost(self, call: asyncio.Task[csi.ControllerGetCapabilitiesResponse]) -> list[str]:
        """The rules that its loss breaks."""
        self.ends.set_result(None)
        with pytest.raises(DriverError):
            await call
        return [breach.rule.number for breach in self.calls.breaches]


async def test_a_connection_that_the_driver_breaks_is_its_fault() -> None:
    table = Table()
    assert ["CSI707"] == await table.lost(table.begin())


async def test_a_connection_that_breaks_since_we_kill_the_process_is_none() -> None:
    table = Table()
    call = table.begin()
    await asyncio.sleep(0)
    with table.calls.killing(""):
        assert [] == await table.lost(call)


async def test_nor_is_one_whose_loss_is_seen_later() -> None:
    table = Table()
    with table.calls.killing(""):
        call = table.begin()
        await asyncio.sleep(0)
    assert [] == await table.lost(call)


async def test_a_kill_elsewhere_explains_nothing() -> None:
    table = Table()
    call = table.begin()
    await asyncio.sleep(0)
    with table.calls.killing("n1"):
        pass
    assert ["CSI707"] == await table.lost(call)
