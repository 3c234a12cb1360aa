"""Asks a driver whether it lives, over one connection that is made anew when it breaks.

Upstream makes a connection for each question; a driver then sees one come and go every few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.base.clock import Clock, Instant
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.address import socket_path, trouble
from mooring.csi.driver import Call
from mooring.csi.errors import DriverError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.socket_driver import SocketDriver
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT, LOST_TEXT

_log = logger(__name__)

NOT_READY: str = "driver responded but is not ready"


class Prober:
    """One driver's health. connect: a driver that is not connected yet. timeout_s: of one question, the connection included."""

    def __init__(self, address: str, connect: Callable[[], SocketDriver], *, clock: Clock, timeout_s: float) -> None:
        self._path, self._new_driver = socket_path(address), connect
        self._clock, self._timeout_s = clock, timeout_s
        self._driver: SocketDriver | None = None
        self._connecting = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        """True while there is a connection to the driver."""
        return self._driver is not None and self._driver.is_connected

    async def introduce(self) -> str:
        """The driver's name, however long it takes to come and to answer. Raises DriverError, and ConfigError for an empty name."""
        driver = await self._connected(None)
        name = (await driver.get_plugin_info(csi.GetPluginInfoRequest(), Call(_WITHOUT_LIMIT_S))).name
        if not name:
            raise ConfigError("driver name is empty")
        return name

    async def health(self) -> tuple[int, str]:
        """HTTP status and text: 200 when the driver says that it is ready, or does not say that it isn't."""
        began = self._clock.now()
        try:
            answer = await self._answer(began)
        except (DriverError, ConfigError) as error:
            _log.error("health check failed", error=error)
            return 500, str(error)
        except TimeoutError:
            reason = trouble(self._path) or DEADLINE_TEXT
            _log.error("health check failed", reason=reason)
            return 500, f"no connection to the CSI driver at {self._path!r}: {reason}"
        if answer.HasField("ready") and not answer.ready.value:
            _log.error(NOT_READY)
            return 500, NOT_READY
        return 200, "ok"

    async def _answer(self, began: Instant) -> csi.ProbeResponse:
        """Asks once more, over a new connection, when the old one turns out to be broken: the driver may have been started anew.

        Raises DriverError, ConfigError and TimeoutError.
        """
        driver = await self._connected(self._left_s(began))
        try:
            return await driver.probe(csi.ProbeRequest(), Call(self._left_s(began)))
        except DriverError as error:
            if error.code != Code.UNAVAILABLE or error.message != LOST_TEXT:
                raise
        await driver.close()
        driver = await self._connected(self._left_s(began))
        return await driver.probe(csi.ProbeRequest(), Call(self._left_s(began)))

    def _left_s(self, began: Instant) -> float:
        return max(0.001, self._timeout_s - (self._clock.now() - began))

    async def close(self) -> None:
        """Ends the connection."""
        if self._driver is not None:
            await self._driver.close()

    async def _connected(self, timeout_s: float | None) -> SocketDriver:
        """The driver, connected. timeout_s: None waits without end. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s), self._connecting:
            if self._driver is None or not self._driver.is_connected:
                await self.close()
                self._driver = self._new_driver()
                await self._driver.connect(_WITHOUT_LIMIT_S)
            return self._driver


_WITHOUT_LIMIT_S = 100 * 365 * 86_400.0
