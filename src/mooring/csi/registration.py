"""The kubelet's registration service (package `pluginregistration`): its two calls, for the plugin that serves and for its caller.

Source: kubernetes/kubelet, pkg/apis/pluginregistration/v1. The plugin is the server; the kubelet finds its socket and calls. Both sides
speak gRPC without a library, which a registrar would carry for two calls a day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from mooring.csi.errors import DriverError
from mooring.csi.proto import pluginregistration_pb2 as registration
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.errors import RpcError
from mooring.wire.grpc.link import Link
from mooring.wire.grpc.server import Method

SERVICE: Final = "pluginregistration.Registration"
CSI_PLUGIN: Final = "CSIPlugin"
"""`PluginInfo.type` of CSI drivers."""

GetInfo = Callable[[], registration.PluginInfo]
Notify = Callable[[registration.RegistrationStatus], Awaitable[None]]

M = TypeVar("M", bound=Message)


def methods(get_info: GetInfo, notify: Notify) -> Mapping[str, Method]:
    """The service, for a server. notify: what NotifyRegistrationStatus is handed to."""

    async def info(body: bytes) -> bytes:
        _read(registration.InfoRequest, body, "the request")
        return get_info().SerializeToString()

    async def status(body: bytes) -> bytes:
        await notify(_read(registration.RegistrationStatus, body, "the request"))
        return registration.RegistrationStatusResponse().SerializeToString()

    return {f"/{SERVICE}/GetInfo": info, f"/{SERVICE}/NotifyRegistrationStatus": status}


class Registration:
    """A plugin's registration socket, as the kubelet sees it: one connection, made at the first call, and anew when it was lost.

    Every method raises DriverError; a call past its deadline raises DeadlineExceeded. One call after the other.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._link: Link | None = None

    async def get_info(self, timeout_s: float) -> registration.PluginInfo:
        """The plugin's information about itself. timeout_s: for the connection and the answer together."""
        return await self._call("GetInfo", registration.InfoRequest(), registration.PluginInfo, timeout_s)

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        """Tells the plugin whether it was registered, and why not."""
        status = registration.RegistrationStatus(plugin_registered=registered, error=error)
        await self._call("NotifyRegistrationStatus", status, registration.RegistrationStatusResponse, timeout_s)

    async def close(self) -> None:
        """Ends the connection."""
        if self._link is not None:
            self._link.close()

    async def _call(self, name: str, request: Message, response_type: type[M], timeout_s: float) -> M:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        if self._link is None or not self._link.is_open:
            self._link = await _dialed(self._path, timeout_s)
        left_s = max(ends_at - loop.time(), 0.001)
        answer = await self._link.call(f"/{SERVICE}/{name}", request.SerializeToString(), left_s)
        if answer.code != Code.OK:
            raise DriverError(answer.code, answer.text, answered=answer.answered)
        return _read(response_type, answer.payload or b"", f"the answer to {name}")


async def _dialed(path: str, timeout_s: float) -> Link:
    """Raises DriverError."""
    try:
        return await dial(path, timeout_s)
    except RpcError as error:
        raise DriverError(error.code, error.message) from None


def _read(kind: type[M], body: bytes, what: str) -> M:
    """Raises DriverError (Internal)."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise DriverError(Code.INTERNAL, f"{what} is no {kind.DESCRIPTOR.full_name}") from None
