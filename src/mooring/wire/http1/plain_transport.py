"""A connection without TLS, with the interface of `TlsTransport`."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol


class PlainReceiver(Protocol):
    """The receiver of a connection's bytes."""

    def connected(self, link: PlainTransport) -> None:
        """Always the first call, with `secured` right behind it."""

    def secured(self) -> None: ...

    def received(self, data: bytes) -> None: ...

    def writable(self, yes: bool) -> None:
        """Too much waits to be sent, or no longer so."""

    def lost(self) -> None:
        """The connection has gone. Always the last call."""


class PlainTransport(asyncio.BufferedProtocol):
    """One connection. buffer: shared by all links of a loop. failure, has_farewell: as of `TlsTransport`."""

    __slots__ = ("_buffer", "_receiver", "_tcp", "failure", "has_farewell")

    def __init__(self, receiver: PlainReceiver, buffer: memoryview) -> None:
        self._receiver, self._buffer = receiver, buffer
        self._tcp: asyncio.Transport | None = None
        self.failure: Exception | None = None
        self.has_farewell = False

    def write(self, data: bytes) -> None:
        if self._tcp is not None:
            self._tcp.write(data)

    def close(self) -> None:
        if self._tcp is not None:
            self._tcp.close()

    def abort(self) -> None:
        if self._tcp is not None:
            self._tcp.abort()

    def pause_reading(self) -> None:
        if self._tcp is not None and not self._tcp.is_closing():
            self._tcp.pause_reading()

    def resume_reading(self) -> None:
        if self._tcp is not None and not self._tcp.is_closing():
            self._tcp.resume_reading()

    def is_closing(self) -> bool:
        return self._tcp is None or self._tcp.is_closing()

    def set_write_buffer_limits(self, high: int) -> None:
        if self._tcp is not None:
            self._tcp.set_write_buffer_limits(high)

    def get_write_buffer_size(self) -> int:
        return 0 if self._tcp is None else self._tcp.get_write_buffer_size()

    # what the loop calls

    def connection_made(self, transport: Any) -> None:
        self._tcp = transport
        self._receiver.connected(self)
        self._receiver.secured()

    def connection_lost(self, error: Exception | None) -> None:
        self._tcp, self.failure = None, error
        self._receiver.lost()

    def pause_writing(self) -> None:
        self._receiver.writable(False)

    def resume_writing(self) -> None:
        self._receiver.writable(True)

    def eof_received(self) -> None:
        """(The loop then closes the socket.)"""
        self.has_farewell = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        self._receiver.received(bytes(self._buffer[:count]))
