"""One HTTP/2 connection to a driver: calls in, bytes out; bytes in, events out."""

from __future__ import annotations

from typing import Final

from mooring.csi.wire.events import Event

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer, as in `csi/grpc.py`."""

HEADER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of all headers of an answer, or of its trailers with an error's text: Go's default."""


class Connection:
    """The client's side of one connection, from its first byte to its last. Not for use by several threads.

    After each call of a method look at `to_send`, and write what it returns; don't ask for it while the transport is told to pause, so that
    what waits here stays bounded. Every method may be called after Gone, and does nothing then (`begin` excepted).
    """

    def __init__(self, *, user_agent: str = "grpc-mooring", authority: str = "localhost") -> None: ...

    def start(self) -> bytes:
        """What is sent first: the preface and our settings. Called once, before anything else."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """True while calls may begin here: from Settled on, until Leaving, Gone, or the last stream id was given away."""
        raise NotImplementedError

    @property
    def in_flight(self) -> int:
        """Calls that were begun and are neither answered nor cancelled, those included that wait for the server's MAX_CONCURRENT_STREAMS."""
        raise NotImplementedError

    @property
    def has_to_send(self) -> bool:
        """True when `to_send` would return something."""
        raise NotImplementedError

    def begin(self, path: str, message: bytes, timeout_s: float) -> int:
        """Sends a call, now or when the server has room for it, and returns its stream id. Only while `is_open`.

        path: `/csi.v1.Controller/CreateVolume`. timeout_s: > 0; the driver hears of it, never of a later one. Whoever calls keeps the time,
        and cancels.
        """
        raise NotImplementedError

    def cancel(self, stream_id: int) -> list[Event]:
        """Ends a call, at the driver too (RST_STREAM); there is no Answered for it. Does nothing when it is over already.

        Returns [Gone] when it was the last one of a connection that the server is leaving, else nothing.
        """
        raise NotImplementedError

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Takes in what was read, in pieces of any size. Raises nothing: what is no HTTP/2 ends the connection, with Gone.

        data: not kept; the same buffer may be read into again afterwards.
        """
        raise NotImplementedError

    def lost(self, text: str = "error reading from server: EOF") -> list[Event]:
        """The socket has ended or broken: every call is answered as Unavailable with this text, then Gone."""
        raise NotImplementedError

    def close(self, text: str = "grpc: the client connection is closing") -> list[Event]:
        """We leave: every call is answered as Canceled with this text and ended at the driver by GOAWAY, then Gone."""
        raise NotImplementedError

    def to_send(self) -> bytes:
        """What has to be written now, b"" for nothing."""
        raise NotImplementedError
