"""The Driver port on a Python object in this process, with all that gRPC does to a call.

Deadlines, logs, metrics and errors are those of `Client`; messages are copied both ways, so that neither side sees the
other change its own. Time is the running loop's, which may be a virtual one.
"""

from __future__ import annotations

import asyncio
import traceback
from typing import Protocol

from google.protobuf.message import Message

from mooring.base import fence
from mooring.base.clock import Clock, ending_in
from mooring.base.log import logger
from mooring.base.logform import Lines
from mooring.csi.client import Client
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.csi.metrics import CallMetrics
from mooring.csi.redact import scrubbed
from mooring.wire.grpc.codes import Code
from mooring.wire.grpc.errors import DEADLINE_TEXT

_log = logger(__name__)


class Method(Protocol):
    """One call of a plugin's."""

    async def __call__(self, request: Message, /) -> object: ...


class InProcessDriver(Client):
    """A driver without a socket.

    plugin: has coroutine methods named as the port's (`create_volume`), each from a request to its response, raising
    DriverError; a method it lacks is Unimplemented. metrics, log_length_max: as in Client.
    """

    def __init__(
        self, plugin: object, *, clock: Clock, metrics: CallMetrics | None = None, log_length_max: int = -1
    ) -> None:
        super().__init__(clock=clock, metrics=metrics, log_length_max=log_length_max)
        self._plugin = plugin

    async def lost(self) -> None:
        """Never returns: there is nothing to lose."""
        await asyncio.get_running_loop().create_future()

    async def reconnected(self) -> None:
        """Returns at once."""

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        if refusal := fence.refused():
            raise DriverError(Code.CANCELED, refusal)
        method: Method | None = getattr(self._plugin, rpc.attribute, None)
        if method is None:
            raise DriverError(Code.UNIMPLEMENTED, f"method {rpc.name} not implemented")
        try:
            async with asyncio.timeout(call.timeout_s) as limit:
                with ending_in(call.timeout_s):
                    return _copy(await carried_out(method, rpc, _copy(request)))
        except TimeoutError:
            assert limit.expired(), "a TimeoutError of the plugin's own does not get here"
            raise DriverError(Code.DEADLINE_EXCEEDED, DEADLINE_TEXT) from None


async def carried_out(method: Method, rpc: Rpc[Q, A], request: Q) -> A:
    """A plugin's answer. An exception that is no DriverError is Unknown, as gRPC servers have it; what is no answer is
    Internal.
    """
    try:
        answer = await method(request)
    except DriverError:
        raise
    except Exception as error:  # the top of the plugin's work: its errors must not look like ours
        story = scrubbed("".join(traceback.format_exception(error)), request)
        _log.error("The driver failed", method=rpc.path, traceback=Lines(story))
        raise DriverError(Code.UNKNOWN, f"{type(error).__name__}: {error}") from None
    if not isinstance(answer, rpc.response_type):
        raise DriverError(
            Code.INTERNAL, f"the driver's answer is no {rpc.response_type.DESCRIPTOR.full_name}", answered=True
        )
    return answer


def _copy(message: Q) -> Q:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
