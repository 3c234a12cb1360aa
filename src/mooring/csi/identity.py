"""Two calls of CSI's Identity service, without protobuf: all that livenessprobe and the registrar ask a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.csi.call_counts import CallObserver
from mooring.csi.driver_socket import DriverSocket
from mooring.csi.errors import CANCELED_TEXT, DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.fields import Malformed, fields_of, text_of

_log = logger(__name__)

A = TypeVar("A")

_SERVICE: Final = "csi.v1.Identity"
_NAME: Final = 1  # of GetPluginInfoResponse
_READY: Final = 1  # of ProbeResponse, a BoolValue
_VALUE: Final = 1  # of a BoolValue


class Identity:
    """socket: of a driver that is connected, or will be. metrics: None counts nothing. Each call raises DriverError."""

    def __init__(self, socket: DriverSocket, *, clock: Clock, metrics: CallObserver | None = None) -> None:
        self.socket = socket
        self._clock, self._metrics = clock, metrics

    async def name(self, timeout_s: float) -> str:
        """The driver's, as GetPluginInfo gives it; perhaps ""."""
        return await self._call("GetPluginInfo", name_in, timeout_s)

    async def is_ready(self, timeout_s: float) -> bool:
        """False when the driver's Probe says that it is not; a driver that does not say is ready."""
        return await self._call("Probe", is_ready_in, timeout_s)

    async def _call(self, name: str, read: Callable[[bytes], A], timeout_s: float) -> A:
        path = f"/{_SERVICE}/{name}"
        _log.info(5, "GRPC call", method=path, request="{}")
        started = self._clock.now()
        try:
            answer = _read(read, await self.socket.send(path, b"", timeout_s), f"csi.v1.{name}Response")
        except DriverError as error:
            self._ended(path, started, error.code, None, error)
            raise
        except asyncio.CancelledError:
            self._ended(path, started, Code.CANCELED, None, DriverError(Code.CANCELED, CANCELED_TEXT))
            raise
        self._ended(path, started, Code.OK, answer, None)
        return answer

    def _ended(self, path: str, started: Instant, code: int, answer: object, error: DriverError | None) -> None:
        if self._metrics is not None:
            self._metrics.observe(path, code, self._clock.now() - started)
        _log.info(5, "GRPC response", method=path, answer=answer, err=str(error) if error else None)


def name_in(message: bytes) -> str:
    """The name in a GetPluginInfoResponse. Raises Malformed."""
    name = ""
    for number, value in fields_of(message):
        if number == _NAME and isinstance(value, bytes):
            name = text_of(value)
    return name


def is_ready_in(message: bytes) -> bool:
    """True for a ProbeResponse that reports ready, or does not say. Raises Malformed."""
    is_said, is_ready = False, False
    for number, value in fields_of(message):
        if number == _READY and isinstance(value, bytes):
            is_said = True
            for inner, ready in fields_of(value):
                if inner == _VALUE and isinstance(ready, int):
                    is_ready = bool(ready)
    return is_ready or not is_said


def _read(read: Callable[[bytes], A], message: bytes, kind: str) -> A:
    """Raises DriverError."""
    try:
        return read(message)
    except Malformed:
        raise DriverError(Code.INTERNAL, f"the driver's answer is no {kind}", answered=True) from None
