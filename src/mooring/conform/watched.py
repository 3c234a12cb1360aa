"""A client of a driver that tells a watcher of each call, as it went over the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mooring.base.clock import Clock
from mooring.conform.sight import Sight
from mooring.csi.book.exchange import Place
from mooring.csi.book.watcher import Watcher
from mooring.csi.client import CallObserver
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.wire_driver import WireDriver

_PATHS: Final = ("target_path", "staging_target_path")


class Watch:
    """watcher: the driver's. where: the node whose calls these are, "" for the controller's. sight: None where nobody can see its paths."""

    def __init__(self, watcher: Watcher, where: str, sight: Sight | None) -> None:
        self._watcher, self._where, self._sight = watcher, where, sight

    def begin(self, rpc: Rpc[Any, Any], request: Any, limit_s: float) -> Watching:
        where = self._where if rpc.service == "Node" else ""
        sight = self._sight if any(getattr(request, path, "") for path in _PATHS) else None
        return Watching(self._watcher, self._watcher.began(rpc, request, where), sight, request, limit_s)

    async def call(self, rpc: Rpc[Q, A], request: Q, call: Call, send: Callable[[Rpc[Q, A], Q, Call], Awaitable[A]]) -> A:
        """What `send` gives, or the DriverError that it raises: the watcher is told of either."""
        watching = self.begin(rpc, request, call.timeout_s)
        try:
            response = await send(rpc, request, call)
        except DriverError as error:
            watching.ended(None, error)
            raise
        except BaseException:
            watching.given_up()
            raise
        watching.ended(response, None)
        return response


class Watching:
    """One call under way."""

    def __init__(self, watcher: Watcher, number: int, sight: Sight | None, request: Any, limit_s: float) -> None:
        self._watcher, self._number, self._sight, self._request, self._limit_s = watcher, number, sight, request, limit_s
        self._before = sight.points() if sight is not None else {}

    def ended(self, response: Any, error: DriverError | None) -> None:
        target, staging = (self._seen(path) for path in _PATHS)
        self._watcher.ended(self._number, response, error, limit_s=self._limit_s, target=target, staging=staging)

    def given_up(self) -> None:
        self._watcher.forgot(self._number)

    def _seen(self, field: str) -> Place | None:
        path = getattr(self._request, field, "")
        return self._sight.at(path, self._before) if self._sight is not None and path else None


class WatchedDriver(WireDriver):
    """watch: None for a client as any other."""

    def __init__(self, address: str, *, watch: Watch | None, clock: Clock, metrics: CallObserver | None = None) -> None:
        super().__init__(address, clock=clock, metrics=metrics)
        self._watch = watch

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if self._watch is None:
            return await super()._send(rpc, request, call)
        return await self._watch.call(rpc, request, call, super()._send)
