"""A driver in this process whose calls are watched on their way to its methods."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.base.clock import time_left_s
from mooring.conform.watched import Watch
from mooring.csi.driver import RPCS, Rpc
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT

Method = Callable[[Any], Awaitable[Any]]


class WatchedMethods:
    """Stands for a driver, with the same methods. watch: is told of each call."""

    def __init__(self, driver: object, watch: Watch) -> None:
        self._driver, self._watch = driver, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._driver, name)
        return _watched(RPCS[name], found, self._watch) if name in RPCS else found


def _watched(rpc: Rpc[Any, Any], method: Method, watch: Watch) -> Method:
    async def call(request: Any) -> Any:
        limit_s = time_left_s()
        watching = watch.begin(rpc, request, math.inf if limit_s is None else limit_s)
        try:
            response = await method(request)
        except DriverError as error:
            watching.ended(None, error)
            raise
        except asyncio.CancelledError:
            if time_left_s() == 0:
                watching.ended(None, DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT))
            else:
                watching.given_up()
            raise
        except BaseException:
            watching.given_up()
            raise
        watching.ended(response, None)
        return response

    return call
