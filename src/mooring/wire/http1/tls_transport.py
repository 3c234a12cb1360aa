"""TLS over a plain socket of the loop, for both ends.

asyncio's own TLS keeps a buffer of 256 KiB per connection, most of the memory of a thousand idle watches. Here all
connections of a loop read into one buffer, and an idle connection costs only OpenSSL's own state.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final, Protocol

from mooring.base.turns import Line

READ_BYTES: Final = 64 * 1024
"""Read from a socket at once, and from TLS."""
_RECORD: Final = 16 * 1024
WRITE_BYTES_HIGH: Final = 256 * 1024
"""Bytes waiting to be sent from which on a client counts as reading slowly."""


class Receiver(Protocol):
    """The receiver of a connection's bytes."""

    def connected(self, link: TlsTransport) -> None:
        """Always the first call."""

    def secured(self) -> None:
        """The handshake is done."""

    def received(self, data: bytes) -> None: ...

    def writable(self, yes: bool) -> None:
        """Too much waits to be sent, or no longer so."""

    def lost(self) -> None:
        """The connection has gone. Always the last call."""


class TlsTransport(asyncio.BufferedProtocol):
    """One connection. It runs on a transport of the loop or, for TLS within TLS, on another one of its kind by
    `data_received`.

    failure: what TLS or the socket failed at, which `lost` follows; None while it has not, and where the other side
    merely went away. has_farewell: the other side said that nothing more comes. Without that the connection may have
    been cut.
    """

    __slots__ = (
        "_buffer",
        "_incoming",
        "_is_client",
        "_is_closing",
        "_is_due",
        "_is_paused",
        "_line",
        "_outgoing",
        "_receiver",
        "_tcp",
        "_tls",
        "failure",
        "has_farewell",
        "is_secured",
    )

    def __init__(
        self,
        context: ssl.SSLContext,
        receiver: Receiver,
        buffer: memoryview,
        *,
        is_client: bool = False,
        server_name: str | None = None,
        line: Line | None = None,
    ) -> None:
        """buffer: shared by all links of a loop, since each is done with it before the next turn.

        line: what comes is looked at within its shares of the loop, and nothing more is read while it waits; None: at
        once. is_client: begins the handshake. server_name: which name or address the server's certificate must be for;
        "" has no meaning to TLS. Raises ValueError for a server_name that can't be one.
        """
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        # For a text Python loads its tables of all the world's letters: 0.4 MiB of memory.
        host = server_name.encode() if server_name and server_name.isascii() else server_name
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not is_client, server_hostname=host)
        self._receiver, self._buffer = receiver, buffer
        self._tcp: Any = None  # an asyncio.Transport, or a TlsTransport
        self._is_client, self._line = is_client, line
        self.failure: Exception | None = None
        self.is_secured = self.has_farewell = self._is_closing = self._is_paused = self._is_due = False

    def certificate(self) -> dict[str, Any] | None:
        """The other side's certificate, which the CA has signed, as `ssl` shows it; None if it gave none."""
        found: dict[str, Any] | None = self._tls.getpeercert()
        return found or None

    def write(self, data: bytes | memoryview) -> None:
        """Sends, or keeps until it can be sent: `Receiver.writable` says when that is too much. Once secured; nothing
        after close().
        """
        if self.is_closing():
            return
        try:
            if len(data) <= _RECORD:
                self._tls.write(data)
            else:
                view = memoryview(data)
                while view:
                    view = view[self._tls.write(view[: 4 * _RECORD]) :]
        except ssl.SSLError as error:
            self.failure = error
            self.abort()
            return
        self._tcp.write(self._outgoing.read())

    def close(self) -> None:
        """Ends the connection once everything is sent."""
        self.end_writing()
        if self._tcp is not None:
            self._tcp.close()

    def end_writing(self) -> None:
        """Sends the end of the stream; further bytes of the other side are read and dropped."""
        if self._is_closing or self._tcp is None:
            return
        self._is_closing = True
        if self.is_secured:
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # (it waits for the other side's farewell, which nobody needs)
            self._flush()

    def abort(self) -> None:
        """Breaks the connection; what waits to be sent is lost."""
        self._is_closing = True
        if self._tcp is not None:
            self._tcp.abort()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._tcp is not None and not self._tcp.is_closing():
            self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if not self._is_due and self._tcp is not None and not self._tcp.is_closing():
            self._tcp.resume_reading()

    def is_closing(self) -> bool:
        """True from when nothing can be sent any more; the other side's end of the stream counts."""
        return self._is_closing or self._tcp is None or self._tcp.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        size: int = 0 if self._tcp is None else self._tcp.get_write_buffer_size()
        return size

    def set_write_buffer_limits(self, high: int) -> None:
        if self._tcp is not None:
            self._tcp.set_write_buffer_limits(high)

    # what the loop calls

    def connection_made(self, transport: Any) -> None:
        self._tcp = transport
        transport.set_write_buffer_limits(WRITE_BYTES_HIGH)
        self._receiver.connected(self)
        if self._is_client and not self._is_closing:
            self._shake_hands()

    def connection_lost(self, error: Exception | None) -> None:
        self._tcp, self._is_closing = None, True
        self.failure = self.failure or error
        self._receiver.lost()

    def pause_writing(self) -> None:
        self._receiver.writable(False)

    def resume_writing(self) -> None:
        self._receiver.writable(True)

    def eof_received(self) -> None:
        """(The loop then closes the socket.)"""

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        if not self._is_closing:  # (else read and dropped)
            self._incoming.write(self._buffer[:count])
            self._take_turn()
        if count == len(self._buffer):
            self._let_others_go_first()

    def _take_turn(self) -> None:
        """Arrived bytes are read now, or when this client has its turn."""
        if self._line is None:
            self._advance()
        elif not self._is_due:
            self._is_due = True
            self._line.take(self._advance_in_turn)
            if self._is_due and self._tcp is not None and not self._tcp.is_closing():
                self._tcp.pause_reading()

    def _advance_in_turn(self) -> None:
        self._is_due = False
        if not self.is_closing():
            self._advance()
            self._read_on()

    def _let_others_go_first(self) -> None:
        """There is more to read, and a loop (uvloop) would read on at once, some thirty times: what came may have taken
        long enough.
        """
        if not self._is_paused and self._tcp is not None and not self._tcp.is_closing():
            self._tcp.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._is_paused:
            self.resume_reading()

    def data_received(self, data: bytes) -> None:
        """The bytes of a transport that does not read into the buffer."""
        if not self._is_closing:
            self._incoming.write(data)
            self._take_turn()

    def _advance(self) -> None:
        if not self.is_secured and not self._shake_hands():
            return
        while (self._incoming.pending or self._tls.pending()) and not self._is_closing:
            try:
                data = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError as error:
                self.failure, data = error, b""
            if not data:  # the other side's farewell, or nonsense
                self.has_farewell = self.failure is None
                self.close()
                return
            self._receiver.received(data)
        if self._outgoing.pending:
            self._flush()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except (ssl.SSLError, ValueError) as error:
            self.failure = error
            self._flush()  # says why
            self.close()
            return False
        self._flush()
        self.is_secured = True
        self._receiver.secured()
        return True

    def _flush(self) -> None:
        if self._tcp is not None:
            self._tcp.write(self._outgoing.read())
