"""The Driver port over gRPC on a unix socket: one channel, kept for the life of the process.

Messages are serialised here rather than by gRPC's own hooks, which turn an answer that can't be read into None and a stack trace.
Unary calls only: the two streams of CSI have no caller in this project. Never fork after this module was imported.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from google.protobuf.message import DecodeError

from mooring.base.clock import Clock, Instant
from mooring.base.errors import ConfigError
from mooring.base.log import logger
from mooring.csi.address import socket_path, target, trouble
from mooring.csi.client import DEADLINE_TEXT, CallObserver, Client
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.grpc_logging import quiet_core

with quiet_core():
    import grpc
    import grpc.aio

_log = logger(__name__)

RECEIVE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer. gRPC's default of 4 MiB is reached by ListVolumes without paging at some 20,000 volumes."""

_TOO_LARGE: Final = "Received message larger than max"

ERROR_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of an answer's headers, with an error's text: Go's default. Beyond gRPC's 16 KiB any error would come as ResourceExhausted."""

LOST_TEXT: Final = "error reading from server: EOF"
"""Of a call whose connection broke, as Go's client says it."""
_READY: Final = grpc.ChannelConnectivity.READY
_FIRST_NOTICE_S: Final = 1.5  # a driver that starts with its sidecar is there by then; who mistyped a path reads it at once
_ROUNDED_UP_S: Final = 0.002
_DEADLINE_SLACK_S: Final = 0.05  # gRPC's clock and ours are read at different moments

OPTIONS: Final[tuple[tuple[str, Any], ...]] = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.min_reconnect_backoff_ms", 1_000),  # in spite of its name: the limit of one attempt
    ("grpc.use_local_subchannel_pool", 1),  # or a back-off is shared with every other channel to this path
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    ("grpc.max_receive_message_length", RECEIVE_BYTES_MAX),
    ("grpc.max_metadata_size", ERROR_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", ERROR_BYTES_MAX),
    ("grpc.enable_retries", 0),  # or a call that one driver refuses goes on to its successor, which was not identified yet
    # No keepalive: the kernel tells when a peer on a unix socket dies, and Go servers cut clients that ping too often.
)


class GrpcDriver(Client):
    """A driver behind a unix socket.

    address: `/path` or `unix:///path`; ConfigError for anything else. metrics, log_length_max: as in Client. notice_s: how often
    a connection that does not come about is mentioned in the log; the first time sooner.
    """

    def __init__(
        self, address: str, *, clock: Clock, metrics: CallObserver | None = None, log_length_max: int = -1, notice_s: float = 10.0
    ) -> None:
        super().__init__(clock=clock, metrics=metrics, log_length_max=log_length_max)
        self.path = socket_path(address)
        self._notice_s = notice_s
        self._channel: grpc.aio.Channel | None = None
        self._callables: dict[Rpc[Any, Any], grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._closed = False

    async def connect(self, timeout_s: float = 30.0, advice: str = "start the driver, or name its socket with --csi-address") -> None:
        """Returns when there is a connection; the driver may appear only meanwhile.

        Raises ConfigError when there is none in time; advice: its last words.
        """
        assert self._channel is None, "connected twice"
        self._channel = grpc.aio.insecure_channel(target(self.path), options=OPTIONS)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await self.reconnected()
        except TimeoutError:
            assert limit.expired()
            await self.close()
            what = f"no connection to the CSI driver at {self.path!r} within {timeout_s:g} s: {self._trouble()}"
            raise ConfigError(f"{what}; {advice}") from None

    async def close(self) -> None:
        """Ends the connection. Calls in flight end with Canceled. Cancel who waits in lost() or reconnected() before."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close(None)

    @property
    def is_connected(self) -> bool:
        """True while there is a connection, as far as anybody has noticed."""
        return not self._closed and self._channel is not None and self._channel.get_state() is _READY

    async def lost(self) -> None:
        """Returns when the connection breaks, without a call being made; at once if there is none."""
        if self._open().get_state() is _READY:
            await self._open().wait_for_state_change(_READY)  # only once: it may be there again by now, and was lost all the same

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

    async def _ready(self) -> None:
        while (state := self._open().get_state(try_to_connect=True)) is not _READY:
            await self._open().wait_for_state_change(state)

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        started = self._clock.now()
        try:
            answer = await self._callable(rpc)(request.SerializeToString(), timeout=_grpc_deadline_s(call.timeout_s))
        except grpc.aio.AioRpcError as error:
            raise self._error(error, call, started) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise self._closing() from None  # the channel's end, not the caller's
            raise
        if answer is None:
            raise DriverError(Code.INTERNAL, "the driver answered OK without a message", answered=True)
        try:
            return rpc.response_type.FromString(answer)
        except DecodeError:
            text = f"the driver's answer is no {rpc.response_type.DESCRIPTOR.full_name}"
            raise DriverError(Code.INTERNAL, text, answered=True) from None

    def _callable(self, rpc: Rpc[Q, A]) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
        channel = self._open()
        found = self._callables.get(rpc)
        if found is None:
            found = self._callables[rpc] = channel.unary_unary(rpc.path, None, None)
        return found

    def _open(self) -> grpc.aio.Channel:
        """The channel. Raises DriverError (Canceled) when it was closed."""
        if self._closed:
            raise self._closing()
        assert self._channel is not None, "connect() comes first"
        return self._channel

    def _closing(self) -> DriverError:
        return DriverError(Code.CANCELED, "grpc: the client connection is closing")

    def _trouble(self) -> str:
        return trouble(self.path) or "somebody listens there, but does not speak gRPC (yet)"

    def _error(self, error: grpc.aio.AioRpcError, call: Call, started: Instant) -> DriverError:
        """Returns the driver's error unchanged; a transport error or time-out gets the text that Go's client uses."""
        code, text = int(error.code().value[0]), error.details() or ""
        if code == Code.DEADLINE_EXCEEDED and self._clock.now() - started >= call.timeout_s - _DEADLINE_SLACK_S:
            return DriverError(code, DEADLINE_TEXT if _OWN_DEADLINE.fullmatch(text) else text)
        if code == Code.UNAVAILABLE:
            return DriverError(code, self._unavailable(text))
        return DriverError(code, text, answered=code == Code.RESOURCE_EXHAUSTED and _TOO_LARGE in text)

    def _unavailable(self, text: str) -> str:
        if _SOCKET_CLOSED.fullmatch(text):
            return LOST_TEXT
        refused = _NOT_CONNECTED.fullmatch(text)
        if refused is None:
            return text
        return f'connection error: desc = "transport: Error while dialing: dial unix {self.path}: connect: {refused["why"].lower()}"'


def _grpc_deadline_s(timeout_s: float) -> float:
    """The deadline for gRPC, so that the driver does not get a later one than the caller's.

    gRPC's core rounds up: to the millisecond on the way in, then to three digits in the header. 15 s would arrive as 15.1 s.
    """
    return max(timeout_s - _ROUNDED_UP_S, timeout_s / 2)


# grpcio's own texts. Tests make each of them, so that another version's wording is noticed.
_OWN_DEADLINE: Final = re.compile(r"(Stream removed \()?Deadline Exceeded\)?")
_SOCKET_CLOSED: Final = re.compile(r"(Stream removed \()?(Socket closed|recvmsg:.*|.*Connection reset by peer.*|.*Broken pipe.*)\)?")
_NOT_CONNECTED: Final = re.compile(
    r"failed to connect to all addresses; .*(connect failed|connection attempt).* error: (?P<why>[A-Z][\w ]+)"
)
