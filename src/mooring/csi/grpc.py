"""The Driver port over gRPC on a unix socket: one channel, kept for the life of the process.

Messages are serialised here rather than by gRPC's own hooks, which turn an answer that can't be read into None and a stack trace.
Unary calls only: the two streams of CSI have no caller in this project. Never fork after this module was imported.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from mooring.base.clock import Clock, Instant
from mooring.csi.address import target
from mooring.csi.client import DEADLINE_TEXT, CallObserver, check_fence
from mooring.csi.codes import Code, DriverError
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.grpc_logging import quiet_core
from mooring.csi.socket_driver import ERROR_BYTES_MAX, LOST_TEXT, RECEIVE_BYTES_MAX, SocketDriver, closing, dial_text, read_answer

with quiet_core():
    import grpc
    import grpc.aio

_TOO_LARGE: Final = "Received message larger than max"
_READY: Final = grpc.ChannelConnectivity.READY
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


class GrpcDriver(SocketDriver):
    """The client on grpcio. Parameters as in SocketDriver."""

    def __init__(
        self, address: str, *, clock: Clock, metrics: CallObserver | None = None, log_length_max: int = -1, notice_s: float = 10.0
    ) -> None:
        super().__init__(address, clock=clock, metrics=metrics, log_length_max=log_length_max, notice_s=notice_s)
        self._channel: grpc.aio.Channel | None = None
        self._callables: dict[Rpc[Any, Any], grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        self._closed = False

    def _begin(self) -> None:
        assert self._channel is None, "connected twice"
        self._channel = grpc.aio.insecure_channel(target(self.path), options=OPTIONS)

    async def close(self) -> None:
        self._closed = True
        if self._channel is not None:
            await self._channel.close(None)

    @property
    def is_connected(self) -> bool:
        return not self._closed and self._channel is not None and self._channel.get_state() is _READY

    async def lost(self) -> None:
        if self._open().get_state() is _READY:
            await self._open().wait_for_state_change(_READY)  # only once: it may be there again by now, and was lost all the same

    async def _ready(self) -> None:
        while (state := self._open().get_state(try_to_connect=True)) is not _READY:
            await self._open().wait_for_state_change(state)

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        started = self._clock.now()
        check_fence()
        try:
            answer = await self._callable(rpc)(request.SerializeToString(), timeout=_grpc_deadline_s(call.timeout_s))
        except grpc.aio.AioRpcError as error:
            raise self._error(error, call, started) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise closing() from None  # the channel's end, not the caller's
            raise
        return read_answer(rpc, answer)

    def _callable(self, rpc: Rpc[Q, A]) -> grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]:
        channel = self._open()
        found = self._callables.get(rpc)
        if found is None:
            found = self._callables[rpc] = channel.unary_unary(rpc.path, None, None)
        return found

    def _open(self) -> grpc.aio.Channel:
        """The channel. Raises DriverError (Canceled) when it was closed."""
        if self._closed:
            raise closing()
        assert self._channel is not None, "connect() comes first"
        return self._channel

    def _error(self, error: grpc.aio.AioRpcError, call: Call, started: Instant) -> DriverError:
        """Returns the driver's error unchanged; a transport error or time-out gets the text that Go's client uses."""
        code, text = int(error.code().value[0]), error.details() or ""
        if code == Code.DEADLINE_EXCEEDED and self._clock.now() - started >= call.timeout_s - _DEADLINE_SLACK_S:
            return DriverError(code, DEADLINE_TEXT if _OWN_DEADLINE.fullmatch(text) else text)
        if code == Code.UNAVAILABLE:
            return DriverError(code, self._unavailable(text), unsent=_NOT_CONNECTED.fullmatch(text) is not None)
        return DriverError(code, text, answered=code == Code.RESOURCE_EXHAUSTED and _TOO_LARGE in text)

    def _unavailable(self, text: str) -> str:
        if _SOCKET_CLOSED.fullmatch(text):
            return LOST_TEXT
        refused = _NOT_CONNECTED.fullmatch(text)
        if refused is None:
            return text
        return dial_text(self.path, refused["why"])


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
