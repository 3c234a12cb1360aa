"""A door before a driver: shut while nobody knows whether the driver behind the socket is still the one that was greeted."""

from __future__ import annotations

from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import A, Call, Driver, Q, Rpc


class GatedDriver(Driver):
    """Passes calls on while it is open; begins open. Calls that are under way when it shuts are let run."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._reason: str | None = None

    @property
    def is_open(self) -> bool:
        return self._reason is None

    def shut(self, reason: str) -> None:
        """New calls end at once with Unavailable and this text: nothing was sent."""
        self._reason = reason

    def open(self) -> None:
        self._reason = None

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if self._reason is not None:
            raise DriverError(Code.UNAVAILABLE, self._reason)
        return await self._driver.invoke(rpc, request, call)
