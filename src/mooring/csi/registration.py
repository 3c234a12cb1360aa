"""The kubelet's registration service (package `pluginregistration`): its two calls, for the plugin that serves and for
its caller.

Source: kubernetes/kubelet, pkg/apis/pluginregistration/v1. The plugin is the server; the kubelet finds its socket and
calls. Both sides speak gRPC without a library, which a registrar would carry for two calls a day.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Self, TypeVar

from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.errors import RpcError
from mooring.wire.grpc.fields import Malformed, fields_of, flag, text, text_of
from mooring.wire.grpc.link import Link
from mooring.wire.grpc.server import Method

SERVICE: Final = "pluginregistration.Registration"
CSI_PLUGIN: Final = "CSIPlugin"
"""`PluginInfo.type` of CSI drivers."""

_NOTHING: Final = b""
"""InfoRequest and RegistrationStatusResponse: messages without fields."""


@dataclasses.dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin's answer about itself. endpoint: its service's socket on the host."""

    type: str = ""
    name: str = ""
    endpoint: str = ""
    supported_versions: tuple[str, ...] = ()

    def message(self) -> bytes:
        once = (self.type, self.name, self.endpoint)
        versions = (_repeated(4, version) for version in self.supported_versions)
        return b"".join((*(text(number, value) for number, value in enumerate(once, start=1)), *versions))

    @classmethod
    def of(cls, message: bytes) -> Self:
        """Raises Malformed."""
        texts: dict[int, str] = {}
        versions: list[str] = []
        for number, value in fields_of(message):
            if number == 4 and isinstance(value, bytes):
                versions.append(text_of(value))
            elif isinstance(value, bytes) and number < 4:
                texts[number] = text_of(value)
        return cls(texts.get(1, ""), texts.get(2, ""), texts.get(3, ""), tuple(versions))


@dataclasses.dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The kubelet's word. error: its reason where it has not registered the plugin."""

    plugin_registered: bool = False
    error: str = ""

    def message(self) -> bytes:
        return flag(1, self.plugin_registered) + text(2, self.error)

    @classmethod
    def of(cls, message: bytes) -> Self:
        """Raises Malformed."""
        is_registered, error = False, ""
        for number, value in fields_of(message):
            if number == 1 and isinstance(value, int):
                is_registered = bool(value)
            elif number == 2 and isinstance(value, bytes):
                error = text_of(value)
        return cls(is_registered, error)


GetInfo = Callable[[], PluginInfo]
Notify = Callable[[RegistrationStatus], Awaitable[None]]

M = TypeVar("M")


def methods(get_info: GetInfo, notify: Notify) -> Mapping[str, Method]:
    """The service, for a server. notify: what NotifyRegistrationStatus is handed to."""

    async def info(body: bytes) -> bytes:
        _read(_empty, body, "the request is no pluginregistration.InfoRequest")
        return get_info().message()

    async def status(body: bytes) -> bytes:
        await notify(_read(RegistrationStatus.of, body, "the request is no pluginregistration.RegistrationStatus"))
        return _NOTHING

    return {f"/{SERVICE}/GetInfo": info, f"/{SERVICE}/NotifyRegistrationStatus": status}


class Registration:
    """A plugin's registration socket, as the kubelet sees it: one connection, made at the first call, and anew when it
    was lost.

    Every method raises DriverError; a call past its deadline raises DeadlineExceeded. One call after the other.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._link: Link | None = None

    async def get_info(self, timeout_s: float) -> PluginInfo:
        """The plugin's information about itself. timeout_s: for the connection and the answer together."""
        answer = await self._call("GetInfo", _NOTHING, timeout_s)
        return _read(PluginInfo.of, answer, "the answer to GetInfo is no pluginregistration.PluginInfo")

    async def notify(self, *, registered: bool, error: str = "", timeout_s: float) -> None:
        """Tells the plugin whether it was registered, and why not."""
        answer = await self._call(
            "NotifyRegistrationStatus", RegistrationStatus(registered, error).message(), timeout_s
        )
        _read(
            _empty, answer, "the answer to NotifyRegistrationStatus is no pluginregistration.RegistrationStatusResponse"
        )

    async def close(self) -> None:
        """Ends the connection."""
        if self._link is not None:
            self._link.close()

    async def _call(self, name: str, message: bytes, timeout_s: float) -> bytes:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        if self._link is None or not self._link.is_open:
            self._link = await _dialed(self._path, timeout_s)
        left_s = max(ends_at - loop.time(), 0.001)
        answer = await self._link.call(f"/{SERVICE}/{name}", message, left_s)
        if answer.code != Code.OK:
            raise DriverError(answer.code, answer.text, answered=answer.answered)
        return answer.payload or b""


async def _dialed(path: str, timeout_s: float) -> Link:
    """Raises DriverError."""
    try:
        return await dial(path, timeout_s)
    except RpcError as error:
        raise DriverError(error.code, error.message) from None


def _repeated(number: int, value: str) -> bytes:
    """An entry of a list of strings, which may be empty."""
    return text(number, value) or bytes((number << 3 | 2, 0))


def _empty(message: bytes) -> None:
    """A message without fields of ours. Raises Malformed."""
    for _ in fields_of(message):
        pass


def _read(read: Callable[[bytes], M], body: bytes, wrong: str) -> M:
    """Raises DriverError (Internal)."""
    try:
        return read(body)
    except Malformed:
        raise DriverError(Code.INTERNAL, wrong) from None
