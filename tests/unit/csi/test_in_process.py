"""A driver without a socket: what is of this road alone. The rest is in test_client.py."""

import asyncio

import pytest

from mooring.base.clock import LoopClock
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.wire.grpc.codes import Code
from tests.support.rows import each_row
from tests.support.virtual_loop import in_virtual_time
from tests.unit.csi.servers import CALL, Plugin, answering, failing


def a_driver(**methods):
    return InProcessDriver(Plugin(**methods), clock=LoopClock())


@in_virtual_time
async def test_deadlines_are_of_the_loops_time():
    driver = a_driver(probe=lambda request: LoopClock().sleep(3600))
    with pytest.raises(DriverError, match="context deadline exceeded"):
        await driver.probe(csi.ProbeRequest(), Call(900))
    assert asyncio.get_running_loop().time() == 900


@in_virtual_time
async def test_an_answer_in_the_nick_of_time_counts():
    async def slow(request):
        await LoopClock().sleep(899.9)
        return csi.ProbeResponse()

    assert await a_driver(probe=slow).probe(csi.ProbeRequest(), Call(900)) == csi.ProbeResponse()


@each_row("kind", [ValueError, TimeoutError, KeyError])
async def test_an_exception_of_the_plugin_is_Unknown_with_its_text(kind, log):
    """As grpcio's and Go's servers have it. A TimeoutError of the plugin's own is not our deadline."""
    kept, error = log(), kind("no such thing")
    with pytest.raises(DriverError) as failed:
        await a_driver(probe=failing(error)).probe(csi.ProbeRequest(), CALL)
    assert (failed.value.code, failed.value.message) == (Code.UNKNOWN, f"{type(error).__name__}: {error}")
    (record,) = kept.records("The driver failed")
    assert "servers.py" in record["traceback"]


@each_row("answer", [None, csi.GetPluginInfoResponse(), "ready"], ids=["none", "of-another-rpc", "text"])
async def test_an_answer_that_is_no_answer_is_Internal(answer):
    with pytest.raises(DriverError) as failed:
        await a_driver(probe=answering(answer)).probe(csi.ProbeRequest(), CALL)
    assert str(failed.value) == "rpc error: code = Internal desc = the driver's answer is no csi.v1.ProbeResponse"


async def test_codes_that_no_list_has_pass():
    """On the wire gRPC's core makes Unknown of them; here they come as they are."""
    with pytest.raises(DriverError) as failed:
        await a_driver(probe=failing(DriverError(77, "from the future"))).probe(csi.ProbeRequest(), CALL)
    assert str(failed.value) == "rpc error: code = Code(77) desc = from the future"
    assert failed.value.final


async def test_it_is_never_lost():
    driver = a_driver()
    await driver.reconnected()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await driver.lost()
