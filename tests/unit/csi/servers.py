"""Drivers for the tests of the client: on a real gRPC server, with real time; and what is in the log."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from mooring.base.clock import LoopClock
from mooring.csi.client import Client
from mooring.csi.driver import RPCS_BY_PATH, Call
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.wire_driver import WireDriver

STATUS = {status.value[0]: status for status in grpc.StatusCode}
CALL = Call(5.0)


class Plugin:
    """A whole driver that is content with everything. Attributes set on it replace its methods."""

    name = "csi.test"
    vendor_version = "1.0"
    plugin: tuple[int, ...] = (csi.PluginCapability.Service.CONTROLLER_SERVICE,)
    controller: tuple[int, ...] = (csi.ControllerServiceCapability.RPC.PUBLISH_UNPUBLISH_VOLUME,)

    def __init__(self, **values: Any) -> None:
        self.calls: list[str] = []
        vars(self).update(values)

    async def get_plugin_info(self, request: Any) -> Any:
        self.calls.append("GetPluginInfo")
        return csi.GetPluginInfoResponse(name=self.name, vendor_version=self.vendor_version)

    async def get_plugin_capabilities(self, request: Any) -> Any:
        self.calls.append("GetPluginCapabilities")
        return csi.GetPluginCapabilitiesResponse(capabilities=[{"service": {"type": value}} for value in self.plugin])

    async def probe(self, request: Any) -> Any:
        self.calls.append("Probe")
        return csi.ProbeResponse(ready={"value": True})

    async def controller_get_capabilities(self, request: Any) -> Any:
        self.calls.append("ControllerGetCapabilities")
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[{"rpc": {"type": value}} for value in self.controller]
        )

    async def controller_publish_volume(self, request: Any) -> Any:
        self.calls.append("ControllerPublishVolume")
        return csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/x"})


def failing(error: Exception) -> Any:
    """A method that raises."""

    async def method(request: Any) -> Any:
        raise error

    return method


def answering(response: Any) -> Any:
    """A method that gives this answer."""

    async def method(request: Any) -> Any:
        return response

    return method


def hanging(started: asyncio.Event, cancelled: asyncio.Event) -> Any:
    """A method that never ends by itself, and tells when it is begun and cancelled."""

    async def method(request: Any) -> Any:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    return method


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, plugin: object) -> None:
        self._plugin = plugin
        self.time_left_s: list[float] = []

    def service(self, handler_call_details: Any) -> Any:
        rpc = RPCS_BY_PATH.get(handler_call_details.method)
        if rpc is None:
            return None

        async def handle(request: Any, context: Any) -> Any:
            method = getattr(self._plugin, rpc.attribute, None)
            self.time_left_s.append(context.time_remaining())
            if method is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"method {rpc.name} not implemented")
            try:
                return await method(request)
            except DriverError as error:
                await context.abort(STATUS[error.code], error.message)

        return grpc.unary_unary_rpc_method_handler(
            handle, rpc.request_type.FromString, rpc.response_type.SerializeToString
        )


@asynccontextmanager
async def serving(path: Path, plugin: object, options: Sequence[tuple[str, int]] = ()) -> AsyncIterator[list[float]]:
    """The plugin answers on grpcio's server on the socket as long as the block runs; then its connections break at
    once.

    Gives the list of what the callers say that they will wait, in seconds.
    """
    server = grpc.aio.server(options=[("grpc.max_send_message_length", -1), *options])
    handlers = _Handlers(plugin)
    server.add_generic_rpc_handlers((handlers,))
    server.add_insecure_port(f"unix://{path}")
    await server.start()
    try:
        yield handlers.time_left_s
    finally:
        await server.stop(None)


@asynccontextmanager
async def connected(path: Path, **options: Any) -> AsyncIterator[WireDriver]:
    """A client of a server that is there."""
    driver = WireDriver(str(path), clock=LoopClock(), **options)
    await driver.connect(5.0)
    try:
        yield driver
    finally:
        await driver.close()


class Log:
    """What was logged since, as JSON records or as raw text."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def records(self, message: str = "") -> list[dict[str, Any]]:
        """The records of the JSON form with this message, all for ""."""
        found = [json.loads(line) for line in self.text.splitlines()]
        return [record for record in found if message in ("", record["msg"])]


@asynccontextmanager
async def over_wire(path: Path, plugin: object, **options: Any) -> AsyncIterator[Client]:
    """A client of the plugin on grpcio's server, with a socket between."""
    async with serving(path, plugin), connected(path, **options) as driver:
        yield driver


@asynccontextmanager
async def in_process(path: Path, plugin: object, **options: Any) -> AsyncIterator[Client]:
    """A client of the plugin, with nothing between."""
    yield InProcessDriver(plugin, clock=LoopClock(), **options)
