"""A driver that answers garbage, or breaks off: an error in words at the start or at the object; work goes on when it
is well again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from mooring.csi.driver import RPCS_BY_PATH
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from tests.e2e.processes import ProcessTarget, embedded_server, on_server
from tests.support.scripted_driver import PUBLISH, RPC, UNPUBLISH, ScriptedDriver

pytestmark = pytest.mark.slow

SOON = "--retry-interval-start=100ms"
GARBAGE = b"\xff\xff\xff\xffgarbage\x00"
STATUSES = {status.value[0]: status for status in grpc.StatusCode}


class GarbledDriver(grpc.GenericRpcHandler):
    """A scripted driver behind a server that sends what it is told in place of answers. instead: bytes by the RPC's
    name.
    """

    def __init__(self, driver: ScriptedDriver) -> None:
        self._driver = driver
        self.instead: dict[str, bytes] = {}

    def service(self, handler_call_details: Any) -> Any:
        rpc = RPCS_BY_PATH.get(handler_call_details.method)
        method = None if rpc is None else getattr(self._driver, rpc.attribute, None)
        if rpc is None or method is None:
            return None

        async def answer(request: Any, context: Any) -> bytes:
            if rpc.name in self.instead:
                return self.instead[rpc.name]
            try:
                message: bytes = (await method(request)).SerializeToString()
                return message
            except DriverError as error:
                await context.abort(STATUSES[error.code], error.message)
                raise

        return grpc.unary_unary_rpc_method_handler(answer, rpc.request_type.FromString, None)


@contextlib.asynccontextmanager
async def a_target(folder: Path) -> AsyncIterator[tuple[ProcessTarget, GarbledDriver]]:
    async with asyncio.timeout(60), embedded_server(folder) as config, on_server(config) as target:
        await target.stop_driver()
        garbled = GarbledDriver(target.driver)
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers((garbled,))
        server.add_insecure_port(f"unix://{target.socket}")
        await server.start()
        try:
            yield target, garbled
        finally:
            await server.stop(None)


@pytest.mark.parametrize("rpc", ["Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities"])
async def test_garbage_at_the_start_ends_it(tmp_path: Path, rpc: str) -> None:
    async with a_target(tmp_path) as (target, garbled):
        garbled.instead[rpc] = GARBAGE
        async with target.attaching() as attacher:
            assert 1 == await attacher.exit_code()
            told = await _line(attacher.log, "CSI driver does not introduce itself")
            assert f"the driver's answer is no csi.v1.{rpc}Response" in told


async def _line(log: str, text: str) -> str:
    found = [line for line in log.splitlines() if text in line]
    assert found, log
    return found[-1]


async def test_a_driver_without_a_name_ends_it(tmp_path: Path) -> None:
    async with a_target(tmp_path) as (target, _):
        target.driver.name = ""
        async with target.attaching() as attacher:
            assert 1 == await attacher.exit_code()
            assert "driver name is empty" in attacher.log


async def test_capabilities_from_another_age_are_passed_over(tmp_path: Path) -> None:
    """Entries that are empty or of a kind unknown today do no harm."""
    async with a_target(tmp_path) as (target, garbled):
        known = csi.ControllerGetCapabilitiesResponse(
            capabilities=[{"rpc": {"type": RPC.PUBLISH_UNPUBLISH_VOLUME}}, {}]
        )
        unknown_number = b"\x0a\x05\x0a\x03\x08\xe7\x07"  # capabilities { rpc { type: 999 } }
        unknown_kind = b"\x0a\x04\xfa\x3e\x01x"  # capabilities { field 1007: "x" }
        garbled.instead["ControllerGetCapabilities"] = known.SerializeToString() + unknown_number + unknown_kind
        async with target.attaching():
            await target.attached(await target.want(await target.volume(), await target.node()))
        assert [PUBLISH] == [call.method for call in target.driver.calls]


@pytest.mark.parametrize("rpc", [PUBLISH, UNPUBLISH])
async def test_garbage_in_place_of_an_answer_is_told_and_asked_again(tmp_path: Path, rpc: str) -> None:
    async with a_target(tmp_path) as (target, garbled):
        field = "attachError" if rpc == PUBLISH else "detachError"
        async with target.attaching(SOON) as attacher:
            node = await target.node()
            if rpc == PUBLISH:
                garbled.instead[rpc] = GARBAGE
            va = await target.want(await target.volume(), node)
            if rpc == UNPUBLISH:
                await target.attached(va)
                garbled.instead[rpc] = GARBAGE
                await target.delete("VolumeAttachment", va)
            error = await target.error(va, field)
            assert (
                f"rpc error: code = Internal desc = the driver's answer is no csi.v1.{rpc}Response" == error["message"]
            )
            garbled.instead.clear()
            if rpc == PUBLISH:
                await target.attached(va)
                await target.delete("VolumeAttachment", va)
            await target.gone("VolumeAttachment", va)
            attacher.assert_alive()
        assert {} == target.left_over()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda: GARBAGE, "the driver's answer is no csi.v1.ListVolumesResponse"),
        (lambda: csi.ListVolumesResponse(next_token="again").SerializeToString(), "the driver repeats a page token"),
    ],
    ids=["garbage", "pages-without-end"],
)
async def test_a_list_of_volumes_that_makes_no_sense_changes_nothing(
    tmp_path: Path, answer: Callable[[], bytes], text: str
) -> None:
    async with a_target(tmp_path) as (target, garbled):
        target.driver.controller = (RPC.PUBLISH_UNPUBLISH_VOLUME, RPC.LIST_VOLUMES, RPC.LIST_VOLUMES_PUBLISHED_NODES)
        garbled.instead["ListVolumes"] = answer()
        async with target.attaching("--reconcile-sync=200ms") as attacher:
            va = await target.want(await target.volume(), await target.node())
            await target.attached(va)
            await attacher.said(text)
            await asyncio.sleep(0.5)  # two more rounds
            assert 1 == len(target.driver.made(PUBLISH))
            await target.detached(va)
            attacher.assert_alive()


async def test_a_driver_that_dies_in_each_call_is_asked_until_it_lives(tmp_path: Path) -> None:
    """The driver takes the call, and breaks its connections: what it did is not known, so it is asked again."""
    async with asyncio.timeout(60), embedded_server(tmp_path) as config, on_server(config) as target:
        gate = target.driver.gate(PUBLISH)
        async with target.attaching(SOON) as attacher:
            pv, node = await target.volume(), await target.node()
            va = await target.want(pv, node)
            for count in (1, 2):
                await target.asked(PUBLISH, count)
                await target.stop_driver()
                error = await target.error(va)
                assert (14, True) == (
                    error["errorCode"],
                    error["message"].startswith("rpc error: code = Unavailable desc = "),
                )
                await target.start_driver()
            gate.set()
            assert "attachError" not in (await target.attached(va))["status"]
            assert {target.node_id(node)} == target.where(pv)
            attacher.assert_alive()
