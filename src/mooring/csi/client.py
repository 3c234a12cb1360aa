"""Calls to a driver, whatever their transport: each is logged without secrets, measured, and its error made fit to
show.
"""

from __future__ import annotations

import abc
import asyncio

from mooring.base import effects
from mooring.base.clock import Clock, Instant
from mooring.base.log import logger
from mooring.csi.call_counts import CallObserver
from mooring.csi.driver import A, Call, Driver, Q, Rpc
from mooring.csi.errors import CANCELED_TEXT, DriverError
from mooring.csi.redact import redacted, scrubbed
from mooring.wire.grpc.codes import Code

_log = logger(__name__)


class Client(Driver):
    """A driver as its callers see it; a subclass is a transport.

    metrics: None counts nothing. log_length_max: characters of a response in the log (level 5), 0 or less for all of
    them; requests are never cut.
    """

    def __init__(self, *, clock: Clock, metrics: CallObserver | None = None, log_length_max: int = -1) -> None:
        self._clock, self._metrics, self._log_length_max = clock, metrics, log_length_max

    @abc.abstractmethod
    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        """One call within its deadline. Raises DriverError; CancelledError passes, and ends the call at the driver
        too.
        """

    @abc.abstractmethod
    async def lost(self) -> None:
        """Returns when the driver can't be reached any more, without a call being made; at once if it can't be now."""

    @abc.abstractmethod
    async def reconnected(self) -> None:
        """Returns when the driver can be reached; at once if it can be now."""

    async def invoke(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        assert call.timeout_s > 0
        if _log.enabled(5):
            _log.info(5, "GRPC call", method=rpc.path, request=redacted(request))
        started = self._clock.now()
        try:
            response = await self._send(rpc, request, call)
        except DriverError as error:
            error = _presentable(error, request)
            if error.unsent:
                effects.note(effects.UNSENT)
            self._ended(rpc, call, started, error.code, None, error)
            raise error from None
        except asyncio.CancelledError:
            self._ended(rpc, call, started, Code.CANCELED, None, DriverError(Code.CANCELED, CANCELED_TEXT))
            raise
        self._ended(rpc, call, started, Code.OK, response, None)
        if effects.is_noting():
            effects.note((rpc.name, hash(request.SerializeToString(deterministic=True))))  # it may hold secrets
        return response

    def _ended(
        self, rpc: Rpc[Q, A], call: Call, started: Instant, code: int, response: A | None, error: DriverError | None
    ) -> None:
        if self._metrics is not None:
            self._metrics.observe(rpc.path, code, self._clock.now() - started, call.migrated)
        if _log.enabled(5):
            shown = redacted(rpc.response_type() if response is None else response)
            _log.info(
                5,
                "GRPC response",
                method=rpc.path,
                response=_cut(shown, self._log_length_max),
                err=str(error) if error else None,
            )


def _presentable(error: DriverError, request: Q) -> DriverError:
    """The error without the request's secrets; the same one if it has none."""
    text = scrubbed(error.message, request)
    return (
        error if text == error.message else DriverError(error.code, text, answered=error.answered, unsent=error.unsent)
    )


def _cut(text: str, length_max: int) -> str:
    if length_max <= 0 or len(text) <= length_max:
        return text
    return f"{text[:length_max]} [response body too large, log capped to {length_max} chars]"
