"""The Driver port over gRPC on a unix socket, spoken by ourselves: protobuf's messages over a `DriverSocket`."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from mooring.base.clock import Clock
from mooring.csi.call_counts import CallObserver
from mooring.csi.client import Client
from mooring.csi.driver import A, Call, Q, Rpc
from mooring.csi.driver_socket import ADVICE, DriverSocket
from mooring.csi.errors import DriverError
from mooring.wire.grpc.codes import Code


class WireDriver(Client):
    """address, notice_s: as in DriverSocket. metrics, log_length_max: as in Client."""

    def __init__(
        self,
        address: str,
        *,
        clock: Clock,
        metrics: CallObserver | None = None,
        log_length_max: int = -1,
        notice_s: float = 10.0,
    ) -> None:
        super().__init__(clock=clock, metrics=metrics, log_length_max=log_length_max)
        self.socket = DriverSocket(address, notice_s=notice_s)

    async def connect(self, timeout_s: float = 30.0, advice: str = ADVICE) -> None:
        """Return when there is a connection. Raises ConfigError when there is none in time; advice: its last words."""
        await self.socket.connect(timeout_s, advice)

    async def lost(self) -> None:
        await self.socket.lost()

    async def reconnected(self) -> None:
        await self.socket.reconnected()

    @property
    def is_connected(self) -> bool:
        """True while there is a connection, as far as anybody has noticed."""
        return self.socket.is_connected

    async def close(self) -> None:
        """End the connection. Calls in flight end with Canceled."""
        await self.socket.close()

    async def close_after_calls(self) -> None:
        """End the connection once no call is in flight."""
        await self.socket.close_after_calls()

    async def _send(self, rpc: Rpc[Q, A], request: Q, call: Call) -> A:
        return read_answer(rpc, await self.socket.send(rpc.path, request.SerializeToString(), call.timeout_s))


def read_answer(rpc: Rpc[Q, A], answer: bytes) -> A:
    """The message of an answer whose code was OK. Raises DriverError."""
    try:
        return rpc.response_type.FromString(answer)
    except DecodeError:
        text = f"the driver's answer is no {rpc.response_type.DESCRIPTOR.full_name}"
        raise DriverError(Code.INTERNAL, text, answered=True) from None
