"""A driver that is a Python object, in place of a socket: it may go, in the middle of its calls, and another object
come in its place.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.in_process import InProcessDriver
from mooring.csi.metrics import CallMetrics
from mooring.testing.driver_calls import DriverCalls
from mooring.wire.grpc.codes import Code

GONE: Final = "connection refused: the driver does not run"


class Endpoint:
    """Where a driver answers. plugin: None while it does not."""

    def __init__(self) -> None:
        self.plugin: object | None = None
        self.comings = 0
        self._changed = asyncio.Event()
        self._under_way: set[asyncio.Timeout] = set()

    def comes(self, plugin: object) -> None:
        self.plugin, self.comings = plugin, self.comings + 1
        self._wake()

    def goes(self) -> None:
        """Calls under way end, wherever they are."""
        self.plugin = None
        for limit in self._under_way:
            limit.reschedule(0.0)
        self._wake()

    async def changed(self) -> None:
        """Returns when the driver comes or goes."""
        await self._changed.wait()

    async def answer(self, method: Any) -> Any:
        """The result of a call, made here. Raises DriverError where the driver goes meanwhile."""
        try:
            async with asyncio.timeout(None) as limit:
                self._under_way.add(limit)
                return await method
        except TimeoutError:
            raise DriverError(Code.UNAVAILABLE, "the driver's process ended") from None
        finally:
            self._under_way.discard(limit)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class EndpointClient(InProcessDriver):
    """One connection to it, as over a socket. where: the node, "" for the controller."""

    def __init__(
        self, endpoint: Endpoint, calls: DriverCalls, where: str, *, clock: Clock, metrics: CallMetrics | None = None
    ) -> None:
        super().__init__(endpoint.plugin, clock=clock, metrics=metrics)
        self._endpoint, self._calls, self._where = endpoint, calls, where
        self._seen = endpoint.comings

    @property
    def is_connected(self) -> bool:
        return self._endpoint.plugin is not None and self._endpoint.comings == self._seen

    async def connect(self, timeout_s: float, advice: str) -> None:
        """Raises ConfigError."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.reconnected()
        except TimeoutError:
            raise ConfigError(f"no connection to the CSI driver within {timeout_s:g} s; {advice}") from None

    async def lost(self) -> None:
        while self.is_connected:
            await self._endpoint.changed()

    async def reconnected(self) -> None:
        while self._endpoint.plugin is None:
            await self._endpoint.changed()
        self._plugin, self._seen = self._endpoint.plugin, self._endpoint.comings

    async def close(self) -> None:
        """Nothing is held."""

    async def close_after_calls(self) -> None:
        """As `close`."""

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        return await self._calls.make(rpc, request, call, self._where, self._answered)

    async def _answered(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if not self.is_connected:
            raise DriverError(Code.UNAVAILABLE, GONE, unsent=True)
        answer: A = await self._endpoint.answer(super()._send(rpc, request, call))
        return answer
