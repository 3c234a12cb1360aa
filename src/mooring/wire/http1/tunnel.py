"""A tunnel through a proxy: CONNECT, and from its answer on the bytes of another connection."""

from __future__ import annotations

import asyncio

from mooring.wire.http1.connection import ByteTransport
from mooring.wire.http1.responses import ResponseReader
from mooring.wire.http1.syntax import BrokenOff, Malformed
from mooring.wire.http1.tls_transport import TlsTransport


class ProxyRefused(Exception):
    """The proxy makes no connection. status, reason: its answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"the proxy answered {status} {reason}".rstrip())
        self.status, self.reason = status, reason


class Tunnel:
    """The receiver of a connection to a proxy."""

    def __init__(self) -> None:
        self._link: ByteTransport | None = None
        self._inner: TlsTransport | None = None
        self._reader = ResponseReader("CONNECT")
        self._waiter: asyncio.Future[None] | None = None
        self._failure: Exception | None = None
        self._is_secured = False

    async def open(self, request: bytes) -> None:
        """Asks the proxy for the connection. Raises ProxyRefused, Malformed, BrokenOff, OSError."""
        if not self._is_secured:
            await self._wait()
        if self._link is not None:
            self._link.write(request)
        if self._reader.head is None:
            await self._wait()
        head = self._reader.head
        assert head is not None
        if not 200 <= head.status < 300:
            raise ProxyRefused(head.status, head.reason)

    def carry(self, inner: TlsTransport) -> None:
        """From now on all bytes are for this transport. Raises OSError when the proxy has gone."""
        if self._link is None:
            raise self._failure or ConnectionResetError()
        self._inner = inner
        inner.connection_made(self._link)

    def abort(self) -> None:
        """Breaks it."""
        if self._link is not None:
            self._link.abort()

    # what the link says

    def connected(self, link: ByteTransport) -> None:
        self._link = link

    def secured(self) -> None:
        self._is_secured = True
        self._wake()

    def received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)
            return
        try:
            self._reader.feed(data)
        except Malformed as error:
            self._fail(error)
            return
        if self._reader.head is not None:
            self._wake()

    def writable(self, yes: bool) -> None:
        if self._inner is not None:
            self._inner.resume_writing() if yes else self._inner.pause_writing()

    def lost(self) -> None:
        link, self._link = self._link, None
        assert link is not None
        if self._inner is not None:
            self._inner.connection_lost(link.failure)
            return
        failure = link.failure or ConnectionResetError()
        if self._is_secured:
            failure = BrokenOff(has_begun=self._reader.has_begun, has_head=False)
            failure.__cause__ = link.failure
        self._fail(failure)

    # inside

    async def _wait(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: Exception) -> None:
        if self._failure is None:
            self._failure = failure
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(self._failure)
        self.abort()
