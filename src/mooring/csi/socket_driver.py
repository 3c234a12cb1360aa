"""A driver behind a unix socket: its address, its start, and the texts for a driver that does not answer."""

from __future__ import annotations

import abc
import asyncio
from typing import Final

from google.protobuf.message import DecodeError

from mooring.base.clock import Clock
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.address import ABSENT, socket_path, trouble
from mooring.csi.client import CallObserver, Client
from mooring.csi.driver import A, Q, Rpc
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code

_log = logger(__name__)

CLOSING_TEXT: Final = "grpc: the client connection is closing"

FIRST_BACKOFF_S: Final = 0.1
BACKOFF_S_MAX: Final = 1.0
"""From the start of one attempt to connect to the start of the next, at the most."""
ATTEMPT_S_MAX: Final = 1.0
"""For one attempt to connect, until the peer has said that it speaks HTTP/2."""

_FIRST_NOTICE_S: Final = 1.5  # a driver that starts with its sidecar is there by then; who mistyped a path reads it at once


class SocketDriver(Client):
    """A driver behind a unix socket; a subclass speaks gRPC to it.

    address: `/path` or `unix:///path`; ConfigError for anything else. metrics, log_length_max: as in Client. notice_s: how often
    a connection that does not come about is mentioned in the log; the first time sooner.
    """

    def __init__(
        self, address: str, *, clock: Clock, metrics: CallObserver | None = None, log_length_max: int = -1, notice_s: float = 10.0
    ) -> None:
        super().__init__(clock=clock, metrics=metrics, log_length_max=log_length_max)
        self.path = socket_path(address)
        self._notice_s = notice_s
        self.absent = ABSENT
        """The text while there is no socket; the person who has started the driver knows more."""

    async def connect(self, timeout_s: float = 30.0, advice: str = "start the driver, or name its socket with --csi-address") -> None:
        """Returns when there is a connection; the driver may appear only meanwhile.

        Raises ConfigError when there is none in time; advice: its last words.
        """
        self._begin()
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self.reconnected()
        except TimeoutError:
            assert limit.expired()
            await self.close()
            what = f"no connection to the CSI driver at {self.path!r} within {timeout_s:g} s: {self._trouble()}"
            raise ConfigError(f"{what}; {advice}") from None

    async def reconnected(self) -> None:
        """Returns when there is a connection, trying about once a second without end; at once if there is one."""
        notice_s = min(_FIRST_NOTICE_S, self._notice_s)
        while True:
            try:
                async with asyncio.timeout(notice_s) as limit:
                    return await self._ready()
            except TimeoutError:
                assert limit.expired()
                _log.info(0, "Still connecting", address=self.path, reason=self._trouble())
            notice_s = self._notice_s

    @property
    @abc.abstractmethod
    def is_connected(self) -> bool:
        """True while there is a connection, as far as anybody has noticed."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Ends the connection. Calls in flight end with Canceled. Cancel who waits in lost() or reconnected() before."""

    @abc.abstractmethod
    def _begin(self) -> None:
        """Readies the client for its first connection. Called once."""

    @abc.abstractmethod
    async def _ready(self) -> None:
        """Returns when there is a connection, and sees to it that there will be one. Raises DriverError (Canceled) after close()."""

    def _trouble(self) -> str:
        return trouble(self.path, self.absent) or "somebody listens there, but does not speak gRPC (yet)"


def closing() -> DriverError:
    """The error of calls that close() ends, or that come after it."""
    return DriverError(Code.CANCELED, CLOSING_TEXT)


def read_answer(rpc: Rpc[Q, A], answer: bytes | None) -> A:
    """The message of an answer whose code was OK; None: it came without one. Raises DriverError."""
    if answer is None:
        raise DriverError(Code.INTERNAL, "the driver answered OK without a message", answered=True)
    try:
        return rpc.response_type.FromString(answer)
    except DecodeError:
        text = f"the driver's answer is no {rpc.response_type.DESCRIPTOR.full_name}"
        raise DriverError(Code.INTERNAL, text, answered=True) from None
