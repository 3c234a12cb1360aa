"""The way from the proxy to the driver: one connection at a time, on which calls go as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mooring.csi.errors import DriverError
from mooring.wire.grpc.dial import dial
from mooring.wire.grpc.errors import RpcError
from mooring.wire.grpc.events import Answered
from mooring.wire.grpc.link import Link

CONNECT_S_MAX: Final = 5.0
FOR_EVER_S: Final = 24 * 3600.0
"""In place of a deadline, for callers that have none: longer than anybody waits."""


class DriverLink:
    """path: of the driver's socket. on_loss: called when a connection has ended, and its last call."""

    def __init__(self, path: str, on_loss: Callable[[], None]) -> None:
        self._path, self._on_loss = path, on_loss
        self._link: Link | None = None
        self._in_flight: dict[Link, int] = {}
        self._dialing = asyncio.Lock()
        self._is_closed = False

    async def ask(self, path: str, message: bytes, left_s: float | None) -> Answered:
        """left_s: until the caller's deadline. Raises DriverError (unsent) where nobody can be reached."""
        link = await self._connected(FOR_EVER_S if left_s is None else left_s)
        self._in_flight[link] += 1
        try:
            return await link.call(path, message, max(FOR_EVER_S if left_s is None else left_s, 0.001))
        finally:
            self._in_flight[link] -= 1
            if link is not self._link:
                self._lost(link)

    async def _connected(self, left_s: float) -> Link:
        async with self._dialing:
            if self._link is None or not self._link.is_open:
                try:
                    link = await dial(self._path, min(CONNECT_S_MAX, max(left_s, 0.001)), self._over)
                except RpcError as error:
                    raise DriverError(error.code, error.message, unsent=True) from None
                self._link = link
                self._in_flight[link] = 0
            return self._link

    def _over(self, link: Link) -> None:
        """It takes no more calls."""
        if link is self._link:
            self._link = None
        if link in self._in_flight:
            self._lost(link)

    def _lost(self, link: Link) -> None:
        if not self._in_flight[link]:
            del self._in_flight[link]
            if not self._is_closed:
                self._on_loss()

    def close(self) -> None:
        self._is_closed = True
        for link in list(self._in_flight):
            link.close()
